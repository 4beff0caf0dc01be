"""Packed passes give the logits of plain transformers, whatever shares a pass and however a prompt is split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.builders import llama_tensors, tiny_checkpoint
from tests.torch_runtime.engines import CPU, build_checkpoint, engine_folder, reference
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.engine import Model
from trtspec.torch_runtime.errors import EngineUnsupported
from trtspec.torch_runtime.generic import GenericModel
from trtspec.torch_runtime.kv import SequenceKV
from trtspec.torch_runtime.llama import LeanModel
from trtspec.torch_runtime.loading import load_model

DEVICE = torch.device("cpu")
PROMPT = [5, 90, 17, 200, 33, 8, 121, 64, 250, 7, 19, 300]
OTHER = [44, 45, 46, 47, 48]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_folder(tmp_path_factory.mktemp("engine"), hidden=64, heads=4, kv_heads=2)


def logits_of(model: Model, *parts: tuple[SequenceKV, list[int]], wanted: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model.forward(PackedBatch.build(parts, wanted, DEVICE))


def expected_logits(folder: Path, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = reference(folder)(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return logits


def models(folder: Path) -> list[Model]:
    lean = load_model(folder, CPU)
    assert isinstance(lean, LeanModel)
    return [lean, GenericModel.load(folder / "hf", torch.float32, DEVICE)]


def test_whole_prompt(folder: Path) -> None:
    for model in models(folder):
        kv = SequenceKV(model.kv_shape)
        logits = logits_of(model, (kv, PROMPT), wanted=[len(PROMPT)])
        torch.testing.assert_close(logits, expected_logits(folder, PROMPT), rtol=1e-4, atol=1e-4)
        assert kv.length == len(PROMPT)


def test_chunks_beside_another_sequence(folder: Path) -> None:
    for model in models(folder):
        first, second = SequenceKV(model.kv_shape), SequenceKV(model.kv_shape)
        logits_of(model, (first, PROMPT[:7]), wanted=[0])
        mixed = logits_of(model, (second, OTHER), (first, PROMPT[7:]), wanted=[2, 3])
        expected = torch.cat((expected_logits(folder, OTHER)[-2:], expected_logits(folder, PROMPT)[-3:]))
        torch.testing.assert_close(mixed, expected, rtol=1e-4, atol=1e-4)


def test_truncated_sequence_continues(folder: Path) -> None:
    for model in models(folder):
        kv = SequenceKV(model.kv_shape)
        logits_of(model, (kv, [*PROMPT, 1, 2, 3]), wanted=[1])
        kv.truncate(len(PROMPT))
        logits = logits_of(model, (kv, [9, 10]), wanted=[2])
        expected = expected_logits(folder, [*PROMPT, 9, 10])[-2:]
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_long_sequence_over_many_blocks(folder: Path) -> None:
    tokens = [(31 * index) % 320 for index in range(230)]
    for model in models(folder):
        kv = SequenceKV(model.kv_shape)
        for start in range(0, len(tokens), 50):
            logits = logits_of(model, (kv, tokens[start : start + 50]), wanted=[1])
        torch.testing.assert_close(logits, expected_logits(folder, tokens)[-1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_row_has_the_same_bits_alone_and_beside_others(tmp_path: Path, dtype: str) -> None:
    folder = engine_folder(tmp_path, hidden=64, heads=4, kv_heads=2, dtype=dtype)
    model = load_model(folder, RuntimeOptions(device="cpu", exact_rows=True))
    alone, together = SequenceKV(model.kv_shape), SequenceKV(model.kv_shape)
    logits_of(model, (alone, PROMPT), wanted=[1])
    logits_of(model, (together, PROMPT), wanted=[1])
    draft = [11, 12, 13, 14, 15]
    single = torch.cat([logits_of(model, (alone, [token]), wanted=[1]) for token in draft])
    block = logits_of(model, (SequenceKV(model.kv_shape), OTHER), (together, draft), wanted=[0, 5])
    assert torch.equal(single, block)


def rewrite(folder: Path, tensors: dict[str, Any], **config: Any) -> None:
    from safetensors.numpy import load_file, save_file

    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    merged = {**load_file(folder / "model.safetensors"), **tensors}
    save_file(merged, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "mistral"])
def test_other_families(tmp_path: Path, family: str) -> None:
    tiny_checkpoint(tmp_path / "model", hidden=64, heads=4, kv_heads=2)
    generator = torch.Generator().manual_seed(3)

    def random(size: int) -> Any:
        return (torch.randn(size, generator=generator) * 0.5 + 1).numpy()

    extra: dict[str, Any] = {}
    for layer in range(2):
        prefix = f"model.layers.{layer}.self_attn"
        if family == "qwen2":
            extra |= {f"{prefix}.{n}_proj.bias": random(s) for n, s in (("q", 64), ("k", 32), ("v", 32))}
        if family == "qwen3":
            extra |= {f"{prefix}.{n}_norm.weight": random(16) for n in ("q", "k")}
    names = {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "mistral": "MistralForCausalLM"}
    options: dict[str, Any] = {"sliding_window": 5} if family == "mistral" else {"head_dim": 16}
    rewrite(tmp_path / "model", extra, model_type=family, architectures=[names[family]], **options)
    folder = build_checkpoint(tmp_path)
    for model in models(folder):
        first = SequenceKV(model.kv_shape)
        logits_of(model, (first, PROMPT[:7]), wanted=[0])
        logits = logits_of(model, (first, PROMPT[7:]), wanted=[5])
        torch.testing.assert_close(logits, expected_logits(folder, PROMPT)[-5:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scaling", ["llama3", "linear", "yarn"])
def test_scaled_rotary_embeddings(tmp_path: Path, scaling: str) -> None:
    tiny_checkpoint(tmp_path / "model", hidden=64, heads=4, kv_heads=2)
    rope: dict[str, Any] = {"rope_type": scaling, "rope_theta": 10000.0, "factor": 4.0}
    if scaling == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    if scaling == "yarn":
        rope |= {"original_max_position_embeddings": 128}
    rewrite(tmp_path / "model", {}, rope_parameters=rope)
    folder = build_checkpoint(tmp_path)
    for model in models(folder):
        logits = logits_of(model, (SequenceKV(model.kv_shape), PROMPT), wanted=[4])
        torch.testing.assert_close(logits, expected_logits(folder, PROMPT)[-4:], rtol=1e-4, atol=1e-4)


def test_untied_head(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path, tie=False)
    for model in models(folder):
        logits = logits_of(model, (SequenceKV(model.kv_shape), PROMPT), wanted=[2])
        torch.testing.assert_close(logits, expected_logits(folder, PROMPT)[-2:], rtol=1e-4, atol=1e-4)


def test_a_network_that_bypasses_the_attention_interface_is_refused(tmp_path: Path) -> None:
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=2)
    BloomForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(EngineUnsupported, match="cannot run BloomForCausalLM"):
        GenericModel.load(tmp_path, torch.float32, DEVICE)


def test_weights_of_the_builder_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    folder = engine_folder(tmp_path, seed=4)
    config = json.loads((folder / "hf" / "config.json").read_text())
    written = load_file(folder / "model.safetensors")
    for name, value in llama_tensors(config, 4).items():
        assert (written[name] == value).all()
