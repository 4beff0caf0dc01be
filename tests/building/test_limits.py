"""The limits of an engine for either runtime, as the repository and the checks use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.tensorrt.metadata import pair_spec
from trtspec.building.limits import derived_max_seq_len, engine_limits
from trtspec.spec import load_spec

BUILD = {"max_batch_size": 64, "max_seq_len": 128, "max_num_tokens": 100_000}


@pytest.mark.parametrize(
    ("role", "expected"),
    # 128 tokens × 64 sequences cap max_num_tokens; 8 draft tokens on top of max_seq_len; modes 1 and 2: TensorRT-LLM
    [("baseline", (128, 8192, 0, 1)), ("target", (136, 8192, 8, 2)), ("draft", (128, 8192, 0, 1))],
)
def test_tensorrt_engines_have_what_the_builder_will_write(
    tmp_path: Path, role: Any, expected: tuple[int, ...]
) -> None:
    limits = engine_limits(pair_spec(tmp_path, "Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct", build=BUILD), role)
    assert limits.max_batch_size == 64
    found = (limits.max_seq_len, limits.max_num_tokens, limits.max_draft_len, limits.speculative_decoding_mode)
    assert found == expected


def test_the_torch_runtime_takes_the_spec_as_it_is(tmp_path: Path) -> None:
    limits = engine_limits(toy_spec(tmp_path, build=BUILD), "target")
    assert (limits.max_seq_len, limits.max_num_tokens) == (136, 100_000)


def test_the_shorter_checkpoint_limits_the_pair(tmp_path: Path) -> None:
    spec_file = pair_spec(tmp_path, "Llama-3.1-8B-Instruct", "TinyLlama-1.1B-Chat")
    assert derived_max_seq_len(spec_file) == 2048


def test_a_role_with_an_engine_only_does_not_limit(tmp_path: Path) -> None:
    spec_file = pair_spec(tmp_path, "Llama-3.1-8B-Instruct", "TinyLlama-1.1B-Chat")
    text = spec_file.path.read_text().replace("checkpoint: draft", "engine: elsewhere")
    spec_file.path.write_text(text)
    assert derived_max_seq_len(load_spec(spec_file.path)) == 8192
