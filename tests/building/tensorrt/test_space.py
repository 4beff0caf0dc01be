"""Estimates of what a build writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from trtspec.building.tensorrt.keys import Identity
from trtspec.building.tensorrt.space import Need, converted_size, engine_size, require_space, source_size
from trtspec.checkpoints.config import ModelConfig, parse_config
from trtspec.errors import BuildError

GB = 10**9


def model(**changes: Any) -> ModelConfig:
    """Llama 3.1 70B: 70.6 billion parameters, 141.1 GB in bfloat16."""
    data = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
        "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    return parse_config({**data, **changes}, "config.json")


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ("none", 141.1),  # as it is
        ("fp8", 72.6),  # 68.5 of 70.6 billion weights at one byte, embedding and head at two
        ("nvfp4", 43.6),
        ("int4_awq", 40.2),
        ("int8_wo", 73.5),
    ],
)
def test_size_of_a_70b_after_conversion(quantization: str, expected: float) -> None:
    size = converted_size(int(141.1 * GB), model(), quantization, tp=1)
    assert size == pytest.approx(expected * GB, rel=0.03)


def test_each_rank_holds_the_embedding_again() -> None:
    one, four = (converted_size(int(141.1 * GB), model(), "none", tp) for tp in (1, 4))
    assert four - one == pytest.approx(3 * 2 * 128256 * 8192, rel=0.03)
    assert engine_size(GB, 4) - engine_size(GB, 1) == 3 * (64 << 20)


def test_a_quantized_checkpoint_keeps_its_size() -> None:
    quantized = model(quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128})
    assert converted_size(40 * GB, quantized, "none", 1) == pytest.approx(40 * GB, rel=0.03)


def test_source_size_from_files_or_index(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "model", shards=2)
    names = sorted(path.name for path in folder.glob("model-*"))
    here = Identity(dict.fromkeys(names, "size:1 sample:1"), {})
    assert source_size(folder, here) == sum((folder / name).stat().st_size for name in names)
    absent = Identity(dict.fromkeys(names, "absent"), {})
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert source_size(folder, absent) == index["metadata"]["total_size"]
    for claim in ("9" * 400, "1e999", "-5", "NaN", '"x"', "null", "[" * 9999):
        (folder / "model.safetensors.index.json").write_text(f'{{"metadata": {{"total_size": {claim}}}}}')
        assert source_size(folder, absent) is None
    (folder / "model.safetensors.index.json").unlink()
    assert source_size(folder, absent) is None


def test_the_error_names_need_free_space_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    require_space(tmp_path / "engines", [Need("build draft", 9 << 30)])
    with pytest.raises(BuildError) as caught:
        require_space(tmp_path / "engines", [Need("convert draft", 4 << 30), Need("build draft", 8 << 30)])
    assert caught.value.message == (
        "about 12 GiB are needed (convert draft 4 GiB, build draft 8 GiB), only 10 GiB are free"
    )
    assert caught.value.where == str(tmp_path)
