"""The formulas held against figures that others published; the source stands beside each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning.known import shape_of
from trtspec.planning.runtime_costs import EngineSizes, activation_item, buffer_items

GB, GIB, MIB = 1e9, 2**30, 2**20

WEIGHTS = [
    # metadata.total_size in the model.safetensors.index.json of the checkpoint
    ("Llama-2-7B", {}, 13_476_839_424, "meta-llama/Llama-2-7b-hf"),
    ("Llama-3.1-70B", {}, 141_107_412_992, "meta-llama/Llama-3.1-70B-Instruct"),
    ("Mistral-7B-v0.2", {}, 14_483_464_192, "mistralai/Mistral-7B-Instruct-v0.2"),
    ("Mixtral-8x7B", {}, 93_405_585_408, "mistralai/Mixtral-8x7B-Instruct-v0.1"),
    # table "Inference Memory Requirements" of huggingface.co/blog/llama31
    ("Llama-3.1-8B", {}, 16 * GB, "blog/llama31, FP16"),
    ("Llama-3.1-70B", {}, 140 * GB, "blog/llama31, FP16"),
    ("Llama-3.1-405B", {}, 810 * GB, "blog/llama31, FP16"),
    ("Llama-3.1-405B", {"quantization": "fp8"}, 405 * GB, "blog/llama31, FP8"),
    # "Loaded engine size: 6695 MiB" for Llama-2-7B fp8
    ("Llama-2-7B", {"quantization": "fp8"}, 6695 * MIB, "TensorRT-LLM docs/source/legacy/reference/memory.md"),
    # "Loaded engine size: 6214 MiB": by its KV cache (28 × 4096) and size the log is of GPT-J 6B in fp8
    ("GPT-J-6B", {"quantization": "fp8"}, 6214 * MIB, "TensorRT-LLM benchmarks/README of 0.12"),
    # 236 B parameters in all
    ("DeepSeek-V2", {}, 236 * 2 * GB, "arXiv 2405.04434, abstract"),
]


@pytest.mark.parametrize(("name", "source", "published", "where"), WEIGHTS, ids=lambda value: str(value)[:40])
def test_weights(name: str, source: dict[str, Any], published: float, where: str) -> None:
    assert shape_of(name, **source).weight_bytes == pytest.approx(published, rel=0.05), where


# the first file also holds 32 × 64 frequencies of the rotary embedding, which are no parameters
EXACT = {entry[0]: entry[2] for entry in WEIGHTS[:4]} | {"Llama-2-7B": 13_476_839_424 - 32 * 64 * 4}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_weights_of_known_files_are_exact(name: str) -> None:
    assert shape_of(name).weight_bytes == EXACT[name]


FP8 = {"quantization": "fp8", "kv_cache_dtype": "fp8"}
KV_PER_TOKEN = [
    # "the KV cache of a single token demands 800 KB"
    ("OPT-13B", {}, 800 * 1024, "arXiv 2309.06180 (vLLM), section 3"),
    # FP16 KV cache of 1k, 16k and 128k tokens: 0.125, 1.95, 15.62 GB for 8B; 0.313, 4.88, 39.06 for 70B
    ("Llama-3.1-8B", {}, 0.125 * GIB / 1024, "huggingface.co/blog/llama31"),
    ("Llama-3.1-8B", {}, 15.62 * GIB / 128_000, "huggingface.co/blog/llama31"),
    ("Llama-3.1-70B", {}, 0.313 * GIB / 1024, "huggingface.co/blog/llama31"),
    ("Llama-3.1-70B", {}, 39.06 * GIB / 128_000, "huggingface.co/blog/llama31"),
    # the blog's 405B row is of the model's first release with 16 KV heads (huggingface/blog#2345)
    ("Llama-3.1-405B", {"config": {"num_key_value_heads": 16}}, 0.984 * GIB / 1024, "huggingface.co/blog/llama31"),
    # the log says: Allocated 63.44 GiB for max tokens in paged KV cache (259840)
    ("Llama-2-7B", FP8, 63.44 * GIB / 259_840, "TensorRT-LLM docs/source/legacy/reference/memory.md"),
    # likewise 62.99 GiB for 294848 tokens
    ("GPT-J-6B", FP8, 62.99 * GIB / 294_848, "TensorRT-LLM benchmarks/README of 0.12"),
    # "Allocate 69524783104 bytes for k/v cache. Using 132608 tokens in paged KV cache"
    ("Llama-2-7B", {}, 69_524_783_104 / 132_608, "NVIDIA/TensorRT-LLM#1400 (a 7B without grouped queries)"),
    # 4.53 GiB for 395776 tokens
    ("Qwen2.5-0.5B", {}, 4.53 * GIB / 395_776, "NVIDIA/TensorRT-LLM#1188"),
    # (512 + 64) elements a layer, "equal to GQA with only 2.25 groups"
    ("DeepSeek-V2", {}, 2.25 * 2 * 128 * 60 * 2, "arXiv 2405.04434, section 2.1.4"),
]


@pytest.mark.parametrize(("name", "source", "published", "where"), KV_PER_TOKEN, ids=lambda value: str(value)[:40])
def test_keys_and_values_of_a_token(name: str, source: dict[str, Any], published: float, where: str) -> None:
    assert shape_of(name, **source).kv_bytes_per_token == pytest.approx(published, rel=0.05), where


def test_latent_attention_against_the_model_before_it() -> None:
    """93.3 % less than DeepSeek 67B (95 layers, 8 KV heads of 128), at 6 bits an element (arXiv 2405.04434)."""
    dense = 2 * 95 * 8 * 128 * 2
    latent = shape_of("DeepSeek-V2").kv_bytes_per_token * 6 / 16
    assert 1 - latent / dense == pytest.approx(0.933, abs=0.001)


LOGS = [
    # model, source, batch, max_seq_len, max_num_tokens, buffers, decoder
    ("Llama-2-7B", FP8, 256, 2048, 8192, 43.29 * MIB, 180.30 * MIB),
    ("GPT-J-6B", FP8, 4096, 4098, 8192, 1.14 * GIB, 4.35 * GIB),
    ("Qwen2.5-0.5B", {"quantization": "int8_wo"}, 2048, 32768, 8192, 2.66 * GIB, 5.76 * GIB),
]


@pytest.mark.parametrize("row", LOGS, ids=lambda row: str(row[0]))
def test_runtime_and_decoder_buffers_of_published_logs(row: tuple[Any, ...]) -> None:
    """NVIDIA/TensorRT-LLM#1188 and the two logs above: runtime buffers within 5 %, the decoder within 13 %."""
    name, source, batch, length, tokens, buffers, decoder = row
    sizes = EngineSizes(batch, length, tokens, max_draft_len=0, tokens_per_block=64)
    items = {item.name: item.bytes for item in buffer_items("target", shape_of(name, **source), sizes, logits=False)}

    assert items["logits and token tables"] == pytest.approx(buffers, rel=0.06)
    assert items["sampling"] == pytest.approx(decoder, rel=0.13)
    assert "draft and target probabilities" not in items


@pytest.mark.parametrize(
    ("name", "source", "batch", "tokens", "logged", "over"),
    [
        ("Qwen2.5-0.5B", {"quantization": "int8_wo"}, 2048, 8192, 773.51 * MIB, 1.1),  # NVIDIA/TensorRT-LLM#1188
        ("Qwen2.5-0.5B", {"quantization": "int8_wo"}, 1, 512, 43.26 * MIB, 1.1),  # NVIDIA/TensorRT-LLM#1188
        ("Llama-2-7B", {"quantization": "fp8"}, 256, 8192, 1134.01 * MIB, 1.1),  # the documentation's log
        ("GPT-J-6B", {"quantization": "fp8"}, 4096, 8192, 928.77 * MIB, 2.1),  # 0.12, before fp8 needed more
    ],
)
def test_activations_of_published_logs_are_not_underestimated(
    name: str, source: dict[str, Any], batch: int, tokens: int, logged: float, over: float
) -> None:
    sizes = EngineSizes(batch, 2048, tokens, max_draft_len=0, tokens_per_block=64)
    item = activation_item("target", shape_of(name, **source), sizes)

    assert item.estimate
    assert 0.95 * logged < item.bytes < over * logged


def test_the_default_batch_of_the_builder_costs_21_gib() -> None:
    """Batch 2048, 10 drafted tokens, 128256 ids: two float32 tensors of 2048 × 11 × 128256."""
    sizes = EngineSizes(2048, 8202, 22528, max_draft_len=10, tokens_per_block=32)
    items = {item.name: item for item in buffer_items("target", shape_of("Llama-3.1-70B"), sizes, logits=False)}
    item = items["draft and target probabilities"]

    assert item.bytes == 2 * 2048 * 11 * 128256 * 4
    assert item.bytes / GIB == pytest.approx(21.5, abs=0.05)
    assert item.formula == "2 × batch 2048 × (draft 10 + 1) × 1 beam × vocabulary 128256 × 4 B"
