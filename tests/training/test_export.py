from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.toys import VOCABULARY, tiny_model, tokenizer_files
from trtspec.checkpoints import architecture_support, parameter_count, read_checkpoint
from trtspec.checkpoints.architectures import TENSORRT_LLM
from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.checkpoints.tensor_classes import tensor_class
from trtspec.files import read_json
from trtspec.toolchain.families import converter_family
from trtspec.training.export import Export, export_draft, made_by_distill
from trtspec.training.model import DraftShape, draft_config, new_draft
from trtspec.training.network import vocabulary_rows, with_vocabulary


@pytest.fixture
def target(tmp_path: Path) -> Path:
    tokenizer_files(tmp_path / "target", [f"w{i}" for i in range(VOCABULARY - 3)])
    return tmp_path / "target"


def draft_from_scratch() -> Any:
    shape = DraftShape(hidden=16, layers=2, heads=2, kv_heads=1, intermediate=24)
    small = new_draft(draft_config(shape, tiny_model().config, VOCABULARY), torch.randn(VOCABULARY, 16))
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    return with_vocabulary(small, vocabulary_rows(small), special)


@torch.inference_mode()
def test_an_exported_draft_loads_in_transformers(target: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    draft, out = tiny_model(), tmp_path / "draft"
    ids = torch.arange(20)[None]
    before = draft(ids).logits
    export_draft(draft, out, Export(target, "# Read me\n", {"seed": 3}, [7, 3], [2, 5]))
    loaded = AutoModelForCausalLM.from_pretrained(str(out), dtype=torch.float32)
    torch.testing.assert_close(loaded(ids).logits, before, rtol=0.02, atol=0.02)
    assert (out / "tokenizer.json").read_bytes() == (target / "tokenizer.json").read_bytes()
    assert (out / "README.md").read_text() == "# Read me\n"
    assert read_json(out / "config.json")["dtype"] == "float16"
    assert read_draft_vocabulary(out, VOCABULARY) == [3, 7]
    assert read_json(out / "generation_config.json")["eos_token_id"] == [2, 5]
    assert read_json(out / "distill.json") == {"schema": 1, "seed": 3}
    assert made_by_distill(out)
    assert not made_by_distill(target)


def test_what_transformers_4_and_so_tensorrt_llm_reads_is_there_too(target: Path, tmp_path: Path) -> None:
    draft = draft_from_scratch()
    export_draft(draft, tmp_path / "draft", Export(target, ""))
    data = read_json(tmp_path / "draft" / "config.json")
    assert data["rope_theta"] == data["rope_parameters"]["rope_theta"] == 1e10
    assert data["rope_scaling"] is None
    assert data["torch_dtype"] == data["dtype"]


def test_scaled_positions_are_kept_in_both_forms(target: Path, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}
    config = LlamaConfig(
        vocab_size=9,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        rope_parameters=rope,
    )
    export_draft(LlamaForCausalLM(config), tmp_path / "draft", Export(target, ""))
    data = read_json(tmp_path / "draft" / "config.json")
    assert data["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    assert data["rope_theta"] == 5000.0


def test_the_llama_converter_of_tensorrt_llm_reads_it(target: Path, tmp_path: Path) -> None:
    export_draft(draft_from_scratch(), tmp_path / "draft", Export(target, ""))
    found = read_checkpoint(tmp_path / "draft")
    architecture = found.config.architecture or ""
    assert architecture_support(architecture, "tensorrt_llm") == "supported"
    family = converter_family(architecture, TENSORRT_LLM[architecture])
    assert family is not None
    assert family.name == "llama"
    assert {tensor_class(tensor.name) for tensor in found.weights.tensors} == {"embedding", "attention", "mlp", "norms"}
    names = {tensor.name for tensor in found.weights.tensors}
    inside = {name.split(".", 3)[3] for name in names if ".layers." in name}
    assert inside == {
        "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.o_proj.weight",
        "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", "input_layernorm.weight",
        "post_attention_layernorm.weight",
    }  # fmt: skip
    assert names >= {"model.embed_tokens.weight", "model.norm.weight"}
    assert found.config.tied is True
    counted = parameter_count(found.config)
    assert counted is not None
    assert counted.total == sum(math.prod(tensor.shape) for tensor in found.weights.tensors)


def test_the_same_draft_gives_the_same_bytes(target: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        torch.manual_seed(0)
        export_draft(draft_from_scratch(), tmp_path / name, Export(target, "text", {"x": 1}, [4]))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_weights_too_large_for_float16_are_written_in_bfloat16(target: Path, tmp_path: Path) -> None:
    draft = draft_from_scratch()
    with torch.no_grad():
        draft.model.norm.weight[0] = 1e6
    export_draft(draft, tmp_path / "draft", Export(target, ""))
    assert read_json(tmp_path / "draft" / "config.json")["dtype"] == "bfloat16"
    assert set(read_checkpoint(tmp_path / "draft").weights.bytes_by_dtype) == {"BF16"}
