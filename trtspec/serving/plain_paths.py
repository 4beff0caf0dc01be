"""Paths that Triton's Python backend can take.

It starts the process of a model with `bash -c`, and writes the model's path and its own folder into that line without
quotes (python_backend, stub_launcher.cc, up to 2026): a space ends the process ("stol"), and a `$(…)` would be run.
A repository with such a path is served through a link that has a plain one.
"""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from pathlib import Path

from trtspec.errors import ServerError
from trtspec.files import cache_dir
from trtspec.provenance import text_key

__all__ = ["is_plain", "make_link", "plain_cache", "plain_name"]

_PLAIN = re.compile(r"/[A-Za-z0-9_./+@%=:,-]*")


def is_plain(path: Path) -> bool:
    """Whether a shell takes an absolute path as one word, without quotes, and as it stands."""
    return _PLAIN.fullmatch(str(path)) is not None


def plain_cache() -> Path:
    """The cache folder, or one under the temporary folder when its path is not plain."""
    temporary = Path(tempfile.gettempdir())
    own = (temporary if is_plain(temporary) else Path("/tmp")) / f"trtspec-{os.getuid()}"  # noqa: S108
    return next((path for path in (cache_dir(), own) if is_plain(path)), own)


def plain_name(folder: Path) -> Path:
    """`folder`, or the link that stands for it when its path is not plain; nothing is made."""
    return folder if is_plain(folder) else plain_cache() / "served" / text_key([str(folder)])


def make_link(link: Path, folder: Path) -> None:
    """Let `link` lead to `folder`; ServerError when it cannot be made, or lies where others may change it."""
    try:
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (link.is_symlink() and link.readlink() == folder):
            temporary = link.with_name(f"{link.name}.{uuid.uuid4().hex[:8]}")
            temporary.symlink_to(folder)
            temporary.replace(link)
        owners = {path.lstat().st_uid for path in (link, link.parent, link.parent.parent)}
    except OSError as error:
        raise ServerError(f"cannot write {link}: {error}", fix=_FIX) from None
    if owners != {os.getuid()}:
        raise ServerError(f"{link.parent} belongs to another user", fix=_FIX)


_FIX = "set TRTSPEC_CACHE to a folder of your own, with no space in its path"
