from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from importlib import resources

import pytest

from trtspec.loadtest.prompts import BUILTIN, load_prompts
from trtspec.training.prompts import CATEGORIES, iterate_prompts, make_prompts

PROMPTS = make_prompts(12_000)


def test_the_same_seed_gives_the_same_prompts_and_a_longer_list_begins_with_the_shorter() -> None:
    assert make_prompts(300, seed=4) == make_prompts(600, seed=4)[:300]


def test_another_seed_gives_other_prompts() -> None:
    assert make_prompts(60, seed=1) != make_prompts(60, seed=2)


def test_prompts_differ_and_every_category_gets_its_share() -> None:
    assert len({prompt.text for prompt in PROMPTS}) == 12_000
    assert Counter(prompt.category for prompt in PROMPTS) == dict.fromkeys(CATEGORIES, 1000)


def test_the_categories_are_those_of_the_load_test() -> None:
    assert {prompt.category for prompt in load_prompts(BUILTIN).prompts} <= set(CATEGORIES)


def test_only_some_categories() -> None:
    few = make_prompts(40, categories=["code", "stories"])
    assert [prompt.category for prompt in few[:3]] == ["code", "stories", "code"]


def test_a_category_that_runs_out_ends_the_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Say {word}." for word in ("one", "two", "three", "four", "five", "six")]
    monkeypatch.setattr("trtspec.training.prompts._templates", lambda: {"copying": texts})
    found = list(itertools.islice(iterate_prompts(0, ["copying"]), 1000))
    assert {prompt.text for prompt in found} == set(texts)


def test_every_slot_is_filled() -> None:
    folder = resources.files("trtspec.training")
    slots = set(json.loads((folder / "slots.json").read_text())["words"])
    used = set(re.findall(r"\{([a-z_]+)\}", (folder / "templates.json").read_text()))
    text = "\n".join(prompt.text for prompt in PROMPTS)
    assert [name for name in sorted(slots | used) if f"{{{name}}}" in text] == []
    assert "«" not in text


def test_held_out_prompts_are_of_all_categories_and_of_templates_that_training_never_sees() -> None:
    templates = json.loads((resources.files("trtspec.training") / "templates.json").read_text())
    held_out = [prompt for prompt in PROMPTS if prompt.held_out]
    assert {prompt.category for prompt in held_out} == set(CATEGORIES)
    assert len(held_out) == 632
    first = {category: texts[4].partition("{")[0] for category, texts in templates.items()}
    for category in ("copying", "extraction", "reformatting"):
        of_it = [prompt for prompt in PROMPTS if prompt.category == category]
        assert any(prompt.held_out and prompt.text.startswith(first[category]) for prompt in of_it)
        assert not any(not prompt.held_out and prompt.text.startswith(first[category]) for prompt in of_it)


def test_no_prompt_is_one_of_the_load_test() -> None:
    served = {prompt.content for prompt in load_prompts(BUILTIN).prompts}
    assert served.isdisjoint(prompt.text for prompt in PROMPTS)
