from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from trtspec.verification.cells import LEAST, count_cells

SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=120)


@given(SEQUENCES, SEQUENCES)
def test_every_sample_is_in_one_cell_and_none_is_too_small(
    baseline: list[list[int]], speculative: list[list[int]]
) -> None:
    cells = count_cells(baseline, speculative)
    assert sum(cell.baseline for cell in cells) == len(baseline)
    assert sum(cell.speculative for cell in cells) == len(speculative)
    assert len(cells) == 1 or all(cell.total >= LEAST for cell in cells)


@given(SEQUENCES, SEQUENCES, st.randoms(use_true_random=False))
def test_the_cells_do_not_depend_on_who_wrote_what(
    baseline: list[list[int]], speculative: list[list[int]], rng: random.Random
) -> None:
    everything = baseline + speculative
    rng.shuffle(everything)
    shuffled = count_cells(everything[: len(baseline)], everything[len(baseline) :])
    expected = count_cells(baseline, speculative)
    assert sorted((c.prefix, c.total) for c in shuffled) == sorted((c.prefix, c.total) for c in expected)


def test_frequent_beginnings_are_followed_and_rare_ones_pooled() -> None:
    samples = [(1, 2)] * 40 + [(1, 3)] * 40 + [(5,)] * 20 + [(n, 0) for n in range(10, 25)]
    cells = {cell.prefix: cell for cell in count_cells(samples, samples, least=20)}
    assert cells[1, 2].total == 80
    assert cells[1, 3].total == 80
    assert cells[5,].total == 40
    assert cells[()].pooled
    assert cells[()].total == 30


def test_an_answer_that_ends_is_another_than_one_that_goes_on() -> None:
    cells = count_cells([(1,)] * 50, [(1, 2)] * 50)
    assert sorted((cell.baseline, cell.speculative) for cell in cells) == [(0, 50), (50, 0)]


def test_what_is_left_over_and_small_goes_to_the_smallest_cell() -> None:
    cells = count_cells([(1,)] * 60 + [(2,)] * 30 + [(9,)], [(1,)] * 60 + [(2,)] * 30, least=10)
    assert [(cell.total, cell.pooled) for cell in cells] == [(120, False), (61, True)]
