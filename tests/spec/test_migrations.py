"""Old keys in a spec, each with what to write instead."""

from __future__ import annotations

import pytest

from trtspec.errors import SpecError
from trtspec.spec import parse_spec
from trtspec.toolchain.flags import GONE

SPEC = "version: 1\nname: pair\nruntime: tensorrt_llm\ntarget: {checkpoint: a}\ndraft: {checkpoint: b}\n"


def hint_of(text: str) -> str | None:
    with pytest.raises(SpecError) as caught:
        parse_spec(SPEC + text)
    (problem,) = caught.value.problems
    return problem.hint


@pytest.mark.parametrize(
    ("build", "hint"),
    [
        (
            "{max_input_len: 2048, max_output_len: 2048}",  # NVIDIA/TensorRT-LLM#2057
            "max_seq_len is prompt + answer: write max_seq_len: 4096 (2048 + 2048), not 2048",
        ),
        (
            "{max_input_len: 1000, max_output_len: 24, max_seq_len: 4000}",
            "max_seq_len is prompt + answer: write max_seq_len: 1024 (1000 + 24, 4000 is given), not 24",
        ),
        ("{max_output_len: 512}", "max_seq_len is prompt + answer: write the longest prompt + 512"),
        ("{max_output_len: many}", "write max_seq_len, which is prompt + answer"),
        ("{max_draft_len: 8}", "write speculation.max_draft_length"),
        ("{use_custom_all_reduce: true}", "it is decided at run time since TensorRT-LLM 1.0; leave it out"),
        ("{gemm_plugin: auto}", "it is a trtllm-build flag: write it under build.extra_flags"),
        ("{max_seq_length: 8}", "did you mean 'max_seq_len'?"),
    ],
)
def test_keys_of_older_guides_under_build(build: str, hint: str) -> None:
    assert hint_of(f"build: {build}\n") == hint


@pytest.mark.parametrize("key", sorted(set(GONE) - {"builder_force_num_profiles", "use_context_fmha_for_generation"}))
def test_every_flag_that_is_gone_has_a_hint_as_a_key(key: str) -> None:
    hint = hint_of(f"build: {{{key}: 1}}\n")
    assert hint
    assert not hint.startswith(("did you mean", "known here"))


def test_keys_of_a_model_section() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(
            "version: 1\nname: pair\ntarget: {checkpoint: a, tp_size: 2}\ndraft: {checkpoint: b, qformat: fp8}\n"
        )
    assert [problem.hint for problem in caught.value.problems] == ["write tp", "write quantization"]


def test_other_words_for_draft_length_and_count() -> None:
    assert hint_of("speculation: {num_draft_tokens: 3}\n") == "write draft_length"
    assert hint_of("hardware: {gpu: H100, gpus: 4}\n") == "write count"
