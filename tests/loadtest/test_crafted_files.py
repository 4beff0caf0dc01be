"""Record files made by hand, each with the exact figures that must come out of it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loadtest.fakes import MS
from trtspec.loadtest.run_folder import read_run, summarise_run

# chunk tokens of a speculative stream: 128 tokens in 49 chunks
PATTERN = [3, 1, 4, 2, 5, 1, 1, 4, 3, 2]
Chunk = tuple[float, int | None, str]


def request(chunks: Sequence[Chunk], *, arm: str = "baseline", start: float = 0, **extra: Any) -> dict[str, Any]:
    """One line; times in ms, those of the chunks since the start."""
    made = [{"t_ns": round((start + at) * MS), "text": text, "tokens": tokens} for at, tokens, text in chunks]
    end = made[-1]["t_ns"] if made else round(start * MS)
    line = {
        "arm": arm,
        "prompt_id": "p",
        "start_ns": round(start * MS),
        "end_ns": end,
        "chunks": made,
        "excluded": None,
    }
    return {**line, **extra}


def stream(first: float, gap: float, tokens: Sequence[int], **extra: Any) -> dict[str, Any]:
    """Regular chunks."""
    return request([(first + gap * i, count, f"{i} ") for i, count in enumerate(tokens)], **extra)


def summary_of(folder: Path, lines: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
    """The summary of a run folder that holds these lines."""
    folder.mkdir(exist_ok=True)
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "provenance.json").write_text(json.dumps({"options": options}), encoding="utf-8")
    return summarise_run(read_run(folder))


def means(summary: Mapping[str, Any], arm: str = "baseline") -> dict[str, float | None]:
    """Metric → mean, times in ms."""
    rows = summary["arms"][arm]
    return {
        name: None if row["mean"] is None else round(row["mean"] * (1000 if row["unit"] == "s" else 1), 6)
        for name, row in rows.items()
        if isinstance(row, dict) and "mean" in row
    }


def test_the_same_pace_in_chunks_of_several_tokens(tmp_path: Path) -> None:
    """128 x 1 token every 10 ms, and 49 chunks every 26 ms, both with the first text at 50 ms.

    Other definitions read 26.0 or 9.83 ms for the second, and 8.67 ms for its first 16 tokens.
    """
    lines = [
        stream(50, 10, [1] * 128, prompt_id="long"),
        stream(50, 26, [PATTERN[i % 10] for i in range(49)], prompt_id="long", arm="speculative", start=2000),
    ]
    summary = summary_of(tmp_path, lines)
    baseline, speculative = means(summary), means(summary, "speculative")
    assert baseline["time_to_first_token"] == speculative["time_to_first_token"] == 50
    assert (baseline["time_per_output_token"], speculative["time_per_output_token"]) == (10, 9.984)
    assert (baseline["request_latency"], speculative["request_latency"]) == (1320, 1298)
    assert (baseline["inter_chunk_latency"], speculative["inter_chunk_latency"]) == (10, 26)
    assert (baseline["max_stall"], speculative["max_stall"]) == (10, 26)
    assert baseline["tokens_per_chunk"] == 1
    assert speculative["tokens_per_chunk"] == pytest.approx(128 / 49, abs=1e-6)
    assert baseline["output_tokens_per_second"] == pytest.approx(128 / 1.320, abs=1e-6)


def test_two_tokens_in_the_first_chunk_are_not_in_the_divisor(tmp_path: Path) -> None:
    figures = means(summary_of(tmp_path, [stream(50, 26, [3, 1, 4, 2, 5, 1])]))
    assert figures["time_per_output_token"] == 10
    assert means(summary_of(tmp_path, [stream(100, 20, [2, 1, 1])]))["time_per_output_token"] == 20


def test_a_whole_answer_in_the_first_chunk_has_no_time_per_token(tmp_path: Path) -> None:
    row = summary_of(tmp_path, [stream(80, 0, [5])])["arms"]["baseline"]["time_per_output_token"]
    assert (row["mean"], row["count"]) == (None, 0)
    assert "one chunk" in row["reason"]


FAILED = [
    request([(10, 1, "partial "), (20, 1, "answer")], error="boom", error_code="server_error"),
    request([]),
    request([(10, 0, ""), (20, None, "")]),
    request([(10, 1, "slow ")], cancelled=True, cancel_reason="timeout"),
    request([], error="the stream ended without its final response", error_code="incomplete"),
]
OURS = [
    request([(10, 1, "left ")], cancelled=True, cancel_reason="disconnect"),
    request([(10, 1, "stopped ")], cancelled=True, cancel_reason="stop"),
    request([(10, 1, "early ")], cancelled=True),
    request([(1, 50, "warm ")], excluded="warm-up"),
]


def test_failed_empty_and_cancelled_requests_are_in_no_figure(tmp_path: Path) -> None:
    good = [stream(50, 10, [1] * 11, start=1000 * i, prompt_id=f"p{i}") for i in range(5)]
    alone, together = (summary_of(tmp_path, lines)["arms"]["baseline"] for lines in (good, [*good, *FAILED, *OURS]))
    assert together["requests"] == {"ok": 5, "failed": 5, "excluded": 4}
    assert together["error_rate"] == 0.5
    for name in ("time_to_first_token", "time_per_output_token", "request_latency", "output_tokens_per_second"):
        assert together[name]["mean"] == alone[name]["mean"], name
        assert together[name]["count"] == 5


def test_a_server_that_ends_early_with_an_error_looks_neither_fast_nor_short(tmp_path: Path) -> None:
    """Three tokens and then an error in the stream: nothing of it counts, and no verdict is given."""
    lines = []
    for i in range(20):
        lines.append(stream(50, 10, [1] * 50, start=2000 * i, prompt_id=f"p{i}"))
        lines.append(stream(50, 10, [1] * 3, start=2000 * i + 1000, prompt_id=f"p{i}", arm="speculative", error="boom"))
    summary = summary_of(tmp_path, lines)
    assert means(summary, "speculative")["request_latency"] is None
    assert summary["arms"]["speculative"]["error_rate"] == 1.0
    assert summary["comparison"]["verdict_code"] == "INCONCLUSIVE"


def test_shorter_answers_are_never_a_speed_up(tmp_path: Path) -> None:
    """Half the tokens in half the time, at the same pace."""
    lines = []
    for i in range(40):
        pace = 10 + 0.1 * (i % 7)
        lines.append(stream(pace, pace, [1] * 100, start=3000 * i, prompt_id=f"p{i}"))
        lines.append(stream(pace, pace, [1] * 50, start=3000 * i + 1500, prompt_id=f"p{i}", arm="speculative"))
    comparison = summary_of(tmp_path, lines)["comparison"]
    assert comparison["speedup"]["latency_per_token"]["estimate"] == pytest.approx(1)
    assert comparison["speedup"]["time_per_output_token"]["estimate"] == pytest.approx(1)
    assert comparison["speedup"]["request_latency"]["estimate"] == pytest.approx(2)
    assert comparison["verdict_code"] == "NO DIFFERENCE"
    assert any("differ in length" in warning for warning in comparison["warnings"])


def stalled(*, scheduled: bool) -> list[dict[str, Any]]:
    """10 requests a second for 10 s over one connection, 50 ms each, but the 31st takes 2 s."""
    lines, free = [], 0.0
    for index in range(100):
        due = index * 100.0
        sent = max(due, free)
        free = sent + (2000 if index == 30 else 50)
        told = {"scheduled_ns": round(due * MS), "load": "constant 10/s"} if scheduled else {}
        lines.append(stream(free - sent, 0, [1], start=sent, prompt_id=f"p{index}", **told))
    return lines


def test_coordinated_omission_is_shown_and_absent(tmp_path: Path) -> None:
    """Counted from when they were sent, only one request was slow; those that waited for their turn are hidden."""
    hidden = summary_of(tmp_path, stalled(scheduled=False))["arms"]["baseline"]
    assert hidden["request_latency"]["p99"] == pytest.approx(0.0695)
    assert hidden["request_latency"]["p90"] == pytest.approx(0.05)
    lines = stalled(scheduled=True)
    waits = [line["chunks"][0]["t_ns"] - line["scheduled_ns"] for line in lines]
    shown = summary_of(tmp_path, lines)["arms"]["baseline"]
    assert list(shown["by_load"]) == ["constant 10/s"]
    assert shown["by_concurrency"] == {}
    row = shown["by_load"]["constant 10/s"]
    assert (row["kind"], row["value"]) == ("constant", 10.0)
    for name, rank in (("p50", 50), ("p90", 90), ("p99", 99)):
        assert row["request_latency"][name] == pytest.approx(float(np.percentile(waits, rank)) * 1e-9)
    assert row["request_latency"]["p99"] > 1.9
    assert row["request_latency"]["p90"] > 1.5


def test_levels_of_all_kinds_side_by_side(tmp_path: Path) -> None:
    loads = ["poisson 5/s", "concurrency 16", "trace", "concurrency 4", "poisson 20/s", "burst 2/s"]
    lines = [stream(10, 10, [1, 1], start=100 * i, load=load, concurrency=4) for i, load in enumerate(loads)]
    rows = summary_of(tmp_path, lines)["arms"]["baseline"]
    assert list(rows["by_load"]) == [
        "concurrency 4", "concurrency 16", "burst 2/s", "poisson 5/s", "poisson 20/s", "trace",
    ]  # fmt: skip
    assert (rows["by_load"]["trace"]["kind"], rows["by_load"]["trace"]["value"]) == ("trace", None)
    assert list(rows["by_concurrency"]) == ["4", "16"]
    plain = {key: value for key, value in rows["by_load"]["concurrency 4"].items() if key not in {"kind", "value"}}
    assert rows["by_concurrency"]["4"] == plain


def test_a_hand_made_file_without_levels_is_at_concurrency_1(tmp_path: Path) -> None:
    line = {"arm": "baseline", "prompt_id": "a", "start_ns": 5, "chunks": [{"t_ns": 9, "text": "hi"}]}
    rows = summary_of(tmp_path, [line])["arms"]["baseline"]
    assert list(rows["by_load"]) == ["concurrency 1"]
    assert list(rows["by_concurrency"]) == ["1"]


def test_tokens_from_the_tokenizer_where_the_server_counts_none(tmp_path: Path) -> None:
    """The whole text and the first text were counted once."""
    counted: dict[str, Any] = {"tokens_source": "tokenizer", "counted_tokens": 12}
    figures = means(summary_of(tmp_path, [request([(100, 2, "a"), (200, None, "b"), (300, None, "c")], **counted)]))
    assert figures["time_per_output_token"] == 20
    assert figures["output_tokens_per_second"] == pytest.approx(40)
    unknown = summary_of(tmp_path, [request([(100, None, "a"), (300, None, "c")])])["arms"]["baseline"]
    assert unknown["time_per_output_token"]["mean"] is None
    assert unknown["output_tokens_per_second"]["mean"] is None
    assert unknown["output_tokens_per_second"]["total"] is None


def test_an_answer_in_one_piece_has_no_streaming_figures(tmp_path: Path) -> None:
    """NVIDIA's stock model sends one response at the end: its time to first token would be the whole latency."""
    rows = summary_of(tmp_path, [stream(900, 0, [64], start=1000 * i) for i in range(12)])["arms"]["baseline"]
    for name in ("time_to_first_token", "time_per_output_token", "inter_chunk_latency", "max_stall", "underrun_share"):
        assert (rows[name]["mean"], rows[name]["count"]) == (None, 0)
        assert "one piece" in rows[name]["reason"]
    assert rows["underruns"]["share"] is None
    assert rows["request_latency"]["mean"] == 0.9


def test_percentiles_and_the_low_tail(tmp_path: Path) -> None:
    """100 requests of 1 to 100 ms: p99 of a latency, p1 of a rate; 30 carry neither."""
    lines = [stream(i + 1, 0, [1], start=1000 * i, prompt_id=f"p{i}") for i in range(100)]
    random.Random(1).shuffle(lines)
    rows = summary_of(tmp_path, lines)["arms"]["baseline"]
    assert rows["request_latency"]["p50"] == pytest.approx(0.0505)
    assert rows["request_latency"]["p99"] == pytest.approx(0.09901)
    rate = rows["output_tokens_per_second"]
    assert (rate["p90"], rate["p95"], rate["p99"]) == (None, None, None)
    assert rate["p1"] == pytest.approx(float(np.percentile([1000 / (i + 1) for i in range(100)], 1)))
    few = summary_of(tmp_path, lines[:30])["arms"]["baseline"]
    assert (few["request_latency"]["p99"], few["output_tokens_per_second"]["p1"]) == (None, None)
    assert "p99 needs 100" in few["request_latency"]["reason"]
