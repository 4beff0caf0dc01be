"""The time left of a load test."""

from __future__ import annotations

from tests.loadtest.fakes import record
from trtspec.loadtest.status import Tracker


def test_the_time_left_does_not_count_the_start_and_the_warm_up() -> None:
    now = [0.0]
    tracker = Tracker(10, clock=lambda: now[0])
    now[0] = 20.0
    assert tracker.add(record(excluded="warmup")).seconds_left is None
    measured = record()
    seconds = (measured.end_ns - measured.start_ns) * 1e-9
    now[0] = 20.0 + seconds
    left = tracker.add(measured).seconds_left
    assert left is not None
    assert abs(left - 9 * seconds) < 1e-6
