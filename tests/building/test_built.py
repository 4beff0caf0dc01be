"""Whether a folder on disk is what its manifest says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trtspec.building.built import is_complete
from trtspec.provenance import file_sample, file_sha256

_ENGINE = b"engine " * 30_000


def finished(folder: Path, **changes: Any) -> Path:
    """A folder with a small and a large file, and its manifest, in which `changes` replace keys."""
    (folder / "config.json").write_text('{"version": "1.2.1"}')
    (folder / "rank0.engine").write_bytes(_ENGINE)
    files = {
        "config.json": {"size": 20, "sha256": file_sha256(folder / "config.json")},
        "rank0.engine": {"size": len(_ENGINE), "sha256": None, "sample": file_sample(folder / "rank0.engine")},
    }
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "files": files, **changes}))
    return folder


def test_whole(tmp_path: Path) -> None:
    assert is_complete(finished(tmp_path))
    assert not is_complete(tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rank0.engine", _ENGINE[:-1]),
        ("rank0.engine", _ENGINE[:-4096] + bytes(4096)),  # pages that never reached the disk
        ("rank0.engine", bytes(len(_ENGINE))),
        ("config.json", b'{"version": "1.2.2"}'),
        ("config.json", b""),
    ],
)
def test_damaged_after_the_build(tmp_path: Path, name: str, content: bytes) -> None:
    (finished(tmp_path) / name).write_bytes(content)
    assert not is_complete(tmp_path)


def test_a_file_that_is_gone_or_something_else(tmp_path: Path) -> None:
    (finished(tmp_path) / "config.json").unlink()
    assert not is_complete(tmp_path)
    (tmp_path / "config.json").mkdir()
    assert not is_complete(tmp_path)


def test_a_manifest_without_samples_counts_by_size(tmp_path: Path) -> None:
    finished(tmp_path, files={"rank0.engine": {"size": len(_ENGINE), "sha256": None}})
    assert is_complete(tmp_path)


@pytest.mark.parametrize(
    "files", [{}, [], None, "x", 3, {"config.json": "x"}, {"config.json": {}}, {"a\0b": {"size": 1}}]
)
def test_a_manifest_of_another_form(tmp_path: Path, files: Any) -> None:
    assert not is_complete(finished(tmp_path, files=files))


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '"x"', "[" * 100_000, '{"files":' * 5000, "\x00\x01"], ids=len)
def test_no_manifest_at_all(tmp_path: Path, text: str) -> None:
    (finished(tmp_path) / "manifest.json").write_text(text)
    assert not is_complete(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    assert not is_complete(tmp_path)
