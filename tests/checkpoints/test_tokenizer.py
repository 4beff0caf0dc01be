"""Tokenizer facts against the tokenizers and transformers libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints.tokenizer import TokenizerFacts, read_tokenizer
from trtspec.checkpoints.tokenizer_json import parse_fast
from trtspec.errors import CheckpointError


def facts_of(folder: Path) -> TokenizerFacts:
    return read_tokenizer(folder, sorted(entry.name for entry in folder.iterdir()))


def write(folder: Path, tokenizer: Tokenizer, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_ids_are_those_of_the_tokenizers_library(tmp_path: Path) -> None:
    width = tiny_tokenizer_files(tmp_path, extra_tokens=("<a>", "<b>"))
    facts = facts_of(tmp_path)
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert facts.tokens == {index: text for text, index in library.get_vocab(with_added_tokens=True).items()}
    assert facts.width == width
    assert {facts.tokens[index] for index in facts.special} == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert {facts.tokens[index] for index in facts.added - facts.special} == {"<a>", "<b>"}
    assert (facts.bos_id, facts.end_id) == (0, 2)
    assert facts.duplicates == ()


@settings(max_examples=30, deadline=None)
@given(
    words=st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=12),
    added=st.lists(st.text(min_size=1, max_size=4), max_size=4, unique=True),
)
def test_any_vocabulary_reads_as_the_library_reads_it(
    tmp_path_factory: pytest.TempPathFactory, words: set[str], added: list[str]
) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(sorted(words))}, unk_token="?"))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    folder = write(tmp_path_factory.mktemp("words"), tokenizer)
    facts = facts_of(folder)
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert facts.tokens == {index: text for text, index in library.get_vocab(with_added_tokens=True).items()}


def test_unigram_vocabularies_are_lists(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁a", -1.0), ("b", -2.0)], unk_id=0))
    facts = facts_of(write(tmp_path / "one", tokenizer))
    other = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁a", -1.5), ("b", -2.0)], unk_id=0))
    assert facts.tokens == {0: "<unk>", 1: "▁a", 2: "b"}
    assert facts.merges != facts_of(write(tmp_path / "two", other)).merges, "other scores split text differently"


def test_added_tokens_count(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#3615: 6 base tokens + ids 6 and 7 are 8 rows, not 6."""
    tokenizer = Tokenizer(models.WordLevel({f"w{index}": index for index in range(6)}, unk_token="w0"))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    assert facts_of(write(tmp_path, tokenizer)).width == 8


def test_merges_written_as_pairs_or_as_text_are_the_same(tmp_path: Path) -> None:
    for name, merges in (("pairs", [["a", "b"], ["ab", "c"]]), ("text", ["a b", "ab c"])):
        (tmp_path / name).mkdir()
        model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": merges}
        (tmp_path / name / "tokenizer.json").write_text(json.dumps({"model": model}))
    assert facts_of(tmp_path / "pairs").merges == facts_of(tmp_path / "text").merges


def test_tokens_that_only_the_configuration_declares(tmp_path: Path) -> None:
    width = tiny_tokenizer_files(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"] = {
        "0": {"content": "ignored: tokenizer.json has this id", "special": True},
        str(width): {"content": "<tool>", "special": True},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<more>": width + 1}))
    facts = facts_of(tmp_path)
    assert facts.tokens[0] == "<|endoftext|>"
    assert (facts.tokens[width], facts.tokens[width + 1]) == ("<tool>", "<more>")
    assert width in facts.special
    assert facts.width == width + 2


def test_declared_ids_that_are_none_are_left_out(tmp_path: Path) -> None:
    width = tiny_tokenizer_files(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"] = {key: {"content": f"<{key[:9]}>"} for key in ("9" * 5000, "-1", "٣٢١", "x", "")}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<a>": -1, "<b>": 10**30, "<c>": True, "<d>": 1.0}))
    assert facts_of(tmp_path).width == width


def test_special_tokens_as_objects_and_from_the_older_file(tmp_path: Path) -> None:
    tiny_tokenizer_files(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": "<|im_start|>"}))
    facts = facts_of(tmp_path)
    assert (facts.bos_id, facts.end_id) == (1, 2)


def test_whether_the_tokenizer_adds_a_bos(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, "hi": 1}, unk_token="<s>"))
    assert not facts_of(write(tmp_path / "plain", tokenizer, bos_token="<s>")).adds_bos
    assert facts_of(write(tmp_path / "flag", tokenizer, bos_token="<s>", add_bos_token=True)).adds_bos
    template = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    assert facts_of(write(tmp_path / "template", tokenizer, bos_token="<s>")).adds_bos


def document(vocab: Any, added: Any = None) -> dict[str, Any]:
    return {"added_tokens": added, "model": {"type": "WordLevel", "vocab": vocab}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"version": "1.0"}, "has no model section"),
    "no vocabulary": (document(None), "has no usable model.vocab"),
    "ids as text": (document({"a": "0"}), "has no usable model.vocab"),
    "negative id": (document({"a": -1}), "has no usable model.vocab"),
    "id without end": (document({"a": 1 << 31}), "has no usable model.vocab"),
    "negative added id": (document({"a": 0}, [{"id": -1, "content": "b"}]), "added token without id and content"),
    "added id without end": (
        document({"a": 0}, [{"id": 10**30, "content": "b"}]),
        "added token without id and content",
    ),
    "tokens without text": (document([[1, 0.0]]), "has no usable model.vocab"),
    "added tokens an object": (document({"a": 0}, {"b": 1}), "added_tokens is not a list"),
    "added token without id": (document({"a": 0}, [{"content": "b"}]), "added token without id and content"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_tokenizer_is_refused_with_its_path(tmp_path: Path, case: str) -> None:
    data, expected = BAD[case]
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError) as caught:
        facts_of(tmp_path)
    assert expected in caught.value.message
    assert caught.value.where == str(tmp_path / "tokenizer.json")


def test_ids_given_twice_are_kept_as_a_fact(tmp_path: Path) -> None:
    data = document({"a": 0, "b": 0, "c": 1}, [{"id": 2, "content": "x"}, {"id": 2, "content": "y"}])
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    assert facts_of(tmp_path).duplicates == ((0, "a", "b"), (2, "x", "y"))


def test_vocabulary_and_merges_are_read_without_a_library(tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    tiny_tokenizer_files(fast)
    model = json.loads((fast / "tokenizer.json").read_text())["model"]
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (slow / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]) + "\n")
    config = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>",
              "unk_token": "<|endoftext|>"}  # fmt: skip
    (slow / "tokenizer_config.json").write_text(json.dumps(config))
    facts = facts_of(slow)
    assert facts.tokens == facts_of(fast).tokens
    assert facts.source == "vocab.json"
    assert facts.merges == facts_of(fast).merges, "the same merges in two spellings"


def test_a_slow_tokenizer_that_cannot_be_converted(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"not a sentencepiece model")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))
    with pytest.raises(CheckpointError, match=r"only a slow tokenizer \(tokenizer.model\)") as caught:
        facts_of(tmp_path)
    assert "save_pretrained" in str(caught.value.fix)


def test_no_tokenizer_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tokenizer: neither tokenizer\.json"):
        facts_of(tmp_path)


def test_a_pre_tokenizer_is_part_of_the_facts(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    plain = facts_of(write(tmp_path / "plain", tokenizer))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert facts_of(write(tmp_path / "split", tokenizer)).pre_tokenizer != plain.pre_tokenizer


def same_form(one: Any, other: Any) -> bool:
    """Whether two pre-tokenizer sections count as equal."""
    texts = [json.dumps({**document({"a": 0}), "pre_tokenizer": section}) for section in (one, other)]
    return parse_fast(texts[0]).pre_tokenizer == parse_fast(texts[1]).pre_tokenizer


def test_what_splits_nothing_differently_is_no_difference() -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    assert same_form(byte_level, {**byte_level, "use_regex": True, "trim_offsets": False})
    assert same_form(byte_level, {"type": "Sequence", "pretokenizers": [byte_level]})
    assert same_form(None, {"type": "Sequence", "pretokenizers": []})
    assert not same_form(byte_level, {**byte_level, "add_prefix_space": True})
    assert not same_form(byte_level, {**byte_level, "use_regex": False})
    assert not same_form(byte_level, None)


def test_decoders_are_part_of_the_facts() -> None:
    texts = [json.dumps({**document({"a": 0}), "decoder": section}) for section in (None, {"type": "ByteLevel"})]
    assert parse_fast(texts[0]).decoder != parse_fast(texts[1]).decoder


def test_a_tokenizer_that_is_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"a":' * 100_000)
    with pytest.raises(CheckpointError, match="nested too deeply") as caught:
        facts_of(tmp_path)
    assert caught.value.code == "too-deep"


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(document({"a": 0})))
    first = facts_of(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document({"b": 0})))
    assert dict(first.tokens) == {0: "a"}
    assert dict(facts_of(tmp_path).tokens) == {0: "b"}
