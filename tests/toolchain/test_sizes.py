"""Sizes as they are asked for and as the engine will have them, also against the stand-in's own computation."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.building.tensorrt.stand_in.arguments import facts, parser_of
from tests.building.tensorrt.stand_in.engines import build_config_of
from trtspec.spec import parse_spec
from trtspec.toolchain.sizes import DRAFT_TOKENS_EXTERNAL, NO_SPECULATION, Sizes, engine_sizes

PLAIN = Sizes(
    max_batch_size=8,
    max_input_len=4095,
    max_seq_len=4096,
    max_num_tokens=2048,
    max_draft_len=0,
    tokens_per_block=32,
    speculative=False,
)
TARGET = dataclasses.replace(PLAIN, max_draft_len=8, speculative=True)
MODEL: dict[str, Any] = {
    "architecture": "LlamaForCausalLM",
    "dtype": "bfloat16",
    "max_position_embeddings": 131072,
    "mapping": {"tp_size": 1, "world_size": 1},
    "quantization": {"quant_algo": None, "kv_cache_quant_algo": None},
}


def test_a_plain_engine_is_written_as_asked() -> None:
    written = PLAIN.written
    assert (written.max_seq_len, written.max_num_tokens, written.max_draft_len) == (4096, 2048, 0)
    assert written.opt_num_tokens == 8
    assert written.speculative_decoding_mode == NO_SPECULATION
    assert PLAIN.notes == ()


def test_the_target_has_room_for_draft_tokens() -> None:
    written = TARGET.written
    assert (written.max_seq_len, written.max_draft_len) == (4104, 8)
    assert written.speculative_decoding_mode == DRAFT_TOKENS_EXTERNAL
    assert str(TARGET.notes[0]).startswith("max_seq_len 4096 becomes 4104: the builder adds max_draft_len 8")


@pytest.mark.parametrize(
    ("changes", "written", "why"),
    [
        ({"max_batch_size": 512}, 4608, "512 sequences × (8 + 1) tokens must fit"),
        ({"max_seq_len": 128, "max_num_tokens": 8192}, 1024, "max_seq_len 128 × max_batch_size 8"),
        ({"max_num_tokens": 16, "max_batch_size": 1}, 32, "a block of the KV cache holds 32"),
        ({"max_num_tokens": 20000}, 20000, "the builder warns above 16384"),
    ],
)
def test_max_num_tokens_is_lifted_capped_and_floored(changes: dict[str, int], written: int, why: str) -> None:
    sizes = dataclasses.replace(TARGET, **changes)  # type: ignore[arg-type]  # sizes by name
    assert sizes.written.max_num_tokens == written
    assert any(note.name == "max_num_tokens" and why in note.why for note in sizes.notes)


@pytest.mark.parametrize(
    ("chunked", "expected"),
    [(False, 8192), (True, 32767)],  # NVIDIA/TensorRT-LLM#2702: a 32k engine that rejects 9000 tokens
)
def test_the_prompt_limit_is_not_max_seq_len_without_chunks(*, chunked: bool, expected: int) -> None:
    sizes = dataclasses.replace(PLAIN, max_seq_len=32768, max_input_len=32767, max_num_tokens=8192)
    limit = sizes.prompt_limit(chunked=chunked)
    assert limit.tokens == expected
    assert str(8192 if not chunked else 32768) in limit.why


def test_a_given_prompt_length_is_ignored_with_packed_input() -> None:
    assert dataclasses.replace(PLAIN, max_input_len=1000).prompt_limit() == PLAIN.prompt_limit()


def test_the_display_holds_both_values_and_the_reason() -> None:
    shown = TARGET.document()
    assert shown["max_seq_len"]["asked"] == 4096
    assert shown["max_seq_len"]["written"] == 4104
    assert "draft tokens" in shown["max_seq_len"]["why"]
    assert shown["max_batch_size"] == {"asked": 8, "written": 8, "why": None}


SPEC = """
version: 1
name: pair
runtime: tensorrt_llm
target: {checkpoint: a}
draft: {checkpoint: b}
speculation: {draft_length: 5}
build: {max_batch_size: 4, max_num_tokens: 1024, tokens_per_block: 64}
"""


@pytest.mark.parametrize(("role", "drafts"), [("baseline", 0), ("target", 8), ("draft", 0)])
def test_sizes_of_a_spec(role: Any, drafts: int) -> None:
    sizes = engine_sizes(parse_spec(SPEC), role, 2048)
    assert sizes.max_draft_len == drafts
    assert (sizes.max_batch_size, sizes.max_seq_len, sizes.max_input_len) == (4, 2048, 2047)
    assert (sizes.max_num_tokens, sizes.tokens_per_block, sizes.speculative) == (1024, 64, role == "target")


def stand_in_config(sizes: Sizes) -> dict[str, Any]:
    """`build_config` that the stand-in's builder makes of the same sizes."""
    table = facts("trtllm_build")
    argv = ["--checkpoint_dir", "x"]
    for name in ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens", "max_draft_len"):
        argv += [f"--{name}", str(getattr(sizes, name))]
    argv += ["--tokens_per_block", str(sizes.tokens_per_block)]
    if sizes.speculative:
        argv += ["--speculative_decoding_mode", "draft_tokens_external"]
    arguments: argparse.Namespace = parser_of("x", [*table["flags"], *table["plugin_flags"]]).parse_args(argv)
    return build_config_of(arguments, MODEL)


@settings(max_examples=200, deadline=None)
@given(
    batch=st.integers(1, 4096),
    length=st.integers(16, 200_000),
    tokens=st.integers(16, 100_000),
    prompt=st.integers(1, 200_000),
    drafts=st.integers(0, 64),
    block=st.sampled_from([8, 16, 32, 64, 128]),
)
def test_both_computations_agree(batch: int, length: int, tokens: int, prompt: int, drafts: int, block: int) -> None:
    sizes = Sizes(batch, prompt, length, tokens, drafts, block, speculative=drafts > 0)
    config, written = stand_in_config(sizes), dataclasses.asdict(sizes.written)
    assert {name: config[name] for name in written} == written
