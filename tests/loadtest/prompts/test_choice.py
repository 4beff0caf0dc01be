"""Which prompts of a set are asked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from trtspec.errors import UsageError
from trtspec.loadtest.prompts import Lengths, Prompt, PromptChoice, PromptSet, choose, load_prompts

BUILTIN = load_prompts("builtin")


def talk(session: str, *texts: str) -> list[Prompt]:
    return [Prompt(f"{session}{i}", "chat", text, 9, session=session, turn=i) for i, text in enumerate(texts)]


TALKS = PromptSet(
    (*talk("a", "one", "a longer two", "three"), *talk("b", "four"), Prompt("c", "qa", "five", 9)), "f", "0"
)


def ids(prompts: PromptSet) -> list[str]:
    return [prompt.id for prompt in prompts.prompts]


def test_nothing_asked_changes_nothing() -> None:
    chosen = choose(BUILTIN, PromptChoice())
    assert chosen.prompts == BUILTIN.prompts
    assert (chosen.sha256, chosen.selected_sha256) == (BUILTIN.sha256, BUILTIN.selected_sha256)
    assert chosen.as_json()["filters"] == {}


def test_categories_and_languages() -> None:
    chosen = choose(BUILTIN, PromptChoice(categories=("code", "extraction"), language=("zh",)))
    assert Counter((p.category, p.language) for p in chosen.prompts) == {("code", "zh"): 3, ("extraction", "zh"): 4}
    told = chosen.as_json()
    assert told["filters"] == {"categories": ["code", "extraction"], "language": ["zh"]}
    assert (told["count"], told["available"], told["categories"]) == (7, 240, {"code": 3, "extraction": 4})
    assert told["sha256"] == BUILTIN.sha256
    assert told["selected_sha256"] != BUILTIN.selected_sha256


def test_lengths_in_characters_and_in_tokens() -> None:
    short = choose(BUILTIN, PromptChoice(characters=(100, 200)))
    assert 0 < len(short.prompts) < 240
    assert all(100 <= len(prompt.text) <= 200 for prompt in short.prompts)

    def words(text: str) -> int:
        return len(text.split())

    few = choose(BUILTIN, PromptChoice(tokens=(None, 20)), words)
    assert few.prompts == tuple(prompt for prompt in BUILTIN.prompts if words(prompt.text) <= 20)
    many = choose(BUILTIN, PromptChoice(characters=(500, None), tokens=(100, None)), words)
    assert many.prompts == tuple(p for p in BUILTIN.prompts if words(p.text) >= 100 and len(p.text) >= 500)


def test_a_session_is_kept_whole_or_not_at_all() -> None:
    assert ids(choose(TALKS, PromptChoice(characters=(None, 5)))) == ["b0", "c"]


def test_turns() -> None:
    assert ids(choose(TALKS, PromptChoice(turns=2))) == ["a0", "a1", "b0", "c"]
    first = choose(TALKS, PromptChoice(turns=1))
    assert [(p.id, p.session, p.turn) for p in first.prompts] == [
        ("a0", None, None), ("b0", None, None), ("c", None, None),
    ]  # fmt: skip
    # a long later turn that is not asked does not keep its session out
    assert "a0" in ids(choose(TALKS, PromptChoice(turns=1, characters=(None, 5))))


def test_a_system_prompt_goes_before_each_conversation_once() -> None:
    own = Prompt("d", "qa", "six", 9, messages=({"role": "system", "content": "x"}, {"role": "user", "content": "six"}))
    chosen = choose(PromptSet((*TALKS.prompts, own), "f", "0"), PromptChoice(system="Be brief."))
    system = {"role": "system", "content": "Be brief."}
    told = {p.id: p.messages for p in chosen.prompts}
    assert told["a0"] == (system, {"role": "user", "content": "one"})
    assert told["a1"] is None
    assert told["c"] == (system, {"role": "user", "content": "five"})
    assert told["d"] == own.messages
    (hashed,) = chosen.as_json()["filters"].values()
    assert hashed["characters"] == 9
    assert len(hashed["sha256"]) == 64
    assert chosen.selected_sha256 != choose(TALKS, PromptChoice()).selected_sha256


def test_the_system_prompt_is_not_part_of_the_length() -> None:
    assert ids(choose(TALKS, PromptChoice(characters=(None, 5), system="long " * 20))) == ["b0", "c"]


@pytest.mark.parametrize(
    ("choice", "complaint", "fix"),
    [
        (PromptChoice(categories=("code", "poems")), "no prompts of category poems", "there are: chat, code, "),
        (PromptChoice(language=("nl",)), "no prompts of language nl", "there are: de, en, es, fr, it, zh"),
        (PromptChoice(characters=(5000, None)), "no prompt is left of 240", "half of them at most"),
        (PromptChoice(tokens=(None, 9)), "need a tokenizer", "--tokenizer"),
    ],
)
def test_what_cannot_be_asked(choice: PromptChoice, complaint: str, fix: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        choose(BUILTIN, choice)
    assert fix in (caught.value.fix or "")


def test_prompts_without_languages() -> None:
    with pytest.raises(UsageError) as caught:
        choose(TALKS, PromptChoice(language=("en",)))
    assert caught.value.fix == "leave out --language: the prompts carry no language"


@pytest.mark.parametrize(
    ("given", "expected"), [("512", (512, 512)), ("8 - 16", (8, 16)), (None, None)]
)  # fmt: skip
def test_lengths_of_made_up_prompts(given: Any, expected: Any) -> None:
    assert Lengths.parse(given, None) == Lengths(expected, None)
    assert Lengths.parse(None, given) == Lengths(None, expected)
