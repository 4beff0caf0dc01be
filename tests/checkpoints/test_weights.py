"""Which files are the weights: single, shards with an index, GGUF, and everything that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.builders import tiny_checkpoint
from trtspec.checkpoints.weights import INDEX, SINGLE, Weights, read_weight_index, read_weights
from trtspec.errors import CheckpointError


def weights_of(folder: Path) -> Weights:
    return read_weights(folder, sorted(entry.name for entry in folder.iterdir()))


def shard(folder: Path, name: str, **tensors: int) -> None:
    folder.mkdir(exist_ok=True)
    save_file({key: np.zeros(size, np.float32) for key, size in tensors.items()}, folder / name)


def index(folder: Path, weight_map: Any) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_single_file_and_shards_hold_the_same(tmp_path: Path) -> None:
    one = weights_of(tiny_checkpoint(tmp_path / "one", shards=1))
    many = weights_of(tiny_checkpoint(tmp_path / "many", shards=3))
    assert len(many.files) == 3
    assert {t.name: t.shape for t in one.tensors} == {t.name: t.shape for t in many.tensors}
    assert (one.parameters, one.size) == (many.parameters, many.size)
    assert one.size == one.parameters * 4
    assert one.bytes_by_dtype == {"F32": one.size}
    assert one.extra == many.extra == one.unindexed == many.unindexed == ()


def test_embedding_and_head(tmp_path: Path) -> None:
    tied = weights_of(tiny_checkpoint(tmp_path / "tied", hidden=16, tie=True))
    untied = weights_of(tiny_checkpoint(tmp_path / "untied", hidden=16, tie=False))
    assert tied.embedding is not None
    assert tied.embedding.shape[1] == 16
    assert tied.head is None
    assert untied.head is not None
    assert untied.head.name == "lm_head.weight"


@pytest.mark.parametrize(
    "name",
    ["lm_head.weight", "lm_head.qweight", "embed_out.weight", "output.weight", "transformer.output_layer.weight"],
)
def test_heads_of_other_families(tmp_path: Path, name: str) -> None:
    shard(tmp_path, SINGLE, **{name: 4, "layers.0.attention.output.weight": 4})
    head = weights_of(tmp_path).head
    assert head is not None
    assert head.name == name


def test_hub_caches_are_folders_of_links(tmp_path: Path) -> None:
    blobs = tiny_checkpoint(tmp_path / "blobs", shards=2)
    snapshot = tmp_path / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    assert weights_of(snapshot).parameters == weights_of(blobs).parameters


def test_the_index_decides_and_a_consolidated_file_is_left_aside(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#1732: a differently named file next to the shards was taken for the model."""
    shard(tmp_path, "model-00001-of-00001.safetensors", **{"model.embed_tokens.weight": 8})
    shard(tmp_path, "consolidated.safetensors", **{"tok_embeddings.weight": 8})
    index(tmp_path, {"model.embed_tokens.weight": "model-00001-of-00001.safetensors"})
    weights = weights_of(tmp_path)
    assert [tensor.name for tensor in weights.tensors] == ["model.embed_tokens.weight"]
    assert weights.extra == ("consolidated.safetensors",)


def test_a_single_file_stands_before_an_index_as_in_transformers(tmp_path: Path) -> None:
    shard(tmp_path, SINGLE, a=1)
    shard(tmp_path, "model-00001-of-00001.safetensors", b=1)
    index(tmp_path, {"b": "model-00001-of-00001.safetensors"})
    weights = weights_of(tmp_path)
    assert weights.files == (SINGLE,)
    assert weights.extra == ("model-00001-of-00001.safetensors",)


def test_an_index_is_checked_in_both_directions(tmp_path: Path) -> None:
    shard(tmp_path, "model-00001-of-00002.safetensors", a=1, stray=1)
    shard(tmp_path, "model-00002-of-00002.safetensors", b=1, a=1)
    index(tmp_path, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    weights = weights_of(tmp_path)
    assert sorted(tensor.name for tensor in weights.tensors) == ["a", "b"]
    assert set(weights.unindexed) == {
        "stray (model-00001-of-00002.safetensors)",
        "a (model-00002-of-00002.safetensors)",
    }
    index(tmp_path, {"a": "model-00001-of-00002.safetensors", "lost": "model-00002-of-00002.safetensors"})
    with pytest.raises(
        CheckpointError, match=r"1 of 2 tensors are not in the shard .* 'lost' in model-00002"
    ) as caught:
        weights_of(tmp_path)
    assert caught.value.where == str(tmp_path / "model-00002-of-00002.safetensors")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    shard(tmp_path, "model-00001-of-00002.safetensors", a=1)
    index(tmp_path, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    with pytest.raises(CheckpointError, match=r"1 of 2 shards .* missing: model-00002-of-00002.safetensors"):
        weights_of(tmp_path)


def test_a_shard_that_is_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00001.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    index(tmp_path, {"a": "model-00001-of-00001.safetensors"})
    with pytest.raises(CheckpointError, match="link to a file that is not there"):
        weights_of(tmp_path)


def test_a_zero_byte_shard_is_named(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00001.safetensors").touch()
    index(tmp_path, {"a": "model-00001-of-00001.safetensors"})
    with pytest.raises(CheckpointError, match=r"model-00001-of-00001.safetensors: is empty \(0 bytes\)"):
        weights_of(tmp_path)


@pytest.mark.parametrize("weight_map", [None, {}, [], {"a": 3}, {"a": "../x.safetensors"}, {"a": ""}])
def test_a_malformed_index_is_refused(tmp_path: Path, weight_map: Any) -> None:
    index(tmp_path, weight_map)
    with pytest.raises(CheckpointError) as caught:
        weights_of(tmp_path)
    assert caught.value.where == str(tmp_path / INDEX)


REFUSED: dict[str, tuple[list[str], str, str]] = {
    "nothing": ([], "no weights", "hf download"),
    "pickled": (["pytorch_model.bin"], "only pickled weights (pytorch_model.bin)", "save_pretrained"),
    "shards without index": (["model-00001-of-00003.safetensors"], "1 of 3 shards but no", "hf download"),
    "other name": (["weights.safetensors"], "weights are in weights.safetensors", "mv "),
    "consolidated only": (["consolidated.safetensors"], "weights are in consolidated.safetensors", "hf download"),
    "two GGUFs": (["a.gguf", "b.gguf"], "2 GGUF files, one is expected: a.gguf, b.gguf", "keep one"),
    "split GGUF": (["m-00001-of-00002.gguf"], "one part of a split GGUF", "--merge"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_folders_without_usable_weights(tmp_path: Path, case: str) -> None:
    names, message, fix = REFUSED[case]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(CheckpointError) as caught:
        weights_of(tmp_path)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)


def test_bytes_of_each_part_of_the_model(tmp_path: Path) -> None:
    weights = weights_of(tiny_checkpoint(tmp_path, hidden=32, layers=2, heads=2, kv_heads=1, vocab_size=320, tie=False))
    sizes = weights.bytes_by_class
    assert sum(sizes.values()) == weights.size
    assert sizes["embedding"] == sizes["head"] == 320 * 32 * 4
    assert sizes["attention"] == 2 * 32 * (32 + 2 * 16 + 32) * 4
    assert sizes["mlp"] == 2 * 3 * 32 * 64 * 4
    assert sizes["norms"] == 5 * 32 * 4
    assert sizes["experts"] == sizes["other"] == 0


def test_a_tensor_in_two_shards_and_the_size_that_the_index_states(tmp_path: Path) -> None:
    shard(tmp_path, "model-00001-of-00002.safetensors", a=1, b=2)
    shard(tmp_path, "model-00002-of-00002.safetensors", b=2, c=1)
    weight_map = {"a": "model-00001-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
                  "c": "model-00002-of-00002.safetensors"}  # fmt: skip
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 99}, "weight_map": weight_map}))
    weights = weights_of(tmp_path)
    assert weights.duplicates == ("b",)
    assert weights.unindexed == ("b (model-00002-of-00002.safetensors)",)
    assert (weights.stated_size, weights.size) == (99, 16)
    assert weights_of(tiny_checkpoint(tmp_path / "good", shards=3)).duplicates == ()
    good = weights_of(tmp_path / "good")
    assert good.stated_size == good.size


@pytest.mark.parametrize("stated", [float("nan"), float("inf"), -1, 10**400, True, "16", [16]])
def test_a_size_that_is_none_is_not_stated(tmp_path: Path, stated: Any) -> None:
    shard(tmp_path, "model-00001-of-00001.safetensors", a=4)
    weight_map = {"a": "model-00001-of-00001.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": stated}, "weight_map": weight_map}))
    assert weights_of(tmp_path).stated_size is None


def test_many_shards_keep_their_order_and_name_the_one_that_is_cut(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, layers=4, shards=12)
    weights = weights_of(folder)
    assert len(weights.files) == 12
    assert [tensor.file for tensor in weights.tensors] == sorted(tensor.file for tensor in weights.tensors)
    cut = folder / weights.files[7]
    cut.write_bytes(cut.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="is cut off: 8 bytes") as caught:
        weights_of(folder)
    assert (caught.value.where, caught.value.code) == (str(cut), "truncated")


def test_headers_are_all_that_is_read(tmp_path: Path) -> None:
    """A file of 64 GiB with a hole in place of its data."""
    rows, columns = 1 << 20, 1 << 15
    entry = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [0, 2 * rows * columns]}
    header = json.dumps({"model.embed_tokens.weight": entry}).encode()
    with (tmp_path / SINGLE).open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + 2 * rows * columns)
    assert weights_of(tmp_path).size == 64 << 30


def codes(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        weights_of(folder)
    return caught.value.code


def test_each_kind_of_fault_has_a_stable_word(tmp_path: Path) -> None:
    for name in ("empty", "pickled", "shards", "odd", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").touch()
    shard(tmp_path / "shards", "model-00001-of-00002.safetensors", a=1)
    shard(tmp_path / "odd", "weights.safetensors", a=1)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "two" / name).touch()
    found = {name: codes(tmp_path / name) for name in ("empty", "pickled", "shards", "odd", "two")}
    assert found == {"empty": "no-weights", "pickled": "pickled", "shards": "no-index", "odd": "no-weights",
                     "two": "several-gguf"}  # fmt: skip


def test_an_index_without_its_shards_is_still_a_source(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path, layers=2, shards=3, tie=False)
    whole = weights_of(folder)
    (folder / whole.files[1]).unlink()
    assert codes(folder) == "shards-missing"
    seen = read_weight_index(folder, [entry.name for entry in folder.iterdir()])
    assert seen is not None
    assert seen.missing == (whole.files[1],)
    assert not seen.complete
    assert seen.has_head
    assert (seen.files, seen.total_size) == (whole.files, whole.size)
    assert set(seen.names) == {tensor.name for tensor in whole.tensors}


def test_an_index_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("{")
    assert read_weight_index(tmp_path, [INDEX]) is None
    assert read_weight_index(tmp_path, []) is None


def test_an_interrupted_hub_download_names_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "models--meta-llama--Llama-3.1-8B" / "snapshots" / "0e9e39f"
    folder.mkdir(parents=True)
    (folder / "model-00001-of-00001.safetensors").symlink_to(tmp_path / "blobs" / "gone")
    index(folder, {"a": "model-00001-of-00001.safetensors"})
    with pytest.raises(CheckpointError, match="an interrupted download") as caught:
        weights_of(folder)
    assert caught.value.fix == "fetch what is missing: hf download meta-llama/Llama-3.1-8B --revision 0e9e39f"
