from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.loadtest.fakes import MS, counters, make_pairs_of_records, record
from trtspec.loadtest.equality import equality
from trtspec.loadtest.intervals import Interval
from trtspec.loadtest.levels import parse_level
from trtspec.loadtest.pairing import Pairs, pair_rows
from trtspec.loadtest.records import ChunkRecord, Record
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of
from trtspec.loadtest.verdict import Level, level_code, overall_code, subject_of, verdict_sentence


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, 60)


def level(load: int | str, speedup: Interval, **why: str) -> Level:
    return Level(parse_level(load if isinstance(load, str) else f"concurrency {load}"), speedup, **why)


def pairs_of(*records: Record) -> Pairs:
    return pair_rows(table_of(records))


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


def test_verdict_of_two_levels() -> None:
    levels = [level(1, interval(1.23, 1.15, 1.31)), level(4, interval(0.91, 0.86, 0.97))]
    sentence = verdict_sentence(levels)
    assert sentence == (
        "Speculation is 1.23 times faster at concurrency 1 (95 % interval 1.15–1.31) and slower (0.91 times the "
        "baseline's speed, 95 % interval 0.86–0.97) at concurrency 4; leave it on below concurrency 4."
    )
    assert overall_code(levels) == "MIXED"


def test_what_all_levels_say_is_said_once() -> None:
    levels = [level(1, interval(0.45, 0.41, 0.50)), level(4, interval(0.49, 0.37, 0.65))]
    assert verdict_sentence(levels) == (
        "Speculation is slower at both loads: 0.45 times the baseline's speed (95 % interval 0.41–0.50) at concurrency "
        "1 and 0.49 times (0.37–0.65) at concurrency 4; leave it off at these loads."
    )
    more = [*levels, level(8, interval(0.4, 0.3, 0.5))]
    assert verdict_sentence(more).startswith("Speculation is slower at all loads: 0.45 times the baseline's speed")


def test_two_servers_that_are_no_arms_of_a_spec_are_called_by_their_names() -> None:
    names = subject_of({"baseline": "old", "speculative": "new"})
    faster, slower = interval(1.2, 1.1, 1.3), interval(0.8, 0.7, 0.9)
    assert verdict_sentence([level(1, faster)], names).startswith("new is 1.20 times faster at concurrency 1")
    assert verdict_sentence([level(1, faster)], names).endswith("; take new at concurrency 1.")
    assert verdict_sentence([level(1, slower)], names).endswith("; stay with old at concurrency 1.")
    assert verdict_sentence([level(1, faster), level(4, slower)], names).endswith("; take new below concurrency 4.")
    assert subject_of({}).name == "Speculation"
    records = make_pairs_of_records(30)
    told = summarise(records, {"options": {"labels": {"baseline": "old", "speculative": "new"}}})["comparison"]
    assert told["verdict"].startswith("new is ")


def test_verdict_advice() -> None:
    on, off, open_ = interval(1.2, 1.1, 1.3), interval(0.8, 0.7, 0.9), interval(1.0, 0.8, 1.2)
    assert verdict_sentence([level(1, on), level(4, on)]).endswith("leave it on at these loads.")
    assert verdict_sentence([level(1, off)]).endswith("leave it off at concurrency 1.")
    assert verdict_sentence([level(1, on), level(4, open_)]).endswith(
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
    found = equality(pairs_of(baseline, speculative))
    assert (found["identical"], found["diverged"]) == (0, 1)
    (place,) = found["first_divergence"]
    assert place["token_index"] == 37
    assert place["character"] == len(" ".join(common)) + 1
    assert place["baseline_text"].startswith("left")
    assert place["speculative_text"].startswith("right")


def test_identical_texts_in_other_chunks() -> None:
    baseline = record([(10, 1, "a"), (20, 1, "b")])
    speculative = record([(10, 2, "ab")], arm="speculative")
    found = equality(pairs_of(baseline, speculative))
    assert found == {"identical": 1, "diverged": 0, "first_divergence": []}


def test_what_was_examined_is_merged_in() -> None:
    pairs = pairs_of(record([(1, 1, "a")]), record([(1, 1, "b")], arm="speculative"))
    examined = [{"pair": "p", "concurrency": 1, "verdict": "near-tie", "logit_gap": 0.001}]
    assert equality(pairs, examined)["first_divergence"][0]["verdict"] == "near-tie"


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
    many = in_blocks(make_pairs_of_records(32, concurrency=4), 4)
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
    # units are compared within their level: that levels differ is no noise
    pooled = comparison["speedup"]["request_latency"]
    assert pooled["high"] - pooled["low"] < 0.05
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
    wrong = counters([1, 1], 2)._replace(num_accepted_tokens=7)
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


def test_a_verdict_says_why() -> None:
    on = interval(1.23, 1.15, 1.31)
    why = "a round brings 2.60 tokens and takes as long as 2.11 baseline steps"
    assert verdict_sentence([level(1, on, why=why)]).endswith(
        "leave it on at concurrency 1. A round brings 2.60 tokens and takes as long as 2.11 baseline steps."
    )
    slower = level(16, interval(0.9, 0.85, 0.95), why="a round brings 2.60 tokens and takes as long as 3.00 steps")
    told = verdict_sentence([level(1, on, why=why), slower])
    assert "At concurrency 1 a round brings 2.60 tokens" in told
    assert told.endswith("At concurrency 16 a round brings 2.60 tokens and takes as long as 3.00 steps.")


def test_a_client_bound_level_has_no_verdict() -> None:
    bound = level(1, interval(1.2, 1.1, 1.3), client_bound="the load generator itself is 4.0 ms late")
    assert bound.code == overall_code([bound]) == "INCONCLUSIVE (client-bound)"
    sentence = verdict_sentence([bound])
    assert "not to be judged (1.20 times, client-bound, 95 % interval 1.10–1.30) at concurrency 1" in sentence
    assert "with a less busy load generator" in sentence
    assert sentence.endswith("The load generator itself is 4.0 ms late.")
    assert overall_code([bound, level(4, interval(1.0, 0.8, 1.2))]) == "INCONCLUSIVE"


def test_a_difference_below_the_noise_of_an_aa_run_is_none() -> None:
    small = level(1, interval(1.03, 1.01, 1.05), below_noise="smaller than what the same server shows against itself")
    assert small.code == "INCONCLUSIVE"
    assert "against itself" in verdict_sentence([small])


def test_advice_for_loads_of_different_kinds() -> None:
    on, off = interval(1.2, 1.1, 1.3), interval(0.8, 0.7, 0.9)
    mixed = [level("concurrency 4", on), level("poisson 5/s", off)]
    assert "decide by the load that you serve" in verdict_sentence(mixed)
    rates = [level("poisson 1/s", on), level("poisson 5/s", off)]
    assert "leave it on below poisson 5/s" in verdict_sentence(rates)


def test_open_loop_levels_stand_beside_closed_ones() -> None:
    closed = make_pairs_of_records(20)
    opened = [replace(one, load="poisson 5/s", block=int(one.prompt_id[1:]) // 2) for one in make_pairs_of_records(20)]
    comparison = summarise([*closed, *opened])["comparison"]
    assert list(comparison["by_load"]) == ["concurrency 1", "poisson 5/s"]
    assert list(comparison["by_concurrency"]) == ["1"]
    rate = comparison["by_load"]["poisson 5/s"]
    assert [rate[name] for name in ("kind", "value", "pairs", "units", "unit")] == ["poisson", 5.0, 20, 10, "blocks"]
    assert rate["verdict"] == "FASTER"
    assert rate["speedup"]["output_tokens_per_second"]["estimate"] is None
    assert "the schedule sets the throughput" in rate["speedup"]["output_tokens_per_second"]["reason"]


def test_every_new_part_of_the_comparison_is_there() -> None:
    comparison = summarise(make_pairs_of_records(20))["comparison"]
    for name in (
        "break_even_interval",
        "detectable_effect",
        "noise_floor",
        "correlation",
        "acceptance_by_position",
        "predicted",
        "capacity",
        "cost",
        "steady_state",
        "client_bound",
    ):
        assert name in comparison, name
    assert comparison["by_load"]["concurrency 1"]["why"].startswith("a round brings 1.00 tokens")


def test_a_few_pairs_say_how_many_would_tell() -> None:
    noisy = [
        replace(one, chunks=tuple(replace(c, t_ns=one.start_ns + 3 * (c.t_ns - one.start_ns)) for c in one.chunks))
        if one.arm == "baseline" and int(one.prompt_id[1:]) % 3 == 0
        else one
        for one in make_pairs_of_records(12, baseline_ms=10, speculative_ms=15)
    ]
    comparison = summarise(noisy)["comparison"]
    assert comparison["verdict_code"] == "INCONCLUSIVE"
    assert "With 12 pairs only a difference of" in comparison["verdict"]
    assert "pairs would tell" in comparison["verdict"]


def test_different_protocols_allow_no_verdict() -> None:
    records = [replace(one, protocol="grpc" if one.arm == "baseline" else "http") for one in make_pairs_of_records(20)]
    comparison = summarise(records)["comparison"]
    assert comparison["verdict_code"] == "INCONCLUSIVE"
    assert "the speculative arm over http and the baseline arm over grpc" in comparison["withheld"]
    assert comparison["by_load"]["concurrency 1"]["verdict"] == "INCONCLUSIVE"
