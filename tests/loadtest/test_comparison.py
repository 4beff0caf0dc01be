from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.loadtest.fakes import MS, counters, make_pairs_of_records, record
from trtspec.loadtest.bootstrap import Cost, Interval, speedup
from trtspec.loadtest.equality import equality
from trtspec.loadtest.pairing import make_pairs
from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.loadtest.selection import group_records
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.verdict import Level, break_even, level_code, overall_code, verdict_sentence


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, 60)


def test_twice_as_fast_is_found_with_a_narrow_interval() -> None:
    comparison = summarise(make_pairs_of_records(40))["comparison"]
    for metric in ("request_latency", "time_per_output_token", "time_to_first_token", "output_tokens_per_second"):
        row = comparison["speedup"][metric]
        assert row["estimate"] == pytest.approx(2.0, rel=0.02), metric
        assert row["low"] <= row["estimate"] <= row["high"]
        assert row["high"] - row["low"] < 0.1, metric
        assert row["confidence"] == 0.95
    assert comparison["verdict_code"] == "FASTER"
    assert "2.0" in comparison["verdict"]
    assert "leave it on" in comparison["verdict"]


def test_the_same_records_give_the_same_summary_in_any_order() -> None:
    records = make_pairs_of_records(30)
    shuffled = random.Random(3).sample(records, len(records))
    assert summarise(records) == summarise(shuffled)


def test_pairing_removes_what_prompts_differ_in() -> None:
    """Prompts that differ tenfold in length say nothing about a speed-up of 1.1."""
    costs = []
    rng = random.Random(0)
    for _ in range(60):
        size = rng.uniform(10, 100)
        costs.append(Cost(size * 1.1 * rng.uniform(0.98, 1.02), 1, size * rng.uniform(0.98, 1.02), 1))
    found = speedup(costs)
    assert found.low is not None
    assert found.high is not None
    assert 1.05 < found.low < 1.1 < found.high < 1.15


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(7)
    hits = 0
    for seed in range(60):
        costs = [Cost(rng.lognormvariate(0.2, 0.3), 1, rng.lognormvariate(0.0, 0.3), 1) for _ in range(40)]
        found = speedup(costs, seed=seed)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 2.718281828**0.2 <= found.high
    assert hits >= 50


def test_interval_agrees_with_scipys() -> None:
    """The same BCa as scipy's, up to resampling noise."""
    import numpy as np
    from scipy.stats import bootstrap

    rng = np.random.default_rng(5)
    baseline, speculative = rng.lognormal(0.3, 0.5, 50), rng.lognormal(0.0, 0.5, 50)

    def ratio(b: Any, s: Any, axis: int = -1) -> Any:
        return np.sum(b, axis=axis) / np.sum(s, axis=axis)

    found: Any = bootstrap((baseline, speculative), ratio, paired=True, method="BCa", rng=1)
    theirs = found.confidence_interval
    ours = speedup([Cost(float(b), 1, float(s), 1) for b, s in zip(baseline, speculative, strict=True)])
    assert ours.low == pytest.approx(float(theirs.low), rel=0.02)
    assert ours.high == pytest.approx(float(theirs.high), rel=0.02)


def test_few_pairs_have_an_estimate_and_no_interval() -> None:
    found = speedup([Cost(2, 1, 1, 1)] * 3)
    assert (found.estimate, found.low) == (2.0, None)
    assert found.reason == "an interval needs 5 pairs at each concurrency"
    assert speedup([]).reason == "no pair has this in both arms"


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    found = speedup([Cost(3, 1, 2, 1)] * 10)
    assert found.low == pytest.approx(1.5)
    assert found.high == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [
        (1.15, 1.31, "FASTER"),
        (0.86, 0.97, "SLOWER"),
        (0.97, 1.03, "NO DIFFERENCE"),
        (0.90, 1.10, "INCONCLUSIVE"),
        (1.01, 1.03, "FASTER"),
        (None, None, "INCONCLUSIVE"),
    ],
)
def test_codes(low: float | None, high: float | None, code: str) -> None:
    assert level_code(Interval(1.0, low, high, 10)) == code


def test_verdict_with_a_break_even() -> None:
    levels = [Level(1, interval(1.23, 1.15, 1.31)), Level(4, interval(0.91, 0.86, 0.97))]
    sentence = verdict_sentence(levels)
    assert sentence == (
        "Speculation is 1.23 times faster at concurrency 1 (95 % interval 1.15–1.31) and slower (0.91 times the "
        "baseline's speed, 95 % interval 0.86–0.97) at concurrency 4; leave it on below concurrency 4."
    )
    assert overall_code(levels) == "MIXED"
    at, reason = break_even(levels)
    assert reason is None
    assert at is not None
    assert 2 < at < 4


@pytest.mark.parametrize(
    ("speedups", "words"),
    [
        ([1.2], "needs at least two"),
        ([1.3, 1.1], "not slower at any"),
        ([0.9, 0.8], "not faster at any"),
        ([0.9, 1.1], "does not fall steadily"),
    ],
)
def test_no_break_even_has_a_reason(speedups: list[float], words: str) -> None:
    levels = [Level(2**i, interval(s, s - 0.01, s + 0.01)) for i, s in enumerate(speedups)]
    at, reason = break_even(levels)
    assert at is None
    assert reason is not None
    assert words in reason


def test_verdict_advice() -> None:
    on, off, open_ = interval(1.2, 1.1, 1.3), interval(0.8, 0.7, 0.9), interval(1.0, 0.8, 1.2)
    assert verdict_sentence([Level(1, on), Level(4, on)]).endswith("leave it on at these concurrencies.")
    assert verdict_sentence([Level(1, off)]).endswith("leave it off at concurrency 1.")
    assert verdict_sentence([Level(1, on), Level(4, open_)]).endswith(
        "measure more requests at concurrency 4 before deciding."
    )
    assert verdict_sentence([]).startswith("No comparison")


def test_a_server_that_refuses_does_not_win() -> None:
    """No verdict with 0 % against 20 % errors."""
    records = make_pairs_of_records(40)
    refused = [
        replace(r, error="overloaded", chunks=()) if r.arm == "speculative" and int(r.prompt_id[1:]) % 5 == 0 else r
        for r in records
    ]
    summary = summarise(refused)
    assert summary["arms"]["speculative"]["error_rate"] == pytest.approx(0.2)
    assert summary["comparison"]["verdict"].startswith("No verdict: 20.0% of the speculative arm's requests")
    assert summary["comparison"]["verdict_code"] == "INCONCLUSIVE"
    assert summary["comparison"]["break_even_reason"].startswith("no verdict")
    assert any("8 of the speculative arm's requests failed" in text for text in summary["comparison"]["warnings"])


def test_answers_of_different_length_are_compared_per_token_and_told() -> None:
    """128 against 97 tokens."""
    longer = [r for r in make_pairs_of_records(30, tokens=128, baseline_ms=10) if r.arm == "baseline"]
    shorter = [r for r in make_pairs_of_records(30, tokens=97, speculative_ms=10) if r.arm == "speculative"]
    comparison = summarise([*longer, *shorter])["comparison"]
    assert any("97 tokens speculative, 128 baseline" in text for text in comparison["warnings"])
    assert comparison["speedup"]["request_latency"]["estimate"] == pytest.approx(128 / 97, rel=0.02)
    assert comparison["speedup"]["latency_per_token"]["estimate"] == pytest.approx(1.0, rel=0.02)


def test_synthetic_prompts_are_marked() -> None:
    """Synthetic prompts say nothing about acceptance."""
    records = [replace(r, synthetic=True) for r in make_pairs_of_records(10)]
    summary = summarise(records)
    assert summary["valid_for_acceptance"] is False
    assert any(text.startswith("synthetic prompts") for text in summary["comparison"]["warnings"])
    assert summarise(make_pairs_of_records(10))["valid_for_acceptance"] is True


def texts(text: str) -> tuple[ChunkRecord, ...]:
    return tuple(ChunkRecord((i + 1) * MS, f"{word} ", 1) for i, word in enumerate(text.split()))


def test_first_divergence() -> None:
    """37 tokens in common."""
    common = [f"t{i}" for i in range(37)]
    baseline = replace(record(), chunks=texts(" ".join([*common, "left", "x"])), end_ns=99 * MS)
    speculative = replace(record(arm="speculative"), chunks=texts(" ".join([*common, "right", "x"])), end_ns=99 * MS)
    found = equality(make_pairs(group_records([baseline, speculative])))
    assert (found["identical"], found["diverged"]) == (0, 1)
    (place,) = found["first_divergence"]
    assert place["token_index"] == 37
    assert place["character"] == len(" ".join(common)) + 1
    assert place["baseline_text"].startswith("left")
    assert place["speculative_text"].startswith("right")


def test_identical_texts_in_other_chunks() -> None:
    baseline = record([(10, 1, "a"), (20, 1, "b")])
    speculative = record([(10, 2, "ab")], arm="speculative")
    found = equality(make_pairs(group_records([baseline, speculative])))
    assert found == {"identical": 1, "diverged": 0, "first_divergence": []}


def test_what_was_examined_is_merged_in() -> None:
    pairs = make_pairs(group_records([record([(1, 1, "a")]), record([(1, 1, "b")], arm="speculative")]))
    examined = [{"pair": "p", "concurrency": 1, "verdict": "near-tie", "logit_gap": 0.001}]
    assert equality(pairs, examined)["first_divergence"][0]["verdict"] == "near-tie"


def test_pairs_need_both_arms_and_the_same_concurrency() -> None:
    records = [
        record(prompt="a"),
        record(prompt="a", arm="speculative", concurrency=4),
        record(prompt="b"),
        record(prompt="b", arm="speculative", error="boom"),
        record(prompt="c", start_ms=1),
        record(prompt="c", start_ms=2),
        record(prompt="c", arm="speculative"),
    ]
    assert [pair.key for pair in make_pairs(group_records(records))] == ["c"]


def test_repeated_prompts_are_told() -> None:
    records = make_pairs_of_records(10)
    again = [replace(r, start_ns=r.start_ns + 10**12, end_ns=r.end_ns + 10**12, chunks=(), pair_id=f"{r.pair_id}~2")
             for r in records]  # fmt: skip
    warnings = summarise([*records, *again])["comparison"]["warnings"]
    assert any("20 requests repeated a prompt" in text for text in warnings)


def in_blocks(records: Sequence[Record], size: int) -> list[Record]:
    """The same records in blocks of `size` pairs."""
    return [replace(one, block=int(one.prompt_id.removeprefix("p")) // size) for one in records]


def test_requests_that_ran_together_in_few_blocks_are_told() -> None:
    many = in_blocks(make_pairs_of_records(20, concurrency=4), 4)
    few = in_blocks(make_pairs_of_records(20, concurrency=8), 10)
    alone = in_blocks(make_pairs_of_records(20), 10)
    warnings = summarise([*many, *few, *alone])["comparison"]["warnings"]
    assert [text for text in warnings if text.startswith("few blocks (2 at concurrency 8)")]
    assert not [text for text in warnings if "at concurrency 4" in text or "at concurrency 1)" in text]


def test_levels_and_categories_have_their_own_speed_ups() -> None:
    low = make_pairs_of_records(20, category="code")
    high = make_pairs_of_records(20, concurrency=4, speculative_ms=25, category="chat")
    comparison = summarise([*low, *high])["comparison"]
    assert list(comparison["by_concurrency"]) == ["1", "4"]
    assert comparison["by_concurrency"]["4"]["verdict"] == "SLOWER"
    assert comparison["by_category"]["code"]["speedup"]["request_latency"]["estimate"] > 1.9
    assert 1 < comparison["break_even_concurrency"] < 4
    assert "leave it on below concurrency 4" in comparison["verdict"]


def test_one_arm_alone_is_summarised_without_comparison() -> None:
    summary = summarise([record(arm="speculative", server=counters([1, 1], 2))])
    assert list(summary["arms"]) == ["speculative"]
    assert summary["comparison"]["verdict"].startswith("No comparison")
    assert summary["comparison"]["speedup"]["request_latency"]["estimate"] is None


def test_a_server_that_does_not_stream_has_no_time_to_first_token() -> None:
    records = [record([(500, 100)], arm=arm, prompt=f"p{i}") for i in range(6) for arm in ("baseline", "speculative")]
    summary = summarise(records)
    row = summary["arms"]["baseline"]["time_to_first_token"]
    assert (row["mean"], row["reason"]) == (None, "answers came in one piece: the server does not stream")
    assert summary["comparison"]["speedup"]["time_to_first_token"]["estimate"] is None
    assert sum("answers in one piece" in text for text in summary["comparison"]["warnings"]) == 2


def test_a_machine_that_slows_down_is_told() -> None:
    records = [r for r in make_pairs_of_records(40, spread=0) if r.arm == "baseline"]
    slow = [replace(r, chunks=tuple(replace(c, t_ns=r.start_ns + 2 * (c.t_ns - r.start_ns)) for c in r.chunks))
            if i >= 20 else r for i, r in enumerate(records)]  # fmt: skip
    warnings = summarise(slow)["comparison"]["warnings"]
    assert any("the baseline became 100% slower" in text for text in warnings), warnings


def test_counters_that_contradict_themselves_are_told() -> None:
    wrong = replace(counters([1, 1], 2), num_accepted_tokens=7)
    warnings = summarise([record(arm="speculative", server=wrong)])["comparison"]["warnings"]
    assert any("contradict" in text for text in warnings)


def test_what_the_load_generator_saw_becomes_warnings() -> None:
    measurement = {
        "client": {"loop_lag": {"p50": 0.005}},
        "servers": [{"arm": "baseline", "concurrency": 1, "frontend_requests": 99, "target_requests": 99}],
        "stopped": "baseline arm: the server ended",
        "interrupted": False,
    }
    warnings = summarise(make_pairs_of_records(20), measurement=measurement)["comparison"]["warnings"]
    for words in ("itself lags 5.0 ms", "answered 99 requests, 20 of them ours", "stopped: baseline arm"):
        assert any(words in text for text in warnings), words
