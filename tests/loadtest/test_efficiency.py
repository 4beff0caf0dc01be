from __future__ import annotations

from dataclasses import replace

import pytest

from tests.loadtest.fakes import counters, record
from trtspec.loadtest.efficiency import Efficiency, efficiency, rounds_after_first
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.records import Record
from trtspec.loadtest.speedups import headline
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of


def two_arms(first_token: float = 10, *, server: bool = False, stalls: bool = False) -> list[Record]:
    """Baseline: 41 tokens, 10 ms each. Speculative: after the first token ten rounds of 4 tokens and 20 ms."""
    records = []
    for index in range(12):
        start = 2000.0 * index
        slow = [(10.0 + 10 * i, 1) for i in range(41)]
        fast: list[tuple[float, int]] = [(first_token, 1)]
        for i in range(10):
            stall = 100 if stalls and i == 9 else 0
            fast.append((first_token + 20 * (i + 1) + stall, 4))
        known = counters([0, 0, 0, 10], 40, 41) if server else None
        records.append(record(slow, prompt=f"p{index}", start_ms=start))
        records.append(record(fast, prompt=f"p{index}", start_ms=start + 1000, arm="speculative", server=known))
    return records


def pairs_of(records: list[Record]) -> Pairs:
    return pair_rows(table_of(records))


def parts(records: list[Record]) -> Efficiency:
    pairs = pairs_of(records)
    return efficiency(pairs, headline(pairs))


@pytest.mark.parametrize("server", [False, True])
def test_four_tokens_at_the_price_of_two_are_twice_as_fast(server: bool) -> None:
    """S = L / (1 + c) with L = 4 and a round of 2 baseline steps."""
    found = parts(two_arms(server=server))
    assert found.tokens_per_round == pytest.approx(4)
    assert found.round_cost == pytest.approx(2)
    assert found.predicted == pytest.approx(2)
    assert found.decode == pytest.approx(2)
    assert found.source == ("server" if server else "chunks")
    assert found.measured == pytest.approx(410 / 210)


def test_rounds_come_from_counters_when_texts_hold_several_rounds() -> None:
    """The same ten rounds sent two at a time: texts would say five."""
    merged = []
    for one in two_arms(server=True):
        if one.arm == "speculative":
            late = [replace(chunk, tokens=8) for chunk in one.chunks[2::2]]
            one = replace(one, chunks=(one.chunks[0], *late))  # noqa: PLW2901 - the changed record
        merged.append(one)
    rounds, source = rounds_after_first(pairs_of(merged))
    assert (rounds.tolist(), source) == ([10.0] * 12, "server")
    assert parts(merged).tokens_per_round == pytest.approx(4)


def test_the_factors_multiply_to_the_measured_speed_up() -> None:
    for records in (two_arms(first_token=100), two_arms(stalls=True), two_arms(server=True)):
        shown = parts(records).to_json()
        product = 1.0
        for factor in shown["factors"].values():
            product *= factor
        assert product == pytest.approx(shown["measured"])


def test_where_the_gap_goes() -> None:
    late = parts(two_arms(first_token=100)).to_json()
    assert late["factors"]["first_token_and_ending"] == pytest.approx(410 / 300 / 2)
    assert late["factors"]["uneven_rounds"] == pytest.approx(1)
    uneven = parts(two_arms(stalls=True)).to_json()
    assert uneven["factors"]["uneven_rounds"] < 0.8
    assert late["gap"] == pytest.approx(410 / 300 / 2 - 1)


def test_the_sentence_names_what_eats_the_gain() -> None:
    plain = parts(two_arms()).sentence()
    assert plain == "a round brings 4.00 tokens and takes as long as 2.00 baseline steps"
    late = parts(two_arms(first_token=100)).sentence()
    assert late is not None
    assert "which alone would be 2.00 times; the first token and the ending make it 1.37" in late
    uneven = parts(two_arms(stalls=True)).sentence()
    assert uneven is not None
    assert "; uneven rounds make it " in uneven


def test_a_gain_beyond_the_rounds_is_not_ascribed_to_the_first_token() -> None:
    parts_of_it = Efficiency(tokens_per_round=1.94, round_cost=4.78, decode=0.44, measured=0.45)
    assert str(parts_of_it.sentence()).endswith("which alone would be 0.41 times; uneven rounds make it 0.45")
    assert str(parts_of_it.sentence(0.452)).endswith("; uneven rounds make it 0.45")
    assert str(parts_of_it.sentence(0.40)).endswith("make it 0.45 (in those pairs whose rounds are known)")


def test_a_long_draft_that_costs_too_much_is_called_a_loss() -> None:
    """4 tokens a round at the price of 5 steps: every token is accepted, and it is slower all the same."""
    records = []
    for one in two_arms():
        if one.arm == "speculative":
            chunks = tuple(
                replace(chunk, t_ns=one.start_ns + round((chunk.t_ns - one.start_ns) * 2.5)) for chunk in one.chunks
            )
            one = replace(one, chunks=chunks, end_ns=chunks[-1].t_ns)  # noqa: PLW2901 - the changed record
        records.append(one)
    comparison = summarise(records)["comparison"]
    assert comparison["verdict_code"] == "SLOWER"
    assert "A round brings 4.00 tokens and takes as long as 5.00 baseline steps" in comparison["verdict"]


def test_answers_in_one_piece_have_no_parts() -> None:
    records = [record([(100, 9)], prompt=f"p{i}", arm=arm) for i in range(6) for arm in ("baseline", "speculative")]
    found = parts(records)
    assert found.predicted is None
    assert found.reason is not None
    assert found.to_json()["factors"] is None
    assert found.sentence() is None
