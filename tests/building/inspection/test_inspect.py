"""Each contradiction between an engine and what was asked for, found with its numbers and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.inspection.cases import ALGO, ENGINE_CASES, FMHA, KV, PLAIN, EngineCase
from tests.building.inspection.engines import engine_folder, expected
from trtspec.building import build_engines
from trtspec.building.inspection import Expectation, inspect_engine, inspect_engines, refuse
from trtspec.errors import EngineRejected
from trtspec.rules.registry import Finding, rules_of
from trtspec.spec import Role

OFF: dict[str, Any] = {FMHA: False}


def findings(folder: Path, expectation: Expectation | None = None, **changes: Any) -> list[Finding]:
    return list(inspect_engine(engine_folder(folder / "engine", **changes), expectation or expected()))


def only(found: list[Finding], rule_id: str, level: str = "error") -> Finding:
    assert [(finding.id, finding.level) for finding in found] == [(rule_id, level)]
    return found[0]


@pytest.mark.parametrize("version", ["1.0.0", "1.0.3.2510", "1.1.0", "1.2.0", "1.2.1"])
@pytest.mark.parametrize("role", ["baseline", "target", "draft"])
def test_an_engine_that_is_right(tmp_path: Path, version: str, role: Role) -> None:
    changes: dict[str, Any] = {} if role == "target" else {**PLAIN, "build_config__max_seq_len": 8192}
    folder = engine_folder(tmp_path / "engine", version, **changes)
    length = 8200 if role == "target" else 8192
    assert inspect_engine(folder, expected(role, version=version, max_seq_len=length)) == ()
    assert inspect_engine(folder, Expectation(role)) == ()


def test_every_rule_says_what_a_reader_needs() -> None:
    rules = rules_of("engine")
    assert len(rules) >= 25
    for rule in rules:
        assert rule.id.startswith(("engine-", "engines-")), rule.id
        assert rule.title, rule.id
        assert rule.explanation, rule.id
        assert rule.fix, rule.id
        assert rule.source, rule.id


# draft tokens


def test_no_draft_support_and_too_little_of_it_are_told_apart(tmp_path: Path) -> None:
    none = only(findings(tmp_path / "0", **PLAIN), "engine-draft-length")
    assert none.message == (
        "the target engine was built without draft support (mode NONE, max_draft_len 0), the spec drafts 5"
    )
    assert none.fix
    few = only(findings(tmp_path / "4", expected(given=True), build_config__max_draft_len=4), "engine-draft-length")
    assert few.message == "the target engine takes at most 4 draft tokens a step, the spec drafts 5"
    assert few.fix is not None
    assert few.fix.startswith("set speculation.draft_length: 4")


def test_the_mode_without_draft_tokens(tmp_path: Path) -> None:
    found = only(findings(tmp_path, build_config__max_draft_len=0), "engine-draft-length")
    assert "mode DRAFT_TOKENS_EXTERNAL, max_draft_len 0" in found.message


def test_another_limit_than_asked_for(tmp_path: Path) -> None:
    built = only(findings(tmp_path / "a", build_config__max_draft_len=6), "engine-draft-length")
    assert built.message == "the target engine has max_draft_len 6, 8 was asked for (speculation.max_draft_length)"
    given = findings(tmp_path / "b", expected(given=True), build_config__max_draft_len=6)
    assert only(given, "engine-draft-length", "warning").fix == "set speculation.max_draft_length: 6"
    assert findings(tmp_path / "c", expected(given=True), build_config__max_draft_len=12) == []


@pytest.mark.parametrize(
    ("role", "mode", "text"),
    [("target", 4, "MEDUSA"), ("target", 1, "NONE"), ("draft", 2, "DRAFT_TOKENS_EXTERNAL"), ("baseline", 32, "EAGLE")],
)
def test_modes_that_do_not_fit_the_role(tmp_path: Path, role: Role, mode: int, text: str) -> None:
    length = 8 if role == "target" else 0
    changes: dict[str, Any] = {"build_config__speculative_decoding_mode": mode, "build_config__max_draft_len": length}
    found = only(findings(tmp_path, expected(role), **changes), "engine-mode")
    assert text in found.message
    assert found.role == role


def test_a_draft_that_takes_draft_tokens(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"build_config__speculative_decoding_mode": 1, "build_config__max_draft_len": 3}
    found = only(findings(tmp_path, expected("draft"), **changes), "engine-draft-length")
    assert found.message == "the draft engine takes up to 3 draft tokens; a draft takes none"


# paged context FMHA: which of the silent killers it was


@pytest.mark.parametrize(
    ("changes", "sm", "cause"),
    [
        ({KV: "INT8"}, 90, "its INT8 KV cache switched it off during the build"),
        ({KV: "FP8"}, 90, "its FP8 KV cache over unquantized bfloat16 weights switched it off"),
        ({KV: "FP8", ALGO: "W4A16_AWQ"}, 90, "its FP8 KV cache over W4A16_AWQ weights switched it off"),
        ({KV: "FP8", ALGO: "FP8"}, 86, "its FP8 KV cache on SM 86 switched it off during the build (SM 89 or newer"),
        ({}, 90, "nothing else in config.json switches it off"),
    ],
)
def test_paged_context_fmha_off_and_why(tmp_path: Path, changes: dict[str, Any], sm: int, cause: str) -> None:
    asked = expected(quant_algo=changes.get(ALGO, "NO_QUANT"), kv_cache_quant_algo=changes.get(KV, "NO_QUANT"))
    found = only(findings(tmp_path, asked, manifest={"sm": sm}, **changes, **OFF), "engine-paged-context-fmha")
    assert cause in found.message
    assert found.severity == "SILENT"
    assert found.fix


def test_an_engine_that_is_just_built_is_of_the_gpu_that_will_run_it(tmp_path: Path) -> None:
    asked = expected(quant_algo="FP8", kv_cache_quant_algo="FP8", sm=86)
    found = findings(tmp_path, asked, **{ALGO: "FP8", KV: "FP8"}, **OFF)
    assert "its FP8 KV cache on SM 86" in only(found, "engine-paged-context-fmha").message


def test_context_fmha_off_takes_paged_with_it(tmp_path: Path) -> None:
    changes: dict[str, Any] = {FMHA: False, "build_config__plugin_config__context_fmha": False}
    found = {finding.id: finding for finding in findings(tmp_path, **changes)}
    assert set(found) == {"engine-context-fmha", "engine-paged-context-fmha"}
    assert "context FMHA is off, which switches it off too" in found["engine-paged-context-fmha"].message


def test_only_the_draft_lacks_it(tmp_path: Path) -> None:
    target = engine_folder(tmp_path / "target")
    draft = engine_folder(tmp_path / "draft", **PLAIN, **OFF)
    found = list(inspect_engines([(target, expected()), (draft, expected("draft"))]))
    error = only(found, "engine-paged-context-fmha")
    assert error.role == "draft"
    assert "in the draft engine" in error.message


def test_a_baseline_without_it_is_a_warning_and_an_unfair_comparison(tmp_path: Path) -> None:
    target = engine_folder(tmp_path / "target")
    changes: dict[str, Any] = {**PLAIN, FMHA: False, "build_config__max_seq_len": 8192}
    baseline = engine_folder(tmp_path / "baseline", **changes)
    found = inspect_engines([(baseline, expected("baseline", max_seq_len=8192)), (target, expected())])
    levels = {finding.id: finding.level for finding in found}
    assert levels == {"engine-paged-context-fmha": "warning", "engines-baseline": "error"}


def test_a_config_that_does_not_say(tmp_path: Path) -> None:
    only(findings(tmp_path, **dict[str, Any]({FMHA: ...})), "engine-paged-context-fmha", "warning")


# the network and its sizes


@pytest.mark.parametrize("case", ENGINE_CASES, ids=[f"{n}-{case.rule_id}" for n, case in enumerate(ENGINE_CASES)])
def test_a_contradiction_is_found_with_its_numbers(tmp_path: Path, case: EngineCase) -> None:
    found = {finding.id: finding for finding in case.findings(tmp_path)}
    assert set(found) == {case.rule_id, *case.also}
    assert case.text in found[case.rule_id].message
    assert found[case.rule_id].level == case.level
    assert found[case.rule_id].fix or case.level == "note"


def test_a_network_that_is_built_by_the_same_class(tmp_path: Path) -> None:
    assert findings(tmp_path, expected(architecture="MistralForCausalLM")) == []


def test_phi3_keeps_its_factors_elsewhere(tmp_path: Path) -> None:
    asked = expected(rotary_scaling={"type": "longrope", "short_factor": [1.0]})
    changes: dict[str, Any] = {
        "pretrained_config__rotary_scaling": None,
        "pretrained_config__longrope_scaling_short_factors": [1.0],
    }
    assert findings(tmp_path, asked, **changes) == []


def test_a_spec_with_tp_1_and_a_draft_engine_with_tp_4(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"pretrained_config__mapping__tp_size": 4, "pretrained_config__mapping__world_size": 4}
    found = only(findings(tmp_path, expected("draft", given=True), **PLAIN, **changes), "engine-mapping")
    assert found.message == "the draft engine has mapping.tp_size 4, the spec says draft.tp: 1"
    assert found.fix is not None
    assert found.fix.startswith("set draft.tp: 4")


def test_given_engines_may_be_larger_but_not_smaller(tmp_path: Path) -> None:
    large: dict[str, Any] = {"build_config__max_batch_size": 64, "build_config__max_seq_len": 32776}
    assert findings(tmp_path / "large", expected(given=True), **large) == []
    small: dict[str, Any] = {"build_config__max_batch_size": 4, "build_config__max_seq_len": 4096}
    found = findings(tmp_path / "small", expected(given=True), **small)
    assert [(finding.id, finding.level) for finding in found] == [
        ("engine-sizes", "error"),
        ("engine-sizes", "warning"),
    ]
    assert "max_seq_len 4096, 8200 is needed" in found[0].message


# the folder


def test_an_empty_folder_and_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = only(list(inspect_engine(tmp_path / "empty", expected())), "engine-unreadable")
    assert found.message == f"the target engine cannot be used: {tmp_path / 'empty'} is empty"
    only(list(inspect_engine(tmp_path / "missing", expected())), "engine-unreadable")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "1.2.1"}'])
def test_a_config_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    found = inspect_engine(tmp_path, expected())
    assert {finding.id for finding in found} == {"engine-unreadable"}
    assert str(tmp_path) in found[0].message


def test_a_key_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    found = only(findings(tmp_path, build_config__max_seq_len="8200"), "engine-unreadable")
    assert found.data["key"] == "build_config.max_seq_len"
    assert "config.json: build_config.max_seq_len: is '8200', a whole number" in found.message


TP2: dict[str, Any] = {"pretrained_config__mapping__tp_size": 2, "pretrained_config__mapping__world_size": 2}


def test_tp_2_with_one_engine_file(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine", **TP2)
    assert inspect_engine(folder, expected(tp=2)) == ()
    (folder / "rank1.engine").unlink()
    found = only(list(inspect_engine(folder, expected(tp=2))), "engine-files")
    assert found.message == f"the target engine has 2 ranks, not there: rank1.engine ({folder})"


def test_empty_and_surplus_engine_files(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine")
    (folder / "rank0.engine").write_bytes(b"")
    (folder / "rank1.engine").write_bytes(b"plan")
    messages = [finding.message for finding in inspect_engine(folder, expected())]
    assert len(messages) == 2
    assert "are empty: rank0.engine" in messages[0]
    assert "the target engine has 1 rank, but there is also rank1.engine" in messages[1]


def test_managed_weights_of_a_fast_build(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine", build_config__plugin_config__manage_weights=True)
    found = only(list(inspect_engine(folder, expected())), "engine-managed-weights")
    assert "not there: rank0_managed_weights.safetensors" in found.message
    (folder / "rank0_managed_weights.safetensors").write_bytes(b"weights")
    assert inspect_engine(folder, expected(managed_weights=True)) == ()
    only(list(inspect_engine(folder, expected(managed_weights=False))), "engine-managed-weights")


def test_an_engine_of_1_1_in_an_image_with_1_2(tmp_path: Path) -> None:
    image = "nvcr.io/nvidia/tritonserver:26.03-trtllm-python-py3"
    folder = engine_folder(tmp_path / "engine", "1.1.0")
    found = only(list(inspect_engine(folder, expected(version="1.2.0", image=image))), "engine-version")
    assert found.message == f"the target engine was built by TensorRT-LLM 1.1.0, {image} carries 1.2.0"
    assert found.fix is not None
    assert all(tag in found.fix for tag in ("26.02-trtllm", "26.01-trtllm", "25.12-trtllm"))
    assert "26.03" not in found.fix


@pytest.mark.parametrize("version", ["0.9.0", "1.2.1rc3", "banana", "9.9"])
def test_versions_that_no_table_has(tmp_path: Path, version: str) -> None:
    folder = engine_folder(tmp_path / "engine", version)
    assert only(list(inspect_engine(folder, expected())), "engine-version").fix


@pytest.mark.parametrize("manifest", [{"sm": 89}, None])
def test_an_engine_for_ada_on_a_hopper(tmp_path: Path, manifest: dict[str, Any] | None) -> None:
    """From the manifest, or from the GPU that versions before 1.2 name in config.json."""
    folder = engine_folder(tmp_path / "engine", "1.1.0", manifest=manifest)
    asked = expected(version="1.1.0", sm=90, gpu="H100-80GB-SXM")
    found = only(list(inspect_engine(folder, asked)), "engine-gpu")
    assert "was built on L4 for SM 89, it will run on H100-80GB-SXM (SM 90)" in found.message
    assert inspect_engine(folder, expected(version="1.1.0", sm=89)) == ()


def test_a_damaged_manifest_says_nothing(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine")
    for text in ("{", "[]", '{"sm": "89"}'):
        (folder / "manifest.json").write_text(text)
        assert inspect_engine(folder, expected(sm=90)) == ()


def test_a_width_from_the_engine_and_not_from_the_tokenizer(tmp_path: Path) -> None:
    asked = expected(vocab_size=11, tokenizer_width=11)
    found = only(findings(tmp_path, asked, pretrained_config__vocab_size=16), "engine-vocabulary-padded", "note")
    assert found.message == "the target engine has 16 ids, its tokenizer 11: the rest is padding"
    other = findings(tmp_path / "b", expected(vocab_size=11, tokenizer_width=None), pretrained_config__vocab_size=30)
    assert "vocab_size 30, its checkpoint 11: it is of another model" in only(other, "engine-vocabulary").message


# engines of the torch runtime


def test_torch_engines_where_they_belong_and_where_not(tmp_path: Path) -> None:
    for engine in build_engines(toy_spec(tmp_path)):
        assert inspect_engine(engine.path, Expectation(engine.role, runtime="torch")) == ()
        found = only(list(inspect_engine(engine.path, Expectation(engine.role))), "engine-runtime")
        assert found.message == f"{engine.path} is an engine of runtime torch, the spec says tensorrt_llm"
        (engine.path / "model.safetensors").unlink()
        files = inspect_engine(engine.path, Expectation(engine.role, runtime="torch"))
        assert [finding.id for finding in files] == ["engine-files"]


# engines together


def pair(folder: Path, draft: dict[str, Any], *, ids: int | None, acceptance: Any = "tokens") -> list[Finding]:
    asked: dict[str, Any] = {"tokenizer_width": ids, "vocab_size": None}
    engines = [
        (engine_folder(folder / "target"), expected(**asked)),
        (engine_folder(folder / "draft", **PLAIN, **draft), expected("draft", **asked, max_seq_len=None)),
    ]
    return [found for found in inspect_engines(engines, acceptance=acceptance) if found.id.startswith("engines-")]


def test_vocabularies_of_a_pair(tmp_path: Path) -> None:
    wider = {"pretrained_config__vocab_size": 128512}
    assert pair(tmp_path / "same", {}, ids=128000) == []
    padded = only(pair(tmp_path / "padded", wider, ids=128000), "engines-vocabulary", "note")
    assert padded.message.endswith("the draft engine 128512; both hold the tokenizer's 128000 ids")
    unsure = only(pair(tmp_path / "unsure", wider, ids=None), "engines-vocabulary", "warning")
    assert "cannot be told without the tokenizers" in unsure.message
    logits = only(pair(tmp_path / "logits", wider, ids=128000, acceptance="logits"), "engines-vocabulary")
    assert "logits of different widths" in logits.message
    real = only(pair(tmp_path / "real", wider, ids=128400), "engines-vocabulary")
    assert real.fix is not None
    assert real.fix.startswith("choose a draft with the target's tokenizer")


def test_limits_and_versions_of_a_pair(tmp_path: Path) -> None:
    small: dict[str, Any] = {"build_config__max_seq_len": 4096, "build_config__max_batch_size": 4}
    found = pair(tmp_path / "small", small, ids=None)
    assert [(item.id, item.level) for item in found] == [("engines-limits", "warning")] * 2
    old = only(pair(tmp_path / "old", {"version": "1.1.0"}, ids=None), "engines-version")
    assert old.message.endswith("target 1.2.1, draft 1.1.0")


def test_refuse_collects_every_error(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path / "engine", pretrained_config__dtype="float16", build_config__max_beam_width=2)
    found = inspect_engine(folder, expected())
    with pytest.raises(EngineRejected) as caught:
        refuse(folder, found)
    assert "dtype float16" in caught.value.message
    assert "max_beam_width 2" in caught.value.message
    assert caught.value.where == str(folder)
    assert caught.value.findings == found
    refuse(folder, [])


def test_findings_are_json(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "pretrained_config__rotary_scaling": None,
        "build_config__max_beam_width": 2,
        ALGO: "FP8",
    }
    assert json.dumps([finding.to_json() for finding in findings(tmp_path, **changes)])
