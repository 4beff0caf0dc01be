"""`draft.method`: what each needs, what contradicts it, and what follows from it."""

from __future__ import annotations

import pytest

from trtspec.errors import SpecError
from trtspec.spec import ARMS, Spec, parse_spec

HEAD = "name: pair\ntarget: {checkpoint: ./a}\n"


def spec(draft: str, more: str = "") -> Spec:
    return parse_spec(f"{HEAD}draft: {draft}\n{more}")


def problems(draft: str, more: str = "") -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        spec(draft, more)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_a_model_is_the_default() -> None:
    made = spec("{checkpoint: ./b}")
    assert (made.draft.method, made.draft.is_model, made.draft.looks_up) == ("model", True, False)
    assert made.roles == ("baseline", "target", "draft")
    assert set(made.models("speculative")) == {"tensorrt_llm", "tensorrt_llm_draft"}
    assert made.lookup_length is None


def test_without_a_second_model_there_is_no_role_for_it() -> None:
    made = spec("{method: ngram}")
    assert made.roles == ("baseline", "target")
    assert [made.models(arm) for arm in ARMS] == [{"tensorrt_llm": "target"}, {"tensorrt_llm": "baseline"}]


@pytest.mark.parametrize(
    ("more", "length"),
    [
        ("", 8),
        ("speculation: {draft_length: 12}", 12),
        ("speculation: {max_draft_length: 10}", 10),
        ("speculation: {policy: adaptive}", None),
    ],
)
def test_a_lookup_has_a_length_of_its_own(more: str, length: int | None) -> None:
    assert spec("{method: lookup, checkpoint: ./b}", more).lookup_length == length


@pytest.mark.parametrize(
    ("draft", "more", "path", "message"),
    [
        ("{}", "", "draft.checkpoint", "is required"),
        ("{method: lookup}", "", "draft.checkpoint", "is required"),
        ("{method: ngram, checkpoint: ./b}", "", "draft.checkpoint", "no second model"),
        ("{method: ngram, tp: 2}", "runtime: tensorrt_llm", "draft.tp", "no second model"),
        ("{method: ngram, engine: ./e}", "runtime: tensorrt_llm", "draft.engine", "no second model"),
        ("{method: ngram, confidence_threshold: 0.4}", "", "draft.confidence_threshold", "no second model"),
        ("{checkpoint: ./b, confidence_threshold: 1}", "", "draft.confidence_threshold", "less than 1"),
        (
            "{checkpoint: ./b, confidence_threshold: 0.4}",
            "runtime: tensorrt_llm",
            "draft.confidence_threshold",
            "only for runtime torch",
        ),
        ("{method: ngram, lookup_length: 4}", "", "draft.lookup_length", "it is speculation.draft_length"),
        ("{checkpoint: ./b, lookup_match: 3}", "", "draft.lookup_match", "only for methods"),
        ("{checkpoint: ./b, lookup_length: 3}", "", "draft.lookup_length", "only for methods"),
        (
            "{method: lookup, checkpoint: ./b, lookup_length: 9}",
            "",
            "draft.lookup_length",
            "more than max_draft_length 8",
        ),
        ("{method: ngram, lookup_match: 0}", "", "draft.lookup_match", "greater than or equal to 1"),
        ("{method: ngram}", "speculation: {acceptance: logits}", "speculation.acceptance", "'ngram' has none"),
        (
            "{method: lookup, checkpoint: ./b, lookup_length: 4}",
            "speculation: {policy: schedule, schedule: {4: 4}}",
            "draft.lookup_length",
            "only for policy 'fixed'",
        ),
    ],
)
def test_contradictions_are_named(draft: str, more: str, path: str, message: str) -> None:
    assert message in problems(draft, more)[path]


def test_words_of_other_tools_are_translated() -> None:
    with pytest.raises(SpecError) as caught:
        spec("{method: ngram, prompt_lookup_min: 3, num_speculative_tokens: 4}")
    hints = {problem.path: problem.hint for problem in caught.value.problems}
    assert hints == {
        "draft.prompt_lookup_min": "write lookup_match",
        "draft.num_speculative_tokens": "write speculation.draft_length",
    }


def test_logits_are_accepted_by_both_runtimes() -> None:
    for runtime in ("torch", "tensorrt_llm"):
        made = spec("{checkpoint: ./b}", f"runtime: {runtime}\nspeculation: {{acceptance: logits}}")
        assert made.speculation.acceptance == "logits"
