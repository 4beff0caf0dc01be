"""Every rule of the registry, fired by a real pair of folders that differs from a good one in one thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.builders import END_TOKEN, tiny_checkpoint, toy_spec
from trtspec.errors import PairError
from trtspec.rules import RULES, CheckResult, check_pair, require_pair
from trtspec.rules.registry import LEVELS
from trtspec.spec import SpecFile, load_spec


def edit(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not ...}))


def edit_spec(spec: SpecFile, section: str, **changes: Any) -> None:
    data = yaml.safe_load(spec.path.read_text())
    data[section] = {**data.get(section, {}), **changes} if changes else {}
    spec.path.write_text(yaml.safe_dump(data))


def edit_tokenizer(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads((folder / "tokenizer.json").read_text())
    change(data)
    (folder / "tokenizer.json").write_text(json.dumps(data))


def rename_token(folder: Path, index: int, text: str) -> None:
    def change(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        old = next(token for token, number in vocab.items() if number == index)
        data["model"]["vocab"] = {(text if token == old else token): number for token, number in vocab.items()}
        data["model"]["merges"] = []

    edit_tokenizer(folder, change)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-64])


def drop_tensor(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def to_half(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    first = next(iter(tensors))
    save_file({**tensors, first: tensors[first].astype(np.float16)}, folder / "model.safetensors")


def with_stray_tensor(folder: Path) -> None:
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, shards=2)
    (folder / "model.safetensors").unlink()
    shard = min(folder.glob("model-*.safetensors"))
    save_file({**load_file(shard), "stray": np.zeros(1, np.float32)}, shard)


def duplicate_id(folder: Path) -> None:
    edit_tokenizer(folder, lambda data: data["model"]["vocab"].update({"twice": 5}))


def other_merges(folder: Path) -> None:
    edit_tokenizer(folder, lambda data: data["model"]["merges"].pop())


def extra_token(folder: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        token = {**data["added_tokens"][0], "id": len(data["model"]["vocab"]), "content": "<tool>"}
        data["added_tokens"].append(token)

    edit_tokenizer(folder, change)


def padded(folder: Path, rows: int) -> None:
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, vocab_size=rows)


def writes_bos(folder: Path) -> None:
    template = "{{ bos_token }}{{ messages[0].content }}"
    edit(folder / "tokenizer_config.json", chat_template=template, add_bos_token=True)


def unreadable_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff")


@dataclass(frozen=True)
class Case:
    """A change to the toy pair, and the finding that it must give."""

    change: Callable[[SpecFile], None]
    level: str
    role: str
    says: str = ""


def target(spec: SpecFile) -> Path:
    return spec.checkpoint("target")


def draft(spec: SpecFile) -> Path:
    return spec.checkpoint("draft")


def config(spec: SpecFile, **changes: Any) -> None:
    edit(draft(spec) / "config.json", **changes)


LLAMA3_CUT = {"rope_type": "llama3", "factor": 8}

CASES: list[tuple[str, Case]] = [
    ("checkpoint-missing", Case(lambda s: edit_spec(s, "draft", checkpoint="gone"), "error", "draft", "no such")),
    ("config-unreadable", Case(lambda s: (draft(s) / "config.json").unlink(), "error", "draft", "is missing")),
    ("config-unreadable", Case(lambda s: config(s, vocab_size="x"), "error", "draft", "vocab_size is 'x'")),
    ("weights-unreadable", Case(lambda s: cut(target(s) / "model.safetensors"), "error", "target", "64 bytes")),
    ("weights-unreadable", Case(lambda s: (draft(s) / "model.safetensors").unlink(), "error", "draft", "no weights")),
    ("tokenizer-unreadable", Case(lambda s: (draft(s) / "tokenizer.json").unlink(), "error", "draft", "no tokenizer")),
    ("chat-template-unreadable", Case(lambda s: unreadable_template(target(s)), "error", "target", "UTF-8")),
    (
        "generation-config-unreadable",
        Case(lambda s: edit(draft(s) / "generation_config.json", eos_token_id="x"), "error", "draft", "eos_token_id"),
    ),
    (
        "extra-weight-files",
        Case(lambda s: (target(s) / "consolidated.00.pth").touch(), "note", "target", "consolidated.00.pth"),
    ),
    ("unindexed-tensors", Case(lambda s: with_stray_tensor(draft(s)), "warning", "draft", "stray")),
    ("mixed-dtypes", Case(lambda s: to_half(draft(s)), "note", "draft", "F16")),
    ("embedding-rows", Case(lambda s: config(s, vocab_size=4096), "error", "draft", "4 096")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=["BertForMaskedLM"]), "error", "draft", "causal")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=["MambaForCausalLM"]), "error", "draft", "state")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=["NewForCausalLM"]), "warning", "draft", "NewFor")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=[]), "error", "draft", "names no architecture")),
    (
        "remote-code",
        Case(lambda s: config(s, architectures=["MyLM"], auto_map={"AutoModel": "m.M"}), "error", "draft", "MyLM"),
    ),
    ("remote-code", Case(lambda s: config(s, auto_map={"AutoModel": "m.M"}), "note", "draft", "built in")),
    ("head-missing", Case(lambda s: config(s, tie_word_embeddings=False), "error", "draft", "no lm_head")),
    ("head-missing", Case(lambda s: config(s, tie_word_embeddings=...), "error", "draft", "is not given")),
    (
        "head-missing",
        Case(lambda s: config(s, tie_word_embeddings=..., model_type="gemma2"), "note", "draft", "is not given"),
    ),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling=LLAMA3_CUT), "error", "draft", "low_freq_factor")),
    ("rope-scaling", Case(lambda s: config(s, rope_parameters=LLAMA3_CUT), "error", "draft", "4.43")),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling={"factor": 2}), "error", "draft", "names no kind")),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling={"type": "new"}), "warning", "draft", "unknown kind 'new'")),
    (
        "rope-scaling",
        Case(lambda s: config(s, rope_scaling={"type": "linear", "factor": 0}), "error", "draft", "at least 1"),
    ),
    (
        "rope-scaling",
        Case(
            lambda s: config(
                s,
                rope_scaling={
                    **LLAMA3_CUT,
                    "low_freq_factor": 4,
                    "high_freq_factor": 1,
                    "original_max_position_embeddings": 64,
                },
            ),
            "error", "draft", "must be a number below",
        ),
    ),
    ("config-incomplete", Case(lambda s: config(s, num_hidden_layers=...), "note", "draft", "layers")),
    (
        "quantized-checkpoint",
        Case(lambda s: config(s, quantization_config={"quant_method": "awq"}), "warning", "draft", "awq"),
    ),
    ("draft-not-smaller", Case(lambda s: edit_spec(s, "draft", checkpoint="target"), "warning", "pair", "control")),
    ("draft-not-smaller", Case(lambda s: edit_spec(s, "target", checkpoint="small"), "warning", "pair", "7 472")),
    ("draft-not-smaller", Case(lambda s: padded(target(s), 300), "warning", "pair", "parameters")),
    ("tokenizer-differs", Case(lambda s: rename_token(draft(s), 50, "other"), "error", "pair", "id 50 is")),
    ("tokenizer-extended", Case(lambda s: extra_token(target(s)), "warning", "pair", "<tool>")),
    ("id-beyond-embedding", Case(lambda s: extra_token(draft(s)), "error", "draft", "its tokenizer has ids up to")),
    ("vocabulary-padded", Case(lambda s: padded(draft(s), 640), "note", "draft", "rows are padding")),
    ("vocabulary-sizes-differ", Case(lambda s: padded(draft(s), 640), "note", "pair", "padding only")),
    ("tokenizer-splits-differently", Case(lambda s: other_merges(draft(s)), "warning", "pair", "merges differ")),
    ("tokenizer-duplicate-ids", Case(lambda s: duplicate_id(draft(s)), "error", "draft", "gives id 5")),
    ("end-ids-missing", Case(lambda s: no_ends(draft(s)), "warning", "draft", "no eos_token_id")),
    ("end-ids-differ", Case(lambda s: ends(s, [2, 5, 6], [2]), "warning", "pair", "ends at 2 ('<|im_end|>'), 5")),
    ("end-ids-differ", Case(lambda s: ends(s, [5], [6]), "error", "pair", "no end in common")),
    ("end-id-out-of-range", Case(lambda s: ends(s, [2, 99999], [2]), "error", "target", "end id 99999")),
    ("chat-template", Case(lambda s: edit(target(s) / "tokenizer_config.json", chat_template=...), "note", "target")),
    ("double-bos", Case(lambda s: writes_bos(target(s)), "note", "target", "both begin with '<|endoftext|>'")),
    ("draft-shorter", Case(lambda s: config(s, max_position_embeddings=64), "warning", "pair", "limited to 64")),
    ("max-seq-len-too-long", Case(lambda s: edit_spec(s, "build", max_seq_len=4096), "error", "spec", "4 096")),
    ("little-room-for-drafts", Case(lambda s: edit_spec(s, "build", max_seq_len=32), "warning", "spec", "9 tokens")),
]  # fmt: skip


def no_ends(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=...)
    edit(folder / "config.json", eos_token_id=...)
    edit(folder / "tokenizer_config.json", eos_token=...)


def ends(spec: SpecFile, of_target: list[int], of_draft: list[int]) -> None:
    for folder, ids in ((target(spec), of_target), (draft(spec), of_draft)):
        no_ends(folder)
        edit(folder / "generation_config.json", eos_token_id=ids)


def checked(folder: Path, change: Callable[[SpecFile], None] = lambda _spec: None) -> CheckResult:
    spec = toy_spec(folder)
    change(spec)
    return check_pair(load_spec(spec.path))


def test_the_toy_pair_is_free_of_errors(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert result.ok
    assert [finding.id for finding in result.findings if finding.level != "note"] == []


@pytest.mark.parametrize(("rule_id", "case"), CASES, ids=[f"{n}-{rule_id}" for n, (rule_id, _) in enumerate(CASES)])
def test_a_rule_fires_with_its_numbers(tmp_path: Path, rule_id: str, case: Case) -> None:
    tiny_checkpoint(tmp_path / "small", hidden=16, layers=1)
    result = checked(tmp_path, case.change)
    found = [finding for finding in result.findings if finding.id == rule_id and finding.role == case.role]
    assert found, [(finding.id, finding.message) for finding in result.findings]
    assert case.says in found[0].message
    assert found[0].level == case.level
    assert found[0].severity == RULES[rule_id].severity
    assert found[0].fix or found[0].level == "note"
    assert result.ok == all(finding.level != "error" for finding in result.findings)
    json.dumps(result.to_json(), allow_nan=False)


def test_every_rule_has_a_case() -> None:
    assert {rule_id for rule_id, _ in CASES} == set(RULES)


@pytest.mark.parametrize("rule_id", list(RULES))
def test_rules_are_described(rule_id: str) -> None:
    rule = RULES[rule_id]
    assert rule.title
    assert rule.source
    assert not rule.title.endswith(".")
    assert rule_id == rule_id.lower()


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


def test_i05_overlap_is_reported_without_a_forecast_of_acceptance(tmp_path: Path) -> None:
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


def test_i06_sentencepiece_against_bpe_is_refused_and_padding_is_not(tmp_path: Path) -> None:
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


def test_i03_i04_logits_of_different_width_are_refused_tokens_are_not(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#3615: 128000 against 128256 rows."""
    spec = toy_spec(tmp_path, runtime="tensorrt_llm", speculation={"acceptance": "logits"})
    padded(draft(spec), 640)
    [finding] = check_pair(spec).of_level("error")
    assert finding.id == "vocabulary-sizes-differ"
    assert finding.data["draft"] == 640


def test_i13_a_tied_head_is_no_fault(tmp_path: Path) -> None:
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
def test_i17_rope_scaling(tmp_path: Path, scaling: dict[str, Any], errors: int) -> None:
    """NVIDIA/TensorRT-LLM#2105, #2471."""
    result = checked(tmp_path, lambda s: config(s, rope_scaling=scaling))
    found = [finding for finding in result.findings if finding.id == "rope-scaling"]
    assert len(found) == errors


def test_i16_a_consolidated_file_is_announced(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#1732."""

    def change(spec: SpecFile) -> None:
        save_file({"tok_embeddings.weight": np.zeros(4, np.float32)}, draft(spec) / "consolidated.safetensors")

    result = checked(tmp_path, change)
    assert result.ok
    [note] = [finding for finding in result.findings if finding.id == "extra-weight-files"]
    assert note.data == {"files": ["consolidated.safetensors"]}


@pytest.mark.parametrize(
    ("architecture", "runtime", "level"),
    [
        ("Qwen3ForCausalLM", "tensorrt_llm", None),
        ("SmolLM3ForCausalLM", "torch", None),
        ("SmolLM3ForCausalLM", "tensorrt_llm", "error"),
        ("NewForCausalLM", "tensorrt_llm", "error"),
        ("MambaForCausalLM", "tensorrt_llm", "error"),
    ],
)
def test_architectures_depend_on_the_runtime(
    tmp_path: Path, architecture: str, runtime: str, level: str | None
) -> None:
    spec = toy_spec(tmp_path, runtime=runtime)
    config(spec, architectures=[architecture])
    found = [finding for finding in check_pair(spec).findings if finding.id == "architecture-unknown"]
    assert [finding.level for finding in found] == ([] if level is None else [level])


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
