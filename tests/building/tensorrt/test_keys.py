"""Identities and keys: what changes them and what does not."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import tiny_checkpoint
from trtspec.building.identity import HashMemory
from trtspec.building.tensorrt.keys import EngineKeyParts, Identity, IdentityReader, checkpoint_key, engine_key
from trtspec.errors import CheckpointError
from trtspec.progress import SilentReporter


def reader(folder: Path, *, full: bool = False) -> IdentityReader:
    return IdentityReader(HashMemory(folder / ".hashes.json"), SilentReporter(), full)


def test_small_files_by_hash_weights_by_size_and_samples(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    identity = reader(tmp_path).read(folder)
    assert identity.model["config.json"].startswith("sha256:")
    shard = "model-00001-of-00002.safetensors"
    assert identity.model[shard].startswith(f"size:{(folder / shard).stat().st_size} sample:")
    assert identity.weight_files() == [shard, "model-00002-of-00002.safetensors"]
    assert set(identity.tokenizer) == {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}
    assert identity.absent == []
    assert reader(tmp_path).read(folder) == identity


def test_weights_that_the_index_names_and_that_are_not_here(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    whole = reader(tmp_path).read(folder)
    for shard in folder.glob("model-*.safetensors"):
        shard.unlink()
    assert len(reader(tmp_path).read(folder).absent) == 2
    assert reader(tmp_path).read(folder, recorded=whole.files) == whole


def test_a_consolidated_file_beside_the_shards_does_not_count(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    before = reader(tmp_path).read(folder)
    (folder / "consolidated.safetensors").write_bytes(b"x" * 100)
    assert reader(tmp_path).read(folder) == before


def test_a_full_hash_sees_every_byte_and_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    weights = folder / "model.safetensors"
    sampled, hashed = reader(tmp_path).read(folder), reader(tmp_path, full=True).read(folder)
    monkeypatch.setattr("trtspec.building.identity.file_sha256", lambda path: pytest.fail(f"{path} read again"))
    assert reader(tmp_path, full=True).read(folder) == hashed
    monkeypatch.undo()
    data = bytearray(weights.read_bytes())
    data[len(data) // 4 + 1] ^= 255
    weights.write_bytes(bytes(data))
    assert reader(tmp_path, full=True).read(folder) != hashed
    data[-1] ^= 255
    weights.write_bytes(bytes(data))
    assert reader(tmp_path).read(folder) != sampled


def test_code_counts_only_where_it_may_run(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    (folder / "modeling_own.py").write_text("x = 1")
    assert "modeling_own.py" not in reader(tmp_path).read(folder).files
    assert "modeling_own.py" in reader(tmp_path).read(folder, code=True).model


def test_a_damaged_index_is_left_to_the_checks(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": [1]}))
    assert reader(tmp_path).read(folder).model["config.json"]
    with pytest.raises(CheckpointError):
        reader(tmp_path).read(tmp_path / "nowhere")


IDENTITY = Identity({"config.json": "sha256:1", "model.safetensors": "size:1 sample:2"}, {"tokenizer.json": "sha256:3"})
OTHER_WORDS = Identity(IDENTITY.model, {"tokenizer.json": "sha256:4"})
ARGV = [["python", "llama/convert_checkpoint.py", "--dtype", "float16"]]


def test_what_the_key_of_a_converted_checkpoint_covers() -> None:
    key = checkpoint_key(IDENTITY, "1.2.1", ARGV, calibrated=False)
    assert checkpoint_key(OTHER_WORDS, "1.2.1", ARGV, calibrated=False) == key
    calibrated = checkpoint_key(IDENTITY, "1.2.1", ARGV, calibrated=True)
    others = {
        calibrated,
        checkpoint_key(OTHER_WORDS, "1.2.1", ARGV, calibrated=True),
        checkpoint_key(IDENTITY, "1.2.0", ARGV, calibrated=False),
        checkpoint_key(IDENTITY, "1.2.1", [[*ARGV[0], "--tp_size", "2"]], calibrated=False),
        checkpoint_key(IDENTITY, "1.2.1", [*ARGV, *ARGV], calibrated=False),
        checkpoint_key(Identity({"config.json": "sha256:2"}, {}), "1.2.1", ARGV, calibrated=False),
    }
    assert len(others | {key}) == 7


def test_what_the_key_of_an_engine_covers() -> None:
    parts = EngineKeyParts("abc", "1.2.1", 90)
    keys = {
        engine_key(parts, IDENTITY, ARGV),
        engine_key(EngineKeyParts("abd", "1.2.1", 90), IDENTITY, ARGV),
        engine_key(EngineKeyParts("abc", "1.2.0", 90), IDENTITY, ARGV),
        engine_key(EngineKeyParts("abc", "1.2.1", 89), IDENTITY, ARGV),
        engine_key(EngineKeyParts("abc", "1.2.1", None), IDENTITY, ARGV),
        engine_key(parts, OTHER_WORDS, ARGV),
        engine_key(parts, IDENTITY, [["trtllm-build"]]),
    }
    assert len(keys) == 7


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"files": []}', '{"files": {"x": 3}}', '{"files": {"PATH": {"mark": 1, "sha256": null}}}', "[" * 99999],
)
def test_a_damaged_memory_of_hashes_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    whole = reader(tmp_path, full=True).read(folder)
    (tmp_path / ".hashes.json").write_text(text.replace("PATH", str(folder / "model.safetensors")))
    assert reader(tmp_path, full=True).read(folder) == whole


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("name", ["tokenizer.json", "generation_config.json", "config.json"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, _loop, lambda path: path.symlink_to("/nowhere/at/all")])
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    folder = tiny_checkpoint(tmp_path / "model")
    (folder / name).unlink()
    make(folder / name)
    for full in (False, True):
        with pytest.raises(CheckpointError) as caught:
            reader(tmp_path, full=full).read(folder)
        assert caught.value.where == str(folder / name)
        assert caught.value.fix


def test_weights_behind_a_broken_link_are_not_here(tmp_path: Path) -> None:
    """As an interrupted download leaves them in a hub cache."""
    folder = tiny_checkpoint(tmp_path / "model")
    for target in ("../blobs/1234", "model.safetensors"):
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to(target)
        assert reader(tmp_path).read(folder).absent == ["model.safetensors"]
        assert reader(tmp_path, full=True).read(folder).absent == ["model.safetensors"]
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="is a pipe"):
        reader(tmp_path).read(folder)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"{}", b"null", b'{"weight_map": [1]}'])
def test_an_index_that_is_none(tmp_path: Path, content: bytes) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    (folder / "model.safetensors.index.json").write_bytes(content)
    assert reader(tmp_path).read(folder).absent == ["model.safetensors"]


def test_hashes_that_cannot_be_remembered_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_checkpoint(tmp_path / "model")

    def full_disk(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("trtspec.building.identity.write_json", full_disk)
    assert reader(tmp_path, full=True).read(folder).model["model.safetensors"].startswith("sha256:")
