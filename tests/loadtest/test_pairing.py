from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.loadtest.fakes import MS, make_pairs_of_records, record
from trtspec.loadtest.intervals import batches
from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.pairing import Pairs, pair_rows, record_pairs, repeated_prompts
from trtspec.loadtest.records import Record
from trtspec.loadtest.speedups import SCHEDULED, closed_throughput, headline
from trtspec.loadtest.table import table_of
from trtspec.loadtest.throughput import measure_load
from trtspec.loadtest.unit_loads import unit_loads
from trtspec.loadtest.units import levels_of, units_of


def pairs_of(records: list[Record]) -> Pairs:
    return pair_rows(table_of(records))


def keys(pairs: Pairs) -> list[str]:
    return [pair.key for pair in record_pairs(pairs)]


def test_pairs_need_both_arms_and_the_same_load() -> None:
    records = [
        record(prompt="a"),
        record(prompt="a", arm="speculative", concurrency=4),
        record(prompt="b"),
        record(prompt="b", arm="speculative", error="boom"),
        record(prompt="c", start_ms=1),
        record(prompt="c", start_ms=2),
        record(prompt="c", arm="speculative"),
        record(prompt="d", load="poisson 5/s"),
        record(prompt="d", arm="speculative", load="poisson 6/s"),
        record(prompt="e", excluded="warm-up"),
        record(prompt="e", arm="speculative", excluded="warm-up"),
    ]
    assert keys(pairs_of(records)) == ["c"]


def test_the_first_time_a_prompt_was_sent_pairs_with_the_first_time() -> None:
    records = [
        record([(1, 1, "late")], prompt="a", start_ms=50),
        record([(1, 1, "early")], prompt="a", start_ms=5),
        record([(1, 1, "first")], prompt="a", arm="speculative", start_ms=7),
        record([(1, 1, "second")], prompt="a", arm="speculative", start_ms=70),
    ]
    texts = [(pair.baseline.text, pair.speculative.text) for pair in record_pairs(pairs_of(records))]
    assert texts == [("early", "first"), ("late", "second")]


def test_pairs_stand_in_order_of_level_and_time_whatever_the_order_of_lines() -> None:
    records = [*make_pairs_of_records(12), *make_pairs_of_records(6, concurrency=4)]
    shuffled = random.Random(1).sample(records, len(records))
    assert (
        keys(pairs_of(records))
        == keys(pairs_of(shuffled))
        == [*[f"p{i}" for i in range(12)], *[f"p{i}" for i in range(6)]]
    )
    at_once = [replace(one, start_ns=0, scheduled_ns=0) for one in make_pairs_of_records(9)]
    assert keys(pairs_of(at_once)) == keys(pairs_of(list(reversed(at_once))))


def test_repeats_are_counted_within_arm_and_load() -> None:
    records = [record(), record(), record(arm="speculative"), record(concurrency=4), record(excluded="warm-up")]
    assert repeated_prompts(table_of(records)) == 1


@pytest.mark.parametrize(
    ("label", "kind", "value", "closed", "alone"),
    [
        ("concurrency 1", "concurrency", 1, True, True),
        ("concurrency 16", "concurrency", 16, True, False),
        ("poisson 5/s", "poisson", 5, False, False),
        ("gamma 0.5/s", "gamma", 0.5, False, False),
        ("trace", "trace", None, False, False),
    ],
)
def test_labels(label: str, kind: str, value: float | None, closed: bool, alone: bool) -> None:
    level = parse_level(label)
    assert (level.kind, level.value, level.closed, level.alone) == (kind, value, closed, alone)


def test_small_loads_come_first_and_closed_ones_before_open_ones() -> None:
    labels = ["poisson 50/s", "concurrency 16", "trace", "concurrency 2", "poisson 5/s"]
    records = [record(arm=arm, prompt=label, load=label) for label in labels for arm in ("baseline", "speculative")]
    found = [level.label for level, _ in levels_of(pairs_of(records))]
    assert found == ["concurrency 2", "concurrency 16", "poisson 5/s", "poisson 50/s", "trace"]


def test_a_unit_is_a_pair_at_concurrency_1_and_a_block_above() -> None:
    alone = pairs_of(make_pairs_of_records(20))
    assert units_of(alone).unit.tolist() == list(range(20))
    assert units_of(alone).word == "pairs"
    together = [replace(one, block=9 - int(one.prompt_id[1:]) // 4) for one in make_pairs_of_records(20, concurrency=4)]
    units = units_of(pairs_of(together))
    assert units.unit.tolist() == [i // 4 for i in range(20)]
    assert units.word == "blocks"


def test_in_open_loop_blocks_are_units_too() -> None:
    records = [replace(one, block=int(one.prompt_id[1:]) // 5, load="poisson 3/s") for one in make_pairs_of_records(20)]
    assert units_of(pairs_of(records)).unit.tolist() == [i // 5 for i in range(20)]


def test_without_blocks_neighbours_that_ran_together_are_merged() -> None:
    units = units_of(pairs_of(make_pairs_of_records(60, concurrency=8)))
    assert len(units) == 10
    assert units.unit.tolist() == [i // 6 for i in range(60)]


def test_many_pairs_are_merged_into_some_dozens_of_batches() -> None:
    units = units_of(pairs_of(make_pairs_of_records(400, tokens=2)))
    assert len(units) == 40
    assert units.unit.tolist() == batches(400).tolist()


def test_units_of_two_levels_do_not_mix() -> None:
    units = units_of(pairs_of([*make_pairs_of_records(6), *make_pairs_of_records(6, concurrency=2)]))
    assert units.unit[:6].max() < units.unit[6:].min()
    assert units.strata.of.tolist() == [0] * 6 + [1] * (len(units) - 6)


def test_all_repeats_of_a_prompt_are_one_unit() -> None:
    """40 pairs of 8 prompts: eight texts were tried, whatever the number of times."""
    records = [replace(one, prompt_id=f"q{int(one.prompt_id[1:]) % 8}") for one in make_pairs_of_records(40)]
    units = units_of(pairs_of(records))
    assert units.unit.tolist() == [i % 8 for i in range(40)]
    assert units.word == "prompts"
    assert headline(pairs_of(records)).units == 8
    assert headline(pairs_of([one for one in records if one.prompt_id < "q4"])).reason == (
        "an interval needs 5 prompts at each load level"
    )


def test_a_session_is_one_unit_with_all_its_turns_and_repeats() -> None:
    def of_session(one: Record) -> Record:
        index = int(one.prompt_id[1:])
        session, turn = divmod(index % 15, 3)
        again = "" if index < 15 else "~2"
        return replace(one, prompt_id=f"s{session}/{turn}", session=f"s{session}{again}", turn=turn)

    units = units_of(pairs_of([of_session(one) for one in make_pairs_of_records(30)]))
    assert units.unit.tolist() == [(i % 15) // 3 for i in range(30)]


def test_levels_are_alike_as_far_as_they_share_prompts() -> None:
    low, high = make_pairs_of_records(8), make_pairs_of_records(32, concurrency=4)
    likeness = units_of(pairs_of([*low, *high])).strata.likeness
    assert likeness.tolist() == [[1.0, 0.5], [0.5, 1.0]]
    elsewhere = [replace(one, prompt_id=f"other {one.prompt_id}") for one in high]
    assert units_of(pairs_of([*low, *elsewhere])).strata.likeness.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_blocks_of_repeated_prompts_are_not_independent() -> None:
    """Every prompt four times at concurrency 4: the variance over blocks counts four times."""
    records = make_pairs_of_records(64, concurrency=4)
    repeated = [replace(one, prompt_id=f"q{int(one.prompt_id[1:]) % 16}") for one in records]
    once, four = headline(pairs_of(records)), headline(pairs_of(repeated))
    assert once.spread is not None
    assert units_of(pairs_of(repeated)).strata.likeness.tolist() == [[4.0]]
    assert four.spread == pytest.approx(2 * once.spread)


def test_sums_leave_out_what_was_not_measured() -> None:
    units = units_of(pairs_of(make_pairs_of_records(4)))
    sums, strata = units.sums(np.array([[1.0, 2], [np.nan, 1], [3, 4], [5, 6]]))
    assert sums.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert strata.of.tolist() == [0, 0, 0]


def overlapping(arm: str, block: int, start: float) -> list[Record]:
    """Two requests of 10 tokens that overlap by half, and a filler of 6 tokens of which 4 arrive in their time."""
    shared: dict[str, Any] = {"arm": arm, "block": block, "concurrency": 2}
    stream = [(4.0 * (i + 1), 1) for i in range(10)]
    two = [record(stream, prompt=f"{block}-{n}", start_ms=start + 20 * n, **shared) for n in range(2)]
    filler = [(10.0 * i, 1) for i in range(1, 7)]
    return [*two, record(filler, prompt=f"f{block}", start_ms=start + 20, excluded="fill", **shared)]


def blocks(count: int) -> list[Record]:
    """Both arms of `count` such blocks, apart in time."""
    arms = ("baseline", "speculative")
    return [one for block in range(count) for arm in arms for one in overlapping(arm, block, 500.0 * block)]


def test_a_blocks_active_time_is_a_union_and_fillers_add_their_tokens() -> None:
    """40 ms and 40 ms that overlap by 20: 60 ms; 20 tokens and the filler's at 30, 40, 50 and 60 ms."""
    pairs = pairs_of(blocks(3))
    loads = unit_loads(pairs, units_of(pairs), "baseline")
    assert loads.tolist() == [[60 * MS, 24]] * 3


def test_a_filler_that_ends_after_everything_adds_nothing_elsewhere() -> None:
    """Its late text lies as far behind the run's end as the second block's active time lies behind its beginning."""
    straggler = record([(1590, 7)], arm="baseline", prompt="late", block=0, concurrency=2, excluded="fill")
    pairs = pairs_of([*blocks(3), straggler])
    assert unit_loads(pairs, units_of(pairs), "baseline").tolist() == [[60 * MS, 24]] * 3


def test_units_add_up_to_the_load_of_the_arm() -> None:
    table = table_of(blocks(4))
    pairs = pair_rows(table)
    loads = unit_loads(pairs, units_of(pairs), "speculative")
    rows = table.arm_rows("speculative")
    whole = measure_load(table, rows[table.excluded[rows] < 0], rows[table.excluded[rows] >= 0])
    assert loads.sum(axis=0).tolist() == [whole.active_ns, whole.tokens]


def test_tokens_that_are_not_counted_make_no_throughput() -> None:
    arms = ("baseline", "speculative")
    stream = [(10.0, None), (20.0, None)]
    pairs = pairs_of([record(stream, arm=arm, prompt=f"p{i}", start_ms=i * 50) for i in range(6) for arm in arms])
    assert np.isnan(unit_loads(pairs, units_of(pairs), "baseline")[:, 1]).all()


def test_open_loops_are_in_no_throughput() -> None:
    """Where the schedule sets the rate, both arms are equally fast: pooled with closed loops, that hides the gain."""
    closed = make_pairs_of_records(8)
    scheduled = [replace(one, load="poisson 5/s", prompt_id=f"o{one.prompt_id}") for one in make_pairs_of_records(8)]
    assert closed_throughput(pairs_of([*closed, *scheduled])) == closed_throughput(pairs_of(closed))
    assert closed_throughput(pairs_of(scheduled)).reason == SCHEDULED
    assert closed_throughput(pairs_of([])).estimate is None
