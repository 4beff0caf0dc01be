"""Version folders: the code of our Python models as `1/`, `2/`, … side by side, and which of them Triton serves.

One config.pbtxt holds for all versions of a model, so versions are versions of the code; what the configuration says
(engines, limits) is the same for all of them. Models of the C++ backend have no code and stay at version 1, and so do
files that are only placed in a repository (engines, tokenizers), which config.pbtxt names by their path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.repository.config import pbtxt
from trtspec.repository.placed import Content, Placed
from trtspec.repository.sync import generated_names

__all__ = ["AS_IT_IS", "VersionChoice", "with_versions"]

_CODE, _SOURCE = "model.py", ".py"
_VERSION = re.compile(r"([^/]+)/([1-9][0-9]*)/(.+)")


@dataclass(frozen=True)
class VersionChoice:
    """new: write the code as the next version and keep the others.

    serve: versions to serve; () the newest; None: as it was, or the newest when there is a new one.
    """

    new: bool = False
    serve: tuple[int, ...] | None = None


AS_IT_IS = VersionChoice()


def with_versions(folder: Path, wanted: Mapping[str, Content], choice: VersionChoice) -> dict[str, Content]:
    """`wanted`, whose code lies in version folders 1, moved to the version that it is to have in `folder`.

    Code of other versions that was generated earlier stays. UsageError when a version to serve would not be there.
    """
    models = sorted(name.split("/")[0] for name in wanted if name.endswith(f"/1/{_CODE}"))
    known = {model: _generated(folder, model) for model in models}
    number = max((_largest_folder(folder, model) for model in models), default=0) + 1 if choice.new else None
    files: dict[str, Content] = {name: data for name, data in wanted.items() if name.split("/")[0] not in models}
    for model in models:
        mine = number or max(known[model], default=1)
        kept = _kept(folder, model, mine)
        files |= kept | _moved(wanted, model, mine)
        there = {mine, *(version for version in known[model] if version != mine)}
        config = f"{model}/config.pbtxt"
        files[config] = _with_policy(folder / config, wanted[config], choice, (model, sorted(there)))
    return files


def _generated(folder: Path, model: str) -> set[int]:
    """Versions of a model that were generated and are still there."""
    names = (_VERSION.fullmatch(name) for name in generated_names(folder))
    return {
        int(match[2])
        for match in names
        if match and (match[1], match[3]) == (model, _CODE) and (folder / match[0]).is_file()
    }


def _largest_folder(folder: Path, model: str) -> int:
    """The largest version folder, whoever made it."""
    try:
        names = [path.name for path in (folder / model).iterdir() if path.is_dir()]
    except OSError:
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdecimal()), default=0)


def _moved(wanted: Mapping[str, Content], model: str, version: int) -> dict[str, Content]:
    """A model's files with its code in the folder of `version`."""
    first = f"{model}/1/"
    return {
        f"{model}/{version}/{name.removeprefix(first)}"
        if name.startswith(first) and not isinstance(data, Placed)
        else name: data
        for name, data in wanted.items()
        if name.split("/")[0] == model
    }


def _kept(folder: Path, model: str, version: int) -> dict[str, Content]:
    """The code of a model's other versions, as it lies there."""
    kept: dict[str, Content] = {}
    for name in generated_names(folder):
        match = _VERSION.fullmatch(name)
        other = match is not None and match[1] == model and int(match[2]) != version
        if other and name.endswith(_SOURCE) and (folder / name).is_file():
            kept[name] = Placed(folder / name, copied=False)
    return kept


def _with_policy(path: Path, wanted: Content, choice: VersionChoice, model: tuple[str, list[int]]) -> Content:
    """config.pbtxt with the version policy; as it is when the newest is served, which is what Triton does anyway."""
    name, there = model
    serve = choice.serve
    if serve is None:
        serve = () if choice.new else _served_now(path)
        serve = tuple(version for version in serve if version in there)
    if lacking := [version for version in serve if version not in there]:
        versions = ", ".join(str(version) for version in there)
        message = f"{name} has no version {', '.join(map(str, lacking))}; there is {versions}"
        raise UsageError(message, where=str(path.parent), fix="trtspec repo --history shows what was there before")
    if not serve or isinstance(wanted, Placed):
        return wanted
    config = _parse(wanted)
    config.version_policy.specific.versions.extend(sorted(serve))
    return pbtxt(config).encode()


def _served_now(path: Path) -> tuple[int, ...]:
    from google.protobuf import text_format

    try:
        policy = _parse(path.read_bytes()).version_policy
    except (OSError, ValueError, text_format.ParseError):
        return ()
    return tuple(policy.specific.versions)


def _parse(data: bytes) -> Any:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    return text_format.Parse(data.decode(), ModelConfig())
