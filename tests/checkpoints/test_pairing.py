"""Tokenizers compared id by id, and what two checkpoints have in common."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import tiny_checkpoint
from trtspec.checkpoints import TokenizerFacts, compare_tokenizers, pair_facts, survey_checkpoint

EMPTY = TokenizerFacts(
    source="tokenizer.json", kind="BPE", tokens={}, special=frozenset(), added=frozenset(), duplicates=(),
    merges=None, pre_tokenizer=None, normalizer=None, bos_id=None, end_id=None, adds_bos=False,
)  # fmt: skip

vocabularies = st.dictionaries(st.integers(0, 12), st.sampled_from("abcdefgh"), max_size=10)


def facts(tokens: dict[int, str]) -> TokenizerFacts:
    return replace(EMPTY, tokens=tokens)


@given(vocabularies)
def test_a_tokenizer_is_the_same_as_itself(tokens: dict[int, str]) -> None:
    match = compare_tokenizers(facts(tokens), facts(dict(tokens)))
    assert match.relation == "same"
    assert match.same_ids == match.total_ids == len(tokens)
    assert match.differing == ()


@given(vocabularies, vocabularies)
def test_laws_of_comparing(one: dict[int, str], other: dict[int, str]) -> None:
    match = compare_tokenizers(facts(one), facts(other))
    back = compare_tokenizers(facts(other), facts(one))
    assert (match.relation, match.overlap, match.conflicts) == (back.relation, back.overlap, back.conflicts)
    assert (match.only_target, match.only_draft) == (back.only_draft, back.only_target)
    assert 0 <= match.overlap <= 1
    assert 0 <= match.shared_tokens <= 1
    assert (match.relation == "same") == (one == other)
    assert (match.relation == "different") == any(one[i] != other[i] for i in one.keys() & other.keys())
    assert match.total_ids == len(one.keys() | other.keys())
    assert match.same_ids + match.conflicts + len(match.only_target) + len(match.only_draft) == match.total_ids
    assert [item.id for item in match.differing] == sorted(
        i for i in one.keys() | other.keys() if one.get(i) != other.get(i)
    )[:10]


def test_the_last_added_token_counts_as_much_as_the_first_base_token() -> None:
    tokens = {index: f"t{index}" for index in range(1000)}
    match = compare_tokenizers(facts(tokens), facts({**tokens, 999: "<other>"}))
    assert match.relation == "different"
    assert match.overlap == 0.999
    assert [(item.id, item.target, item.draft) for item in match.differing] == [(999, "t999", "<other>")]


def test_i05_overlap_counts_ids_and_never_maps_to_id_0() -> None:
    """vllm-project/vllm#38174: 7 of 10 shared tokens, no unknown token."""
    target = {index: f"t{index}" for index in range(10)}
    draft = {**target, 3: "x", 6: "y", 9: "z"}
    match = compare_tokenizers(facts(target), facts(draft))
    assert match.overlap == 0.7
    assert match.shared_tokens == 0.7
    assert [item.id for item in match.differing] == [3, 6, 9]
    assert match.relation == "different"


def test_the_same_words_in_another_order_share_texts_but_no_ids() -> None:
    match = compare_tokenizers(facts({0: "a", 1: "b"}), facts({0: "b", 1: "a"}))
    assert match.overlap == 0.0
    assert match.shared_tokens == 1.0


def test_unknown_parts_are_unknown_not_unequal() -> None:
    known = replace(EMPTY, merges="x", pre_tokenizer="y")
    assert compare_tokenizers(known, EMPTY).merges is None
    assert compare_tokenizers(known, replace(known, merges="z")).merges is False
    assert compare_tokenizers(known, known).pre_tokenizer is True


def test_i06_padding_does_not_make_another_tokenizer(tmp_path: Path) -> None:
    target = survey_checkpoint(tiny_checkpoint(tmp_path / "target", vocab_size=640))
    draft = survey_checkpoint(tiny_checkpoint(tmp_path / "draft", vocab_size=512, max_position_embeddings=128))
    pair = pair_facts(target, draft)
    assert pair.tokenizers is not None
    assert pair.tokenizers.relation == "same"
    shown = pair.to_json()
    assert shown["same_tokenizer"] is True
    assert shown["token_overlap"] == 1.0
    assert shown["first_differing_ids"] == []
    assert shown["vocab_size"] == {"target": 640, "draft": 512}
    assert shown["usable_length"] == 128


def test_i03_the_vocabulary_is_the_models_not_the_tokenizers(tmp_path: Path) -> None:
    """triton-inference-server/tensorrtllm_backend#720: width taken from the tokenizer."""
    folder = tiny_checkpoint(tmp_path, vocab_size=512)
    survey = survey_checkpoint(folder)
    assert survey.tokenizer is not None
    assert survey.tokenizer.width < 512
    assert survey.vocab_size == 512
    config = json.loads((folder / "config.json").read_text())
    del config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    assert survey_checkpoint(folder).vocab_size == 512, "the embedding's rows, where config.json is silent"


def test_an_unreadable_side_leaves_the_pair_unknown(tmp_path: Path) -> None:
    target = survey_checkpoint(tiny_checkpoint(tmp_path / "target"))
    shown = pair_facts(target, survey_checkpoint(tmp_path / "nothing")).to_json()
    assert shown["same_tokenizer"] is None
    assert shown["token_overlap"] is None
    assert shown["vocab_size"]["draft"] is None
