"""Metrics on hand-made streams, among them the ones that other tools get wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.fakes import MS, record
from trtspec.loadtest import metrics
from trtspec.loadtest.distribution import describe, percentile
from trtspec.loadtest.records import Record
from trtspec.loadtest.sample import Sample
from trtspec.loadtest.table import table_of
from trtspec.loadtest.throughput import Load, measure_load
from trtspec.loadtest.timeline import output_tokens
from trtspec.wire.messages import Counters

METRICS = {metric.name: metric for metric in metrics.METRICS}


def sample_of(*records: Record) -> Sample:
    table = table_of(records)
    return Sample(table, np.flatnonzero(table.ok))


def values(name: str, *records: Record) -> list[float]:
    """Every value of a metric, in its unit."""
    metric = METRICS[name]
    found: list[float] = (metric.values(sample_of(*records)) * metric.scale).tolist()
    return found


def load_of(measured: Sequence[Record], others: Sequence[Record] = ()) -> Load:
    table = table_of([*measured, *others])
    rows = np.arange(len(table))
    return measure_load(table, rows[: len(measured)], rows[len(measured) :])


def rows_of(*records: Record) -> dict[str, Any]:
    return metrics.metric_rows(sample_of(*records))


# 49 chunks every 26 ms, 128 tokens, three in the first: decodes at the pace of 128 tokens every 10 ms
PATTERN = [3, 1, 4, 2, 5, 1, 1, 4, 3, 2]
SPECULATIVE = record([(50 + 26 * i, PATTERN[i % 10]) for i in range(49)])
BASELINE = record([(50 + 10 * i, 1) for i in range(128)])


def test_speculation_at_the_same_pace_has_the_same_time_per_token() -> None:
    assert values("time_per_output_token", BASELINE) == pytest.approx([0.010])
    tokens = sum(PATTERN[i % 10] for i in range(49))
    expected = 48 * 0.026 / (tokens - 3)
    assert values("time_per_output_token", SPECULATIVE) == pytest.approx([expected])
    assert expected == pytest.approx(0.010, rel=0.02)
    # the gap between chunks is another thing, and not called a time per token
    assert values("inter_chunk_latency", SPECULATIVE) == pytest.approx([0.026] * 48)


def test_short_answer_with_many_tokens_in_the_first_chunk() -> None:
    """Dividing by n - 1 would read 8.67 ms."""
    short = record([(50 + 26 * i, k) for i, k in enumerate([3, 1, 4, 2, 5, 1])])
    assert values("time_per_output_token", short) == pytest.approx([0.010])


def test_chunk_gaps_and_tokens_per_chunk() -> None:
    """Several tokens in a chunk: the chunk gap is no time per token."""
    answer = record([(100, 4), (150, 3), (200, 1), (260, 4)])
    assert sum(values("inter_chunk_latency", answer)) / 3 == pytest.approx(0.0533, abs=1e-4)
    assert values("tokens_per_chunk", answer) == [4, 3, 1, 4]
    assert values("time_per_output_token", answer) == pytest.approx([0.160 / 8])
    assert values("max_stall", answer) == pytest.approx([0.060])


def test_one_token_has_no_time_per_token() -> None:
    """One token has no time per output token."""
    rows = rows_of(record([(80, 1)]))
    for name in ("time_per_output_token", "inter_chunk_latency", "max_stall"):
        assert rows[name]["mean"] is None
        assert rows[name]["count"] == 0
        assert rows[name]["reason"]
    assert rows["time_to_first_token"]["mean"] == pytest.approx(0.080)
    assert rows["request_latency"]["mean"] == pytest.approx(0.080)


def test_identity_of_latency_first_token_and_time_per_token() -> None:
    answer = record([(30, 2), (70, 3), (90, 1)])
    (first,), (per_token,), (latency,) = (
        values("time_to_first_token", answer),
        values("time_per_output_token", answer),
        values("request_latency", answer),
    )
    assert latency == pytest.approx(first + per_token * 4)


def test_first_token_is_the_first_text_and_the_end_is_the_last_text() -> None:
    """A keep-alive, an empty text, text at 120 ms, and a closing message at 300 ms."""
    answer = record([(5, None, ""), (60, 0, ""), (120, 2, "Hi"), (300, None, "")])
    assert values("time_to_first_token", answer) == pytest.approx([0.120])
    assert values("request_latency", answer) == pytest.approx([0.120])
    assert values("time_per_output_token", answer) == []


def test_tokens_held_back_count_with_the_text_that_follows() -> None:
    answer = record([(10, 1, "a"), (20, 1, ""), (30, 1, "bc"), (40, 1, "")])
    assert values("tokens_per_chunk", answer) == [1, 2]
    assert values("time_per_output_token", answer) == pytest.approx([0.010])
    assert output_tokens(record([(10, 1, "a"), (20, 1, ""), (30, 1, "bc"), (40, 1, "")])) == 4


def test_pauses_between_the_requests_of_an_open_loop_belong_to_its_load() -> None:
    """Two requests/s that take 100 ms each are no ten requests/s; the time between two blocks is the other arm's."""
    records = [
        record(
            [(50, 1), (100, 1)],
            prompt=f"p{i}",
            start_ms=500 * i + 60_000 * (i // 5),
            load="poisson 2/s",
            block=i // 5,
        )
        for i in range(10)
    ]
    found = load_of(records)
    assert found.seconds == pytest.approx(2 * 2.1)
    assert found.requests_per_second == pytest.approx(10 / 4.2)
    assert found.tokens_per_second == pytest.approx(20 / 4.2)
    alone = [replace(one, block=None) for one in records]
    assert load_of(alone).seconds == pytest.approx(10 * 0.1)


def test_open_loop_counts_from_the_scheduled_time() -> None:
    """A request sent 2 s late was slow for who waited for it."""
    late = record([(50, 1)], start_ms=2000, scheduled_ns=0)
    assert values("request_latency", (late)) == pytest.approx([2.050])
    assert values("time_to_first_token", (late)) == pytest.approx([2.050])


def test_a_stall_under_a_fixed_rate_shows_in_the_tail() -> None:
    """10 requests a second for 10 s, 50 ms each, one stall of 2 s."""
    records, free = [], 0.0
    for index in range(100):
        due = index * 100.0
        begin = max(due, free)
        free = begin + (2000.0 if index == 30 else 50.0)
        records.append(record([(free - begin, 1)], start_ms=begin, scheduled_ns=round(due * MS)))
    row = rows_of(*records)["request_latency"]
    assert row["p99"] > 1.9


def test_unknown_token_counts_are_absent_not_zero() -> None:
    rows = rows_of(record([(10, None), (30, None)]))
    assert rows["time_per_output_token"]["mean"] is None
    assert "token counts" in rows["time_per_output_token"]["reason"]
    assert rows["output_tokens_per_second"]["mean"] is None
    assert rows["inter_chunk_latency"]["mean"] == pytest.approx(0.020)


def test_the_servers_final_count_stands_in_for_counts_per_chunk() -> None:
    answer = record([(500, None), (1000, None)], server=Counters(num_output_tokens=10))
    assert values("output_tokens_per_second", answer) == pytest.approx([10])
    assert values("time_per_output_token", answer) == []
    assert load_of([answer], []).tokens == 10


def test_chunks_without_any_text_still_have_times() -> None:
    answer = record([(10, 2, ""), (30, 2, "")])
    assert values("time_per_output_token", answer) == pytest.approx([0.010])


def test_tokens_per_second_of_one_user() -> None:
    assert values("output_tokens_per_second", (record([(500, 4), (1000, 6)]))) == pytest.approx([10])


def test_every_metric_tells_its_formula_and_unit() -> None:
    for metric in metrics.METRICS:
        assert metric.formula, metric.name
        assert metric.unit


def test_percentiles_need_a_sample_that_carries_them() -> None:
    """P99 of 30 samples is none."""
    row = describe([float(i) for i in range(30)], "s")
    assert row["p99"] is None
    assert row["p95"] == pytest.approx(27.55)
    assert "p99 needs 100" in row["reason"]
    assert describe([float(i) for i in range(100)], "s")["p99"] is not None
    assert describe([1.0] * 9, "s")["p90"] is None


def test_the_tail_of_a_rate_is_the_low_one() -> None:
    """P99 of throughput would be the best one per cent."""
    row = describe([float(i) for i in range(200)], "tokens/s", higher_is_better=True)
    assert row["p1"] == pytest.approx(1.99)
    assert row["p99"] is None
    assert row["p90"] is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 100))
def test_percentile_is_numpys(values: list[float], rank: float) -> None:
    import numpy as np

    assert math.isclose(percentile(sorted(values), rank), float(np.percentile(values, rank)), abs_tol=1e-6)


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5)), min_size=2, max_size=30))
def test_bundling_tokens_never_changes_the_time_per_token(gaps: list[tuple[int, int]]) -> None:
    """A law: the same tokens by the same time, in fewer chunks, are as fast."""
    at, fine = 0, []
    for gap, tokens in gaps:
        at += gap
        fine.append((float(at), tokens))
    bundled = [fine[0], (fine[-1][0], sum(tokens for _, tokens in fine[1:]))]
    one = values("time_per_output_token", (record(fine)))
    other = values("time_per_output_token", (record(bundled)))
    assert one == pytest.approx(other)
