from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders import toy_spec
from tests.planning.known import spec_file, surveys_of
from trtspec.checkpoints import survey_checkpoint
from trtspec.hardware.catalogue import find_gpu
from trtspec.planning.memory import memory_plan
from trtspec.planning.values import value_origins
from trtspec.spec import Spec, SpecFile


def values_of(file: SpecFile, count: int | None = None) -> dict[str, dict[str, Any]]:
    return value_origins(file, memory_plan(file, find_gpu("H100"), surveys_of(file), count=count))


def leaves(schema_model: Any, prefix: str = "") -> set[str]:
    """Every field of the spec by dotted key."""
    names: set[str] = set()
    for name in type(schema_model).model_fields:
        value = getattr(schema_model, name)
        names |= leaves(value, f"{prefix}{name}.") if hasattr(value, "model_fields_set") else {f"{prefix}{name}"}
    return names


def test_every_value_of_the_spec_has_an_origin_and_a_reason() -> None:
    file = spec_file(hardware={"gpu": "H100-80GB-SXM", "count": 1})
    rows = values_of(file)
    assert leaves(file.spec) <= rows.keys()
    for key, row in rows.items():
        assert row["origin"] in {"given", "default", "derived"}, key
        assert row["why"], key
    json.dumps(rows, allow_nan=False)


def test_given_values_stay_given_even_when_they_equal_the_default() -> None:
    rows = values_of(spec_file(build={"max_batch_size": 8, "max_seq_len": 4096}))
    assert rows["build.max_batch_size"] == {"value": 8, "origin": "given", "why": "in the spec"}
    assert (rows["build.max_seq_len"]["value"], rows["build.max_seq_len"]["origin"]) == (4096, "given")
    assert rows["build.max_num_tokens"]["origin"] == "default"


def test_derived_values_and_why() -> None:
    rows = values_of(spec_file(target={"quantization": "fp8"}, speculation={"draft_length": 10}))
    assert rows["speculation.max_draft_length"]["value"] == 10
    assert rows["build.max_seq_len"]["value"] == 8192
    assert rows["build.max_input_len"]["value"] == 8191
    assert rows["target.dtype"]["value"] == "bfloat16"
    assert rows["target.kv_cache_dtype"]["value"] == "bfloat16"
    assert rows["draft.gpus"]["value"] == [0]
    derived = (
        "speculation.max_draft_length",
        "build.max_seq_len",
        "target.dtype",
        "target.kv_cache_dtype",
        "draft.gpus",
    )
    assert {rows[key]["origin"] for key in derived} == {"derived"}


def test_an_explicit_auto_is_derived_too() -> None:
    rows = values_of(spec_file(target={"dtype": "auto", "quantization": "fp8"}))
    assert rows["target.dtype"]["origin"] == "derived"
    assert values_of(spec_file(target={"dtype": "float16", "quantization": "fp8"}))["target.dtype"] == {
        "value": "float16",
        "origin": "given",
        "why": "in the spec",
    }


def test_what_will_be_written_into_the_engines() -> None:
    rows = values_of(spec_file(target={"checkpoint": "Llama-3.1-8B"}, build={"max_batch_size": 512}))
    assert rows["engines.target.max_seq_len"]["value"] == 8200
    assert rows["engines.target.max_num_tokens"]["value"] == 512 * 9
    assert rows["engines.draft.max_seq_len"]["value"] == 8192
    assert rows["engines.draft.max_draft_len"]["value"] == 0
    fraction = rows["engines.draft.kv_cache_free_gpu_mem_fraction"]
    assert 0 < fraction["value"] < 1
    assert "enough in any order as the cap binds" in fraction["why"]
    assert "draft → target" in fraction["why"]
    assert rows["engines.draft.max_tokens_in_paged_kv_cache"] == rows["engines.target.max_tokens_in_paged_kv_cache"]


def test_the_length_says_which_model_limits_it() -> None:
    rows = values_of(spec_file(target={"checkpoint": "Llama-2-7B"}))
    assert rows["build.max_seq_len"] == {"value": 4096, "origin": "derived", "why": "positions of the target"}


def test_the_launch_is_among_them() -> None:
    rows = values_of(spec_file(target={"tp": 2, "quantization": "fp8"}), count=2)
    assert rows["serving.launch_mode"]["value"] == "orchestrator"


def test_without_a_plan_the_spec_alone_is_shown() -> None:
    file = spec_file()
    rows = value_origins(file, None)
    assert leaves(file.spec) - {"hardware"} <= rows.keys()
    assert rows["speculation.max_draft_length"]["origin"] == "derived"
    assert rows["build.max_seq_len"]["value"] is None


def test_the_torch_runtime_has_no_engine_options(tmp_path: Path) -> None:
    file = toy_spec(tmp_path)
    surveys = {role: survey_checkpoint(file.checkpoint(role)) for role in ("target", "draft")}
    rows = value_origins(file, memory_plan(file, None, surveys))
    assert rows["target.dtype"]["value"] == "float32"
    assert rows["build.max_seq_len"]["value"] == 512
    assert not [key for key in rows if "fraction" in key]
    assert Spec.model_fields.keys() <= {key.partition(".")[0] for key in rows} | {"hardware"}
