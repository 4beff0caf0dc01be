"""Tokenizers compared id by id, and what two checkpoints have in common."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import tiny_checkpoint
from trtspec.checkpoints import Survey, TokenizerFacts, compare_tokenizers, pair_facts, survey_checkpoint

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


def test_overlap_counts_ids_and_never_maps_to_id_0() -> None:
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


def test_padding_does_not_make_another_tokenizer(tmp_path: Path) -> None:
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


def test_the_vocabulary_is_the_models_not_the_tokenizers(tmp_path: Path) -> None:
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


def test_special_flags_that_differ_are_named() -> None:
    one = replace(facts({0: "a", 1: "<tool>"}), special=frozenset({1}))
    match = compare_tokenizers(one, facts({0: "a", 1: "<tool>"}))
    assert (match.relation, match.special_differs) == ("same", (1,))
    other = replace(facts({0: "a", 1: "<x>"}), special=frozenset({0}))
    assert compare_tokenizers(one, other).special_differs == (0,), "an id with two meanings is counted elsewhere"


def test_a_special_token_that_got_a_name_is_told_from_another_vocabulary() -> None:
    """Llama 3.1 gave names to ids that Llama 3 had reserved."""
    special = {10: "<|begin|>", 11: "<|end|>", 12: "<|reserved|>"}
    older = replace(facts({0: "a", **special}), special=frozenset(special), end_id=11)
    newer = replace(older, tokens={**older.tokens, 12: "<|eom|>"})
    match = compare_tokenizers(newer, older)
    assert (match.relation, match.renamed, match.exchanges) == ("different", (12,), True)
    for index in (0, 11):  # an ordinary token, the end
        other = compare_tokenizers(replace(newer, tokens={**newer.tokens, index: "other"}), older)
        assert (other.renamed, other.exchanges) == ((), False)


def test_fillers_are_told_from_real_tokens() -> None:
    target = facts({0: "a", 1: "<|reserved_special_token_0|>", 2: "<unused1>", 3: "[PAD3]", 4: "<tool>"})
    match = compare_tokenizers(target, facts({0: "a"}))
    assert (match.relation, match.only_target, match.placeholders) == ("extended", (1, 2, 3, 4), 3)


def test_keys_of_different_forms_are_unknown_not_unequal() -> None:
    one, other = replace(EMPTY, merges="merges:1"), replace(EMPTY, merges="pieces:1")
    assert compare_tokenizers(one, other).splitting["merges"] is None


def two_surveys(tmp_path: Path, rows: tuple[int, int] = (640, 512)) -> tuple[Survey, Survey]:
    folders = [tiny_checkpoint(tmp_path / role, vocab_size=size) for role, size in zip(ROLES, rows, strict=True)]
    return survey_checkpoint(folders[0]), survey_checkpoint(folders[1])


ROLES = ("target", "draft")


def test_tokens_tolerate_padding_and_logits_do_not(tmp_path: Path) -> None:
    target, draft = two_surveys(tmp_path)
    padded = pair_facts(target, draft)
    assert padded.exchange == {"tokens": True, "logits": False}
    assert padded.target.padding == 640 - padded.target.ids if padded.target.ids else False
    assert pair_facts(target, target).exchange == {"tokens": True, "logits": True}
    assert pair_facts(target, replace(draft, tokenizer=None)).exchange == {"tokens": None, "logits": False}
    assert target.tokenizer is not None
    other = replace(target, tokenizer=replace(target.tokenizer, tokens={**target.tokenizer.tokens, 9: "other"}))
    assert pair_facts(target, other).exchange == {"tokens": False, "logits": False}


def test_added_tokens_fill_the_rows(tmp_path: Path) -> None:
    """NVIDIA/TensorRT-LLM#3615: base tokens alone were counted, 128000 against 128256 rows."""
    base = tiny_checkpoint(tmp_path / "base")
    width = survey_checkpoint(base).tokenizer
    assert width is not None
    more = ("<one>", "<two>")
    survey = survey_checkpoint(tiny_checkpoint(tmp_path / "more", extra_tokens=more, vocab_size=width.width + 2))
    side = pair_facts(survey, survey).target
    assert (side.rows, side.ids, side.padding) == (width.width + 2, width.width + 2, 0)


def test_end_ids_of_both_sides(tmp_path: Path) -> None:
    target, draft = two_surveys(tmp_path)
    pair = pair_facts(replace(target, generation_ends=(128001, 128008, 2)), draft)
    assert pair.target.end_ids == (128001, 128008, 2)
    assert pair.shared_ends == (2,)
    assert pair.to_json()["end_ids"] == {"target": [128001, 128008, 2], "draft": [2], "shared": [2]}


def test_who_writes_the_begin_of_text_token(tmp_path: Path) -> None:
    target, draft = two_surveys(tmp_path)
    assert target.tokenizer is not None
    adds = replace(target.tokenizer, adds_bos=True)
    twice = replace(target, tokenizer=adds, chat_template="{{ bos_token }}{{ messages }}")
    pair = pair_facts(twice, draft)
    assert pair.target.doubles_bos
    assert pair.to_json()["bos"]["target"] == {
        "id": 0, "tokenizer_adds": True, "template_writes": True, "doubled": True,
    }  # fmt: skip
    assert not pair.draft.doubles_bos
    spelled = replace(target, tokenizer=adds, chat_template="<|endoftext|>[INST]")
    assert pair_facts(spelled, draft).target.doubles_bos
    assert not pair_facts(replace(target, tokenizer=adds, chat_template="[INST]"), draft).target.doubles_bos


def test_chat_templates_of_both(tmp_path: Path) -> None:
    target, draft = two_surveys(tmp_path)
    assert pair_facts(target, draft).same_template is True
    assert pair_facts(target, replace(draft, chat_template="other")).same_template is False
    assert pair_facts(target, replace(draft, chat_template=None)).same_template is None
