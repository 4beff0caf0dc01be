"""Files that are no checkpoint files: each fault is named with its path and a way out."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from trtspec.checkpoints import reading
from trtspec.checkpoints.gguf_file import read_gguf
from trtspec.checkpoints.reading import REFETCH, child_names, read_document, refetch
from trtspec.checkpoints.tensors import read_safetensors_header
from trtspec.errors import CheckpointError

BAD_DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"  \n", "is empty"),
    "byte order mark": (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
    "latin-1": (b'{"a": "caf\xe9"}', "not UTF-8 text (byte 10)"),
    "broken": (b'{"a": 1,\n "b": }', "line 2, column 7"),
    "list": (b"[1, 2]", "holds a JSON list"),
    "number": (b"3", "holds a JSON int"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer"),
    "huge integer": (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
}


@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_a_bad_document_is_named_with_its_fault(tmp_path: Path, case: str) -> None:
    content, expected = BAD_DOCUMENTS[case]
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_document(path)
    assert expected in caught.value.message
    assert caught.value.where == str(path)
    assert caught.value.fix


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CheckpointError, match="is a folder where a file is expected"):
        read_document(tmp_path / "config.json")


def test_a_missing_file_and_a_dangling_link_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "blobs" / "0")
    with pytest.raises(CheckpointError, match="is missing"):
        read_document(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="link to a file that is not there"):
        read_document(tmp_path / "link.json")


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(CheckpointError, match="no such checkpoint folder") as missing:
        child_names(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="is a file, not a checkpoint folder") as file:
        child_names(tmp_path / "file")
    with pytest.raises(CheckpointError, match="no such checkpoint folder") as link:
        child_names(tmp_path / "link")
    assert "hf download" in str(missing.value.fix)
    assert str(tmp_path) in str(file.value.fix)
    assert "gone" in str(link.value.fix)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFSOCK)


@pytest.mark.parametrize("make", [make_pipe, make_device, make_socket])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.gguf"])
def test_what_has_no_end_is_not_read(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    readers: dict[str, Callable[[Path], object]] = {
        "config.json": read_document, "model.safetensors": read_safetensors_header, "model.gguf": read_gguf,
    }  # fmt: skip
    make(tmp_path / name)
    with pytest.raises(CheckpointError, match="is a pipe, a socket or a device") as caught:
        readers[name](tmp_path / name)
    assert caught.value.code == "no-file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(CheckpointError, match="permission denied") as caught:
        read_document(path)
    assert "chmod" in str(caught.value.fix)


def test_permission_denied_is_worded_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root no file is unreadable, so the system's answer is put in its place."""

    def refuse(self: Path, _mode: str) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match="permission denied"):
        read_document(tmp_path / "config.json")


def test_a_hub_cache_tells_where_the_checkpoint_lies(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "abc123").mkdir(parents=True)
    (tmp_path / "refs").mkdir()
    with pytest.raises(CheckpointError, match="is a hub cache") as caught:
        child_names(tmp_path)
    assert str(tmp_path / "snapshots" / "abc123") in str(caught.value.fix)


def test_a_hub_cache_prefers_the_revision_that_is_called_main(tmp_path: Path) -> None:
    for revision in ("aaa", "bbb"):
        (tmp_path / "snapshots" / revision).mkdir(parents=True)
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("bbb\n")
    with pytest.raises(CheckpointError) as caught:
        child_names(tmp_path)
    assert caught.value.fix == f"give this folder: {tmp_path / 'snapshots' / 'bbb'}"
    assert caught.value.code == "hub-cache"


def test_what_to_fetch_is_read_from_the_path_of_a_hub_cache() -> None:
    cache = Path("/cache/hub/models--Qwen--Qwen2.5-0.5B")
    assert refetch(cache) == "fetch what is missing: hf download Qwen/Qwen2.5-0.5B"
    assert refetch(cache / "snapshots" / "abc" / "config.json").endswith("Qwen/Qwen2.5-0.5B --revision abc")
    assert refetch(Path("/models/Qwen2.5-0.5B")) == REFETCH


def test_a_document_of_gigabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}" + " " * 100)
    monkeypatch.setattr(reading, "_LARGEST", 50)
    with pytest.raises(CheckpointError, match="larger than any such document") as caught:
        read_document(path)
    assert caught.value.code == "too-large"
