"""Every rule about pairs, fired by a real pair of folders that differs from a good one in one thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.builders import END_TOKEN, tiny_checkpoint, toy_spec
from tests.rules.cases import PAIR_CASES
from tests.rules.model_cases import LLAMA3_CUT
from tests.rules.toys import Case, checked, config, cut, draft, edit_spec, engine, padded, rename_token, target
from trtspec.errors import PairError
from trtspec.rules import RULES, check_pair, require_pair
from trtspec.rules.registry import LEVELS
from trtspec.spec import SpecFile

CASES = [pytest.param(*case, id=f"{number}-{case[0]}") for number, case in enumerate(PAIR_CASES)]


def test_the_toy_pair_is_free_of_errors(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert result.ok
    assert [finding.id for finding in result.findings] == ["draft-costly"]


def test_the_toy_pair_as_engines_is_free_of_errors(tmp_path: Path) -> None:
    result = checked(tmp_path, engine())
    assert result.ok
    assert [finding.id for finding in result.findings] == ["draft-costly"]


@pytest.mark.parametrize(("rule_id", "case"), CASES)
def test_a_rule_fires_with_its_numbers(tmp_path: Path, rule_id: str, case: Case) -> None:
    tiny_checkpoint(tmp_path / "small", hidden=16, layers=1)
    result = checked(tmp_path, case.change)
    found = [finding for finding in result.findings if finding.id == rule_id and finding.role == case.role]
    assert found, [(finding.id, finding.message) for finding in result.findings]
    assert case.says in found[0].message
    assert found[0].level == case.level
    assert found[0].severity == (case.severity or RULES[rule_id].severity)
    assert found[0].fix or found[0].level == "note"
    assert result.ok == all(finding.level != "error" for finding in result.findings)
    json.dumps(result.to_json(), allow_nan=False)


def test_a_missing_folder_gives_one_finding(tmp_path: Path) -> None:
    result = checked(tmp_path, lambda s: edit_spec(s, "draft", checkpoint="gone"))
    assert [finding.id for finding in result.of_level("error")] == ["checkpoint-missing"]
    assert str(tmp_path / "gone") in result.of_level("error")[0].message


def test_all_faults_are_listed_errors_first(tmp_path: Path) -> None:
    def change(spec: SpecFile) -> None:
        cut(target(spec) / "model.safetensors")
        config(spec, rope_scaling=LLAMA3_CUT, max_position_embeddings=64)
        rename_token(draft(spec), 50, "other")

    result = checked(tmp_path, change)
    ids = [finding.id for finding in result.findings]
    assert {"weights-unreadable", "rope-scaling", "tokenizer-differs", "draft-shorter"} <= set(ids)
    levels = [LEVELS.index(finding.level) for finding in result.findings]
    assert levels == sorted(levels)


def test_overlap_is_reported_without_a_forecast_of_acceptance(tmp_path: Path) -> None:
    """vllm-project/vllm#38174."""
    spec = toy_spec(tmp_path)
    words = [f"w{index}" for index in range(9)] + [END_TOKEN]
    for folder, different in ((target(spec), ()), (draft(spec), (3, 6, 8))):
        vocab = {(f"x{index}" if index in different else word): index for index, word in enumerate(words)}
        tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="w0"))
        tokenizer.save(str(folder / "tokenizer.json"))
    result = check_pair(spec)
    [finding] = [finding for finding in result.findings if finding.id == "tokenizer-differs"]
    assert "7 of 10 ids" in finding.message
    assert "70.0%" in finding.message
    assert "acceptance" not in finding.message
    assert finding.data["token_overlap"] == 0.7
    assert result.to_json()["pair"]["token_overlap"] == 0.7
    assert result.to_json()["pair"]["same_tokenizer"] is False


def test_sentencepiece_against_bpe_is_refused_and_padding_is_not(tmp_path: Path) -> None:
    """huggingface/transformers#33383: no re-encoding; #46936: sizes do not tell tokenizers apart."""
    spec = toy_spec(tmp_path)
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁the", -1.0), ("▁a", -2.0), (END_TOKEN, -3.0)], unk_id=0))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.save(str(draft(spec) / "tokenizer.json"))
    assert "tokenizer-differs" in [finding.id for finding in check_pair(spec).of_level("error")]

    padded(draft(spec), 640)
    result = check_pair(spec)
    assert result.ok
    assert result.to_json()["pair"]["same_tokenizer"] is True


def test_logits_of_different_width_are_refused_tokens_are_not(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#3615: 128000 against 128256 rows."""
    spec = toy_spec(tmp_path, runtime="tensorrt_llm", speculation={"acceptance": "logits"})
    padded(draft(spec), 640)
    [finding] = check_pair(spec).of_level("error")
    assert finding.id == "vocabulary-sizes-differ"
    assert finding.data["draft"] == 640


def test_a_tied_head_is_no_fault(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#1733: no lm_head in the file, tie_word_embeddings true."""
    result = checked(tmp_path)
    weights = result.facts.surveys["draft"].weights
    assert weights is not None
    assert weights.head is None
    assert "head-missing" not in [finding.id for finding in result.findings]


@pytest.mark.parametrize(
    ("scaling", "errors"),
    [
        ({"type": "linear", "factor": 4}, 0),
        ({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
          "original_max_position_embeddings": 64}, 0),
        ({"rope_type": "llama3", "factor": 8}, 1),
    ],
)  # fmt: skip
def test_rope_scaling(tmp_path: Path, scaling: dict[str, Any], errors: int) -> None:
    """NVIDIA/TensorRT-LLM#2105, #2471."""
    result = checked(tmp_path, lambda s: config(s, rope_scaling=scaling))
    found = [finding for finding in result.findings if finding.id == "rope-scaling"]
    assert len(found) == errors


def test_a_consolidated_file_is_announced(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#1732."""

    def change(spec: SpecFile) -> None:
        save_file({"tok_embeddings.weight": np.zeros(4, np.float32)}, draft(spec) / "consolidated.safetensors")

    result = checked(tmp_path, change)
    assert result.ok
    [note] = [finding for finding in result.findings if finding.id == "extra-weight-files"]
    assert note.data == {"files": ["consolidated.safetensors"]}


@pytest.mark.parametrize(
    ("architecture", "runtime", "rule_id"),
    [
        ("Qwen3ForCausalLM", "tensorrt_llm", None),
        ("SmolLM3ForCausalLM", "torch", None),
        ("SmolLM3ForCausalLM", "tensorrt_llm", "architecture-without-engines"),
        ("Llama4ForConditionalGeneration", "tensorrt_llm", "architecture-without-engines"),
        ("NewForCausalLM", "tensorrt_llm", "architecture-unknown"),
        ("MambaForCausalLM", "torch", "architecture-recurrent"),
        ("MambaForCausalLM", "tensorrt_llm", "architecture-recurrent"),
        ("T5ForConditionalGeneration", "tensorrt_llm", "architecture-not-causal"),
    ],
)
def test_architectures_depend_on_the_runtime(
    tmp_path: Path, architecture: str, runtime: str, rule_id: str | None
) -> None:
    spec = toy_spec(tmp_path, runtime=runtime)
    config(spec, architectures=[architecture])
    assert [finding.id for finding in check_pair(spec).of_level("error")] == ([rule_id] if rule_id else [])


def test_trusted_code_is_a_warning(tmp_path: Path) -> None:
    def change(spec: SpecFile) -> None:
        config(spec, auto_map={"AutoModelForCausalLM": "modeling.M"})
        edit_spec(spec, "draft", trust_remote_code=True)

    [finding] = [finding for finding in checked(tmp_path, change).findings if finding.id == "remote-code"]
    assert finding.level == "warning"


def test_a_length_that_fits_both_makes_the_shorter_draft_a_note(tmp_path: Path) -> None:
    def change(spec: SpecFile) -> None:
        config(spec, max_position_embeddings=128)
        edit_spec(spec, "build", max_seq_len=128)

    [finding] = [finding for finding in checked(tmp_path, change).findings if finding.id == "draft-shorter"]
    assert finding.level == "note"


def test_require_pair_names_every_error(tmp_path: Path) -> None:
    spec = toy_spec(tmp_path)
    assert require_pair(spec).ok
    rename_token(draft(spec), 50, "other")
    cut(target(spec) / "model.safetensors")
    with pytest.raises(PairError) as caught:
        require_pair(spec)
    assert "different tokenizers" in str(caught.value)
    assert "is cut off" in str(caught.value)
    assert {finding.id for finding in caught.value.findings} == {"weights-unreadable", "tokenizer-differs"}  # type: ignore[attr-defined]


def test_absent_weights_are_a_note_where_commands_are_only_shown(tmp_path: Path) -> None:
    spec = toy_spec(tmp_path)
    for role in ("target", "draft"):
        (tmp_path / role / "model.safetensors").unlink()
    with pytest.raises(PairError, match="no weights"):
        require_pair(spec)
    result = require_pair(spec, weights=False)
    assert [(finding.id, finding.level) for finding in result.findings if finding.id == "weights-missing"] == [
        ("weights-missing", "note"),
        ("weights-missing", "note"),
    ]
    (tmp_path / "draft" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(PairError):
        require_pair(spec, weights=False)


def test_an_installed_release_of_another_version_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA/TensorRT-LLM#660: engines carry the version that built them."""
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: "1.1.0")
    result = checked(tmp_path, engine(tensorrt_llm={"version": "1.2.1"}))
    [finding] = [finding for finding in result.findings if finding.id == "installed-version-differs"]
    assert (finding.level, finding.severity) == ("warning", RULES[finding.id].severity)
    assert "1.1.0 is installed" in finding.message
    assert finding.fix is not None
    assert "--in-docker" in finding.fix


def test_an_old_output_length_is_turned_into_a_sequence_length(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#2057: max_output_len is no synonym of max_seq_len."""
    change = engine(build={"max_input_len": 2048, "extra_flags": {"max_output_len": 2048}})
    [finding] = [finding for finding in checked(tmp_path, change).findings if finding.id == "flag-gone"]
    assert finding.fix == "set build.max_seq_len: 4096 (input 2048 + output 2048)"
