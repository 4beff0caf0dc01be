from __future__ import annotations

import random
from dataclasses import replace

from tests.loadtest.fakes import MS, make_pairs_of_records
from trtspec.loadtest.records import Record
from trtspec.loadtest.sequential import looks, width_reached
from trtspec.loadtest.table import table_of


def noisy(count: int, noise: float, concurrency: int = 1) -> list[Record]:
    """Pairs whose requests are off by `noise` (relative, uniform)."""
    rng = random.Random(1)
    records = []
    for one in make_pairs_of_records(count, tokens=3, concurrency=concurrency):
        factor = 1 + rng.uniform(-noise, noise)
        last = one.start_ns + round((one.chunks[-1].t_ns - one.start_ns) * factor)
        chunks = (*one.chunks[:-1], replace(one.chunks[-1], t_ns=max(last, one.chunks[-2].t_ns)))
        block = None if concurrency == 1 else int(one.prompt_id[1:]) // 8
        records.append(replace(one, chunks=chunks, end_ns=max(last, one.end_ns), block=block))
    return records


def test_only_a_few_sizes_are_looked_at() -> None:
    assert looks(59, 60) == []
    assert looks(60, 60) == [60]
    assert looks(500, 60) == [60, 90, 135, 202, 303, 454]


def test_stops_at_a_narrow_interval_and_not_at_a_wide_one() -> None:
    assert width_reached(noisy(100, 0.02), 0.05)
    assert not width_reached(noisy(100, 0.3), 0.05)
    assert width_reached(noisy(100, 0.3), 0.2)


def test_never_before_two_looks() -> None:
    assert not width_reached(noisy(89, 0.0), 0.5)
    assert width_reached(noisy(90, 0.0), 0.5)
    assert not width_reached(noisy(17 * 8, 0.0, concurrency=8), 0.5)
    assert width_reached(noisy(18 * 8, 0.0, concurrency=8), 0.5)
    assert not width_reached([], 0.5)


def slowed(one: Record, ms: float) -> Record:
    """The same request with its last text so much later."""
    last = replace(one.chunks[-1], t_ns=one.chunks[-1].t_ns + round(ms * MS))
    return replace(one, chunks=(*one.chunks[:-1], last), end_ns=last.t_ns)


def test_between_two_looks_nothing_changes() -> None:
    """What came after the last size that is looked at does not count: 90 quiet pairs, then some wild ones."""
    quiet, index = noisy(140, 0.02), 90
    wild = [
        slowed(one, 900)
        if one.arm == "baseline" and int(one.prompt_id[1:]) >= index and len(one.prompt_id) % 2
        else one
        for one in quiet
    ]
    until_134 = [one for one in wild if int(one.prompt_id[1:]) < 134]
    assert width_reached(until_134, 0.05)
    assert not width_reached(wild, 0.05)


def test_every_level_must_be_narrow() -> None:
    both = [*noisy(100, 0.02), *noisy(18 * 8, 0.6, concurrency=8)]
    assert width_reached(noisy(100, 0.02), 0.05)
    assert not width_reached(both, 0.05)


def test_where_the_interval_lies_does_not_matter() -> None:
    """No difference at all stops as early as a large one."""
    same = make_pairs_of_records(90, baseline_ms=10, speculative_ms=10, tokens=3)
    assert width_reached(table_of(same), 0.05)
