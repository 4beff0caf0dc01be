from __future__ import annotations

import json
from collections import Counter
from importlib import resources

from trtspec.training.prompts import CATEGORIES, make_prompts


def test_the_same_seed_gives_the_same_prompts_and_a_longer_list_begins_with_the_shorter() -> None:
    assert make_prompts(300, seed=4) == make_prompts(600, seed=4)[:300]


def test_another_seed_gives_other_prompts() -> None:
    assert make_prompts(60, seed=1) != make_prompts(60, seed=2)


def test_prompts_differ_and_every_category_gets_its_share() -> None:
    prompts = make_prompts(6000)
    assert len({prompt.text for prompt in prompts}) == 6000
    assert Counter(prompt.category for prompt in prompts) == dict.fromkeys(CATEGORIES, 1000)


def test_every_slot_is_filled() -> None:
    slots = json.loads((resources.files("trtspec.training") / "slots.json").read_text())["words"]
    text = "".join(prompt.text for prompt in make_prompts(6000))
    names = [*slots, "passage", "record", "pair", "date", "time", "n", "hours", "pct", "year", "price"]
    assert [name for name in names if f"{{{name}}}" in text] == []


def test_no_prompt_is_one_of_the_load_test() -> None:
    file = resources.files("trtspec.loadtest") / "data" / "prompts.jsonl"
    served = {json.loads(line)["prompt"] for line in file.read_text().splitlines()}
    assert served.isdisjoint(prompt.text for prompt in make_prompts(24_000))
