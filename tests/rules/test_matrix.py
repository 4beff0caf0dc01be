"""Known pairs, right and wrong: a check finds exactly what it must, neither less nor more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.bad_pairs import BAD_PAIRS
from tests.rules.good_pairs import GOOD_PAIRS, QUANTIZED_PAIRS
from tests.rules.matrix import Pair
from tests.rules.pairs import pair_spec, real_config
from trtspec.checkpoints.config import parse_config
from trtspec.checkpoints.parameters import parameter_count
from trtspec.errors import PairError
from trtspec.rules import check_pair, require_pair

PAIRS = (*GOOD_PAIRS, *QUANTIZED_PAIRS, *BAD_PAIRS)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name.replace(" ", "-") for pair in PAIRS])
def test_a_check_finds_exactly_what_is_wrong(tmp_path: Path, pair: Pair) -> None:
    spec = pair_spec(tmp_path, pair.target, pair.draft, pair.sections)
    result = check_pair(spec)
    found = sorted(f"{finding.level} {finding.role} {finding.id}" for finding in result.findings)
    assert found == sorted(pair.findings)
    assert result.ok == ("error" not in {finding.level for finding in result.findings})
    # what is only worth a note stops nothing
    assert not [finding.id for finding in result.findings if (finding.level, finding.severity) == ("note", "CRASH")]


# parameters as the model cards (safetensors metadata) state them
PUBLISHED = {
    "Llama-2-7b-chat": 6_738_415_616,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B-Instruct": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B-Instruct": 1_235_814_400,
    "Llama-3.2-3B-Instruct": 3_212_749_824,
    "Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen2.5-72B-Instruct": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "Mixtral-8x7B-Instruct-v0.1": 46_702_792_704,
    "gemma-2-2b-it": 2_614_341_888,
    "gemma-2-27b-it": 27_227_128_320,
    "gemma-3-1b-it": 999_885_952,
    "Phi-3-mini-4k-instruct": 3_821_079_552,
    "Phi-3-medium-4k-instruct": 13_960_238_080,
    "SmolLM2-135M-Instruct": 134_515_008,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V2": 235_741_434_880,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_configs_are_those_of_the_models(name: str) -> None:
    count = parameter_count(parse_config(real_config(name), name))
    assert count is not None
    assert count.total == PUBLISHED[name]


def test_the_matrix_is_large_and_has_both_kinds() -> None:
    wrong = [pair for pair in PAIRS if any(finding.startswith("error") for finding in pair.findings)]
    assert len(PAIRS) >= 60
    assert len(wrong) >= 25
    assert len(PAIRS) - len(wrong) >= 25
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize(
    "name",
    ["an unknown architecture", "deepseek v3", "llama 4", "tp 6", "fp8 on A100", "version 1.3"],
)
def test_what_cannot_be_built_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    pair = next(pair for pair in PAIRS if pair.name == name)
    with pytest.raises(PairError) as caught:
        require_pair(pair_spec(tmp_path, pair.target, pair.draft, pair.sections), weights=False)
    assert caught.value.fix
