from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.spec import parse_spec, with_section_values
from trtspec.tuning.schedule import best_lengths, recommend
from trtspec.tuning.writing import spec_values

SPEC = "name: pair\ntarget: {checkpoint: ./big}\ndraft: {checkpoint: ./small}\n"


def test_the_best_of_each_load_where_they_fall_anyway() -> None:
    gains = [{2: 1.4, 4: 1.8}, {2: 1.3, 4: 1.2}, {2: 0.9, 4: 0.7}]
    assert best_lengths(gains) == [4, 2, 0]


def test_a_longer_draft_at_a_higher_load_is_evened_out() -> None:
    assert best_lengths([{2: 1.30, 4: 1.29}, {2: 1.10, 4: 1.40}]) == [4, 4]
    assert best_lengths([{2: 1.30, 4: 1.05}, {2: 1.20, 4: 1.21}]) == [2, 2]


def test_off_at_a_low_load_does_not_forbid_what_pays_later() -> None:
    assert best_lengths([{2: 0.99}, {2: 1.5}]) == [2, 2]
    assert best_lengths([{2: 0.5}, {2: 1.5}]) == [0, 0]


def test_nothing_known_is_nothing_drafted() -> None:
    assert best_lengths([{}, {}]) == [0, 0]


LENGTHS = (1, 2, 4)
GAINS = st.lists(st.fixed_dictionaries({n: st.floats(0.5, 2.0) for n in LENGTHS}), min_size=1, max_size=3)


@given(GAINS)
def test_no_other_falling_sequence_gains_more(gains: list[dict[int, float]]) -> None:
    def value(sequence: tuple[int, ...]) -> float:
        return math.prod(gain[n] if n else 1.0 for gain, n in zip(gains, sequence, strict=True))

    found = tuple(best_lengths(gains))
    falling = [s for s in itertools.product((0, *LENGTHS), repeat=len(gains)) if list(s) == sorted(s, reverse=True)]
    assert found in falling
    assert value(found) == pytest.approx(max(map(value, falling)))


def test_a_schedule_holds_up_to_the_last_load_that_pays() -> None:
    found = recommend([1, 4, 16, 64], [6, 6, 2, 0])
    assert found.values == {"policy": "schedule", "draft_length": 6, "schedule": {4: 6, 16: 2}}
    assert "none beyond" in found.sentence


def test_one_length_everywhere_is_fixed() -> None:
    assert recommend([1, 4], [3, 3]).values == {"policy": "fixed", "draft_length": 3}


def test_no_length_at_all_is_said() -> None:
    found = recommend([1, 4], [0, 0])
    assert found.values is None
    assert "serve the baseline" in found.sentence


@pytest.mark.parametrize("lengths", [[6, 3, 0], [5, 5, 5], [8, 0, 0], [1, 1, 0]])
@pytest.mark.parametrize(
    "section", ["", "speculation: {policy: schedule, schedule: {2: 4}}\n", "speculation: {draft_length: 12}\n"]
)
def test_the_spec_takes_every_recommendation_and_keeps_its_engines(lengths: list[int], section: str) -> None:
    values = recommend([1, 4, 16], lengths).values
    assert values is not None
    text = SPEC + section
    before = parse_spec(text)
    after = parse_spec(with_section_values(text, "speculation", spec_values(before, values)))
    assert after.speculation.engine_draft_length == before.speculation.engine_draft_length
    assert after.speculation.policy == values["policy"]
    assert after.speculation.schedule == values.get("schedule", {})
