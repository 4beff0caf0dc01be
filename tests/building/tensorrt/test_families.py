"""Every class of the engine path has a converter or a reason, and each converter gets flags that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.building.tensorrt.contract import options, violations
from tests.building.tensorrt.metadata import pair_spec, real_config
from tests.building.tensorrt.pairs import requests_of
from tests.building.tensorrt.stand_in.arguments import facts
from trtspec.building.tensorrt.commands import checkpoint_commands
from trtspec.building.tensorrt.refusal import refusal
from trtspec.building.tensorrt.tools import Tools
from trtspec.checkpoints.architectures import TENSORRT_LLM
from trtspec.checkpoints.config import parse_config
from trtspec.errors import SpecError
from trtspec.rules.facts import family_of
from trtspec.toolchain.families import FAMILIES

PLACES = facts("converters")["places"]
TOOLS = Tools(
    "python3",
    "trtllm-build",
    {name: f"examples/{place}/convert_checkpoint.py" for name, place in PLACES.items()},
    "examples/quantization/quantize.py",
    "1.2.1",
)
REFUSED = {"Grok1ModelForCausalLM", "GPTForCausalLM"}


def config_of(architecture: str) -> dict[str, Any]:
    return {**real_config("Llama-3.1-8B-Instruct"), "architectures": [architecture]}


@pytest.mark.parametrize("architecture", TENSORRT_LLM)
def test_every_class_has_a_converter_or_a_reason(architecture: str) -> None:
    family = family_of(parse_config(config_of(architecture), "here"))
    assert (family is None) == (architecture in REFUSED)
    assert (refusal(architecture) is None) == (family is not None)
    assert architecture in facts("model_map")["classes"]


def test_families_are_those_of_the_facts() -> None:
    assert {name: family.place for name, family in FAMILIES.items()} == PLACES
    single = {name for name, family in FAMILIES.items() if not family.pipeline}
    assert single == set(facts("converters")["one_pipeline_rank"])


@pytest.mark.parametrize("name", FAMILIES)
def test_traits_agree_with_the_flags(name: str) -> None:
    rows = {row["flag"]: row for row in facts("converters")[name]}
    family = FAMILIES[name]
    assert family.experts == ("--moe_tp_size" in rows)
    precisions = rows.get("--weight_only_precision", {}).get("choices", [])
    assert set(family.weight_only) == {"int8", "int4"} & set(precisions)


@pytest.mark.parametrize("minor", ["1.0", "1.2"])
@pytest.mark.parametrize("architecture", sorted(set(TENSORRT_LLM) - REFUSED))
def test_each_converter_gets_flags_that_it_has(tmp_path: Path, architecture: str, minor: str) -> None:
    spec_file = pair_spec(
        tmp_path,
        config_of(architecture),
        "Llama-3.2-1B-Instruct",
        target_options={"dtype": "bfloat16", "trust_remote_code": True, "tp": 2},
    )
    request = requests_of(spec_file, minor)["target"]
    (command,) = checkpoint_commands(request, "SOURCE", "OUTPUT", TOOLS)
    assert violations(command.argv, minor) == []
    assert options(command.argv)["--dtype"] == "bfloat16"
    for flag in facts("converters")["needs"].get(request.family, ()):
        assert flag in command.argv


def test_granite_takes_the_older_path(tmp_path: Path) -> None:
    request = requests_of(pair_spec(tmp_path, config_of("GraniteForCausalLM"), "Llama-3.2-1B-Instruct"))["target"]
    (command,) = checkpoint_commands(request, "SOURCE", "OUTPUT", TOOLS)
    assert command.env == {"TRTLLM_DISABLE_UNIFIED_CONVERTER": "1"}


@pytest.mark.parametrize(
    ("hidden", "vocab", "version"), [(4096, 64000, "v1_7b"), (5120, 64000, "v1_13b"), (5120, 125696, "v2_13b")]
)
def test_baichuan_is_told_apart(tmp_path: Path, hidden: int, vocab: int, version: str) -> None:
    config = {**config_of("BaichuanForCausalLM"), "hidden_size": hidden, "vocab_size": vocab}
    request = requests_of(pair_spec(tmp_path, config, "Llama-3.2-1B-Instruct"))["target"]
    (command,) = checkpoint_commands(request, "SOURCE", "OUTPUT", TOOLS)
    assert options(command.argv)["--model_version"] == version


def test_code_from_the_checkpoint_needs_consent(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"target\.trust_remote_code"):
        requests_of(pair_spec(tmp_path, config_of("DeciLMForCausalLM"), "Llama-3.2-1B-Instruct"))
