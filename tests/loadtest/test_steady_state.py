from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.loadtest.fakes import make_pairs_of_records
from trtspec.loadtest.pairing import pair_rows
from trtspec.loadtest.records import Record
from trtspec.loadtest.steady_state import halves, settled, steady_state
from trtspec.loadtest.table import table_of


def stretched(one: Record, factor: float) -> Record:
    chunks = tuple(replace(c, t_ns=one.start_ns + round(factor * (c.t_ns - one.start_ns))) for c in one.chunks)
    return replace(one, chunks=chunks, end_ns=chunks[-1].t_ns)


def test_a_transient_is_cut_where_it_ends() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(1.0, 0.05, 200)
    values[:30] *= 2
    assert 28 <= settled(values) <= 40


def test_steady_values_are_not_cut() -> None:
    rng = np.random.default_rng(2)
    cut = [settled(rng.lognormal(0, 0.1, 100)) for _ in range(200)]
    assert sum(found > 0 for found in cut) <= 10


@pytest.mark.parametrize("values", [np.ones(19), np.full(40, np.nan), np.ones(40)])
def test_too_few_unknown_or_equal_values_are_steady(values: np.ndarray) -> None:  # type: ignore[type-arg]
    assert settled(values) == 0


def test_long_runs_are_cut_in_batches() -> None:
    values = np.ones(10_000)
    values[:1000] = 3 + np.arange(1000) / 1000
    values += np.random.default_rng(3).normal(0, 0.1, 10_000)
    assert settled(values) == 1000


def test_the_window_of_a_level() -> None:
    """The first 10 of 60 speculative requests twice as slow."""
    records = [
        stretched(one, 2) if one.arm == "speculative" and int(one.prompt_id[1:]) < 10 else one
        for one in make_pairs_of_records(60, spread=0)
    ]
    found = steady_state(pair_rows(table_of(records)))
    assert found["speculative"]["skipped"] == 10
    assert found["speculative"]["transient"] == pytest.approx(2.0, rel=0.02)
    assert found["baseline"]["skipped"] == 0
    assert found["baseline"]["begins"] == 0.0
    assert found["speculative"]["begins"] > 3
    assert found["speculative"]["ends"] > found["speculative"]["begins"]
    assert found["speedup"]["count"] == 50
    assert found["speedup"]["estimate"] == pytest.approx(2.0, rel=0.02)


def test_halves() -> None:
    records = [one for one in make_pairs_of_records(40, spread=0) if one.arm == "baseline"]
    table = table_of([stretched(one, 1.5 if i >= 20 else 1) for i, one in enumerate(records)])
    assert halves(table, np.arange(40)) == pytest.approx(1.5, rel=0.02)
    assert halves(table, np.arange(10)) is None
