"""When a level has been measured enough."""

from __future__ import annotations

import pytest

from tests.loadtest.fakes import make_pairs_of_records
from trtspec.loadtest.arrivals import closed_loop, open_loop
from trtspec.loadtest.sequential import earliest_stop
from trtspec.loadtest.stopping import MOST_ROUNDS, Patience, Watch, most_rounds


def test_by_default_one_round_is_enough() -> None:
    watch = Watch(Patience(), closed_loop(1), list)
    assert not any(watch.enough(block) for block in range(100))
    assert not watch.another_round(1)


def test_a_duration_counts_the_load_on_each_arm_and_ends_after_two_blocks() -> None:
    watch = Watch(Patience(duration=10), closed_loop(4), list)
    ended = []
    for block in range(8):
        watch.worked(3.0)
        watch.worked(3.0)
        ended.append(watch.enough(block))
    # 6 s a block: 20 s of both arms are full during the fourth, which is the second of its two
    assert ended.index(True) == 3
    assert watch.another_round(1000)


def test_an_open_loops_duration_is_that_of_its_schedule() -> None:
    watch = Watch(Patience(duration=1), open_loop(5), list)
    watch.worked(100)
    assert not watch.enough(1)


def test_until_ends_when_the_interval_is_narrow() -> None:
    few, many = make_pairs_of_records(20), make_pairs_of_records(150)
    assert not any(Watch(Patience(until=0.0001), closed_loop(1), lambda: many).enough(block) for block in range(150))
    narrow = Watch(Patience(until=0.2), closed_loop(1), lambda: many)
    assert any(narrow.enough(block) for block in range(150))
    # a few pairs that agree by chance are no reason to stop
    assert not any(Watch(Patience(until=0.2), closed_loop(1), lambda: few).enough(block) for block in range(20))


def test_until_does_not_go_on_for_ever_unless_a_duration_says_so() -> None:
    watch = Watch(Patience(until=0.01), closed_loop(1), list)
    assert watch.another_round(MOST_ROUNDS - 1)
    assert not watch.another_round(MOST_ROUNDS)
    assert Watch(Patience(until=0.01, duration=9), closed_loop(1), list).another_round(MOST_ROUNDS)


def test_until_does_not_ask_the_same_prompts_for_ever() -> None:
    """After three times every prompt the interval hardly narrows: it speaks of other prompts."""
    assert most_rounds(240, 60) == 12
    assert most_rounds(5000, 60) == MOST_ROUNDS
    assert most_rounds(3, 60) == 1
    watch = Watch(Patience(until=0.01), closed_loop(1), list, most_rounds(60, 60))
    assert watch.another_round(2)
    assert not watch.another_round(3)


def test_nobody_is_asked_before_two_looks_can_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def width_reached(*_: object) -> bool:
        asked.append(1)
        return False

    monkeypatch.setattr("trtspec.loadtest.sequential.width_reached", width_reached)
    for traffic, first in ((closed_loop(1), 90), (closed_loop(4), 18), (open_loop(5), 18)):
        asked.clear()
        watch = Watch(Patience(until=0.1), traffic, list)
        assert first == next(block + 1 for block in range(200) if watch.enough(block) or asked)
        assert first == earliest_stop(alone=first == 90)


def test_requests_that_were_asked_for_are_a_limit() -> None:
    assert not Watch(Patience(duration=100, one_round=True), closed_loop(1), list).another_round(1)
