from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.planning.acceptance import (
    Acceptance,
    alpha_from_rate,
    expected_tokens,
    histogram_shares,
    operations_factor,
    positions_from_alpha,
    rate_from_alpha,
    walltime_improvement,
)

ALPHAS = st.floats(0.0, 1.0)
LENGTHS = st.integers(1, 24)


# Leviathan et al., arXiv 2211.17192, table 1: c = ĉ = 0
@pytest.mark.parametrize(
    ("alpha", "length", "operations", "speed"),
    [
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_the_papers_table_of_speed_and_operations(alpha: float, length: int, operations: float, speed: float) -> None:
    assert walltime_improvement(alpha, length, 0.0) == pytest.approx(speed, abs=0.005)
    assert operations_factor(alpha, length) == pytest.approx(operations, abs=0.006)


# the same, table 4 (T5-XXL on translation, temperature 0): expected improvement from α, γ and c as printed there
@pytest.mark.parametrize(
    ("alpha", "length", "cost_ratio", "speed"), [(0.75, 7, 0.02, 3.2), (0.8, 7, 0.04, 3.3), (0.82, 7, 0.11, 2.5)]
)
def test_the_papers_predictions(alpha: float, length: int, cost_ratio: float, speed: float) -> None:
    assert walltime_improvement(alpha, length, cost_ratio) == pytest.approx(speed, abs=0.05)


@pytest.mark.parametrize(("length", "cost_ratio", "speed"), [(4, 0.30, 1.05), (4, 0.05, 1.92), (10, 0.30, 0.62)])
def test_a_dear_draft_turns_a_good_acceptance_into_a_loss(length: int, cost_ratio: float, speed: float) -> None:
    improvement = walltime_improvement(0.6, length, cost_ratio)
    assert improvement == pytest.approx(speed, abs=0.005)
    assert (improvement < 1) == (length == 10)


def test_the_bigram_of_the_paper() -> None:
    """A free draft with α = 0.2 and γ = 3 gives 1.25 (section 3.6)."""
    assert walltime_improvement(0.2, 3, 0.0) == pytest.approx(1.25, abs=0.005)


@given(ALPHAS, st.integers(0, 24))
def test_tokens_of_a_round_are_the_closed_form(alpha: float, length: int) -> None:
    closed = length + 1 if alpha == 1 else (1 - alpha ** (length + 1)) / (1 - alpha)
    assert expected_tokens(alpha, length) == pytest.approx(closed, rel=1e-6)
    assert 1 <= expected_tokens(alpha, length) <= length + 1 + 1e-9


@given(ALPHAS, ALPHAS, LENGTHS)
def test_more_acceptance_is_never_fewer_tokens(one: float, other: float, length: int) -> None:
    low, high = sorted((one, other))
    assert expected_tokens(low, length) <= expected_tokens(high, length)


@given(ALPHAS)
def test_no_draft_changes_nothing(alpha: float) -> None:
    assert walltime_improvement(alpha, 0, 0.3) == 1.0


@given(ALPHAS, LENGTHS)
def test_the_measured_rate_leads_back_to_alpha(alpha: float, length: int) -> None:
    rate = rate_from_alpha(alpha, length)
    assert rate <= alpha + 1e-12
    assert rate_from_alpha(alpha_from_rate(rate, length), length) == pytest.approx(rate, abs=1e-12)


def test_the_rate_is_the_closed_form_and_not_alpha() -> None:
    alpha, length = 0.8, 4
    assert rate_from_alpha(alpha, length) == pytest.approx(alpha * (1 - alpha**length) / ((1 - alpha) * length))
    assert rate_from_alpha(alpha, length) == pytest.approx(0.5904)
    assert alpha_from_rate(0.5904, length) == pytest.approx(0.8)
    assert alpha_from_rate(0.8, 1) == pytest.approx(0.8)


@given(ALPHAS, LENGTHS)
def test_the_histogram_sums_to_one_and_carries_the_mean(alpha: float, length: int) -> None:
    shares = histogram_shares(positions_from_alpha(alpha, length))
    assert math.fsum(shares) == pytest.approx(1.0)
    accepted = sum(count * share for count, share in enumerate(shares))
    assert 1 + accepted == pytest.approx(expected_tokens(alpha, length))


def test_measured_positions_are_used_and_continued_by_alpha() -> None:
    measured = Acceptance(0.5, 2, "measured", (0.7, 0.3))
    assert measured.tokens_per_round(1) == pytest.approx(1.7)
    assert measured.tokens_per_round(2) == pytest.approx(2.0)
    assert measured.by_position(4) == pytest.approx((0.7, 0.3, 0.3 * measured.alpha, 0.3 * measured.alpha**2))
    assert measured.to_json()["acceptance_histogram"] == pytest.approx([0.3, 0.4, 0.3])


def test_a_given_rate_gives_the_same_tokens_at_its_own_length() -> None:
    given_rate = Acceptance(0.6, 5, "option")
    assert given_rate.tokens_per_round(5) == pytest.approx(1 + 5 * 0.6)
