"""Whole load tests without a spec, over HTTP: open loops, sessions, clients that leave, what nobody counts."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_tokenizer_files, toy_spec
from tests.loadtest.servers import chat_server, pace
from tests.wire.sse_server import Asked, SseServer, Step, events, json_answer
from trtspec.errors import RecordsError, UsageError
from trtspec.files import read_json
from trtspec.loadtest import RunOptions, RunResult, Status, read_run, resume, run
from trtspec.loadtest.machine import spec_facts
from trtspec.loadtest.records import Record
from trtspec.loadtest.resume import require_unchanged
from trtspec.progress import SilentReporter

ARMS = ("baseline", "speculative")
NS = 1e9


def load(one: SseServer, other: SseServer, out: Path, **values: Any) -> RunResult:
    urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
    small = {"concurrency": (1,), "requests": 8, "warmup": 1, "max_tokens": 6, "timeout": 20.0, **values}
    return run(None, RunOptions(urls=urls, out=out, **small), SilentReporter())


def measured(result: RunResult, arm: str) -> list[Record]:
    return [r for r in read_run(result.path).records if r.arm == arm and r.excluded is None]


def test_two_servers_are_compared_without_a_spec(tmp_path: Path) -> None:
    with chat_server(pace(4, 12)) as one, chat_server(pace(4, 4)) as other:
        labels: Any = {"baseline": "old", "speculative": "new"}
        result = load(one, other, tmp_path / "run", requests=24, labels=labels)
    assert result.failure is None
    assert result.summary["comparison"]["verdict_code"] == "FASTER"
    assert all(r.protocol == "openai-chat" for r in measured(result, "baseline"))
    provenance, measurement = (read_json(result.path / f"{name}.json") for name in ("provenance", "measurement"))
    assert provenance["labels"] == {"baseline": "old", "speculative": "new"}
    assert "spec" not in provenance
    assert measurement["targets"]["baseline"]["kind"] == "openai-chat"
    assert measurement["cold_start"]["baseline"]["reason"] == "this server was not started by the load test"
    assert measurement["placement"]["shared"] is None
    assert [entry["load"] for entry in measurement["servers"]] == ["concurrency 1"] * 2


def test_an_open_loop_counts_from_when_requests_were_due_and_a_closed_one_cannot(tmp_path: Path) -> None:
    """Coordinated omission: now and then the server stops for half a second."""

    def stalling(asked: Asked, number: int) -> dict[str, float]:
        del asked
        return {"at_ms": 500.0 if number % 10 == 9 else 4.0, "gap_ms": 1.0}

    with chat_server() as one, chat_server(stalling) as other:
        # one request at a time, as a server that serves one: the others wait for their turn
        opened = load(one, other, tmp_path / "open", concurrency=(), rate=(25.0,), requests=32, max_in_flight=1)
    with chat_server() as one, chat_server(stalling) as other:
        closed = load(one, other, tmp_path / "closed", requests=40)

    def slow(result: RunResult) -> int:
        return sum((r.chunks[0].t_ns - (r.scheduled_ns or 0)) / NS > 0.25 for r in measured(result, "speculative"))

    # each stall costs a closed loop one slow answer, however many clients would have waited
    assert 3 <= slow(closed) <= 8
    assert slow(opened) > slow(closed)
    lag = opened.summary["client"]["send_lag"]
    assert lag["max"] > 0.3
    assert lag["count"] >= 64
    assert closed.summary["client"]["send_lag"] is None
    assert set(opened.summary["comparison"]["by_load"]) == {"poisson 25/s"}


def test_tokens_that_no_server_counts_are_counted_by_the_tokenizer(tmp_path: Path) -> None:
    tiny_tokenizer_files(tmp_path / "tokenizer")
    with chat_server(usage=False) as one, chat_server(usage=False) as other:
        with_one = load(one, other, tmp_path / "with", tokenizer=tmp_path / "tokenizer")
        without = load(one, other, tmp_path / "without")
    for record in measured(with_one, "baseline"):
        assert (record.tokens_source, record.counted_tokens is not None) == ("tokenizer", True)
    assert {r.tokens_source for r in measured(without, "baseline")} == {"none"}
    assert with_one.summary["arms"]["baseline"]["output_tokens_per_second"]["mean"] is not None
    assert without.summary["arms"]["baseline"]["output_tokens_per_second"]["mean"] is None


def test_what_servers_count_is_not_counted_again(tmp_path: Path) -> None:
    tiny_tokenizer_files(tmp_path / "tokenizer")
    with chat_server() as one, chat_server() as other:
        result = load(one, other, tmp_path / "run", tokenizer=tmp_path / "tokenizer", requests=2)
    assert {(r.tokens_source, r.counted_tokens) for r in measured(result, "baseline")} == {("server", None)}


def test_clients_that_leave_are_excluded_in_both_arms_and_the_server_hears_of_it(tmp_path: Path) -> None:
    with chat_server(pace(2, 6)) as one, chat_server(pace(2, 6)) as other:
        result = load(one, other, tmp_path / "run", requests=20, disconnect=0.4, max_tokens=20)
        left = len(one.left)
    gone = {arm: {r.pair_id for r in measured(result, arm) if r.cancel_reason == "disconnect"} for arm in ARMS}
    assert gone["baseline"] == gone["speculative"]
    assert 2 < len(gone["baseline"]) < 16
    assert left > 0
    assert result.failure is None
    counts = result.summary["arms"]["baseline"]["requests"]
    assert (counts["ok"], counts["failed"]) == (20 - len(gone["baseline"]), 0)


def test_an_answer_that_takes_too_long_is_cancelled_and_failed(tmp_path: Path) -> None:
    def now_and_then(asked: Asked, number: int) -> dict[str, float]:
        del asked
        return {"at_ms": 2.0, "gap_ms": 400.0 if number % 4 == 3 else 1.0}

    with chat_server() as one, chat_server(now_and_then) as other:
        result = load(one, other, tmp_path / "run", timeout=0.6)
    late = [r for r in measured(result, "speculative") if r.cancel_reason == "timeout"]
    assert late
    assert all(r.cancelled and r.error for r in late)
    assert result.summary["arms"]["speculative"]["requests"]["failed"] == len(late)


def test_sessions_are_asked_turn_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtspec.loadtest import asked as asked_module
    from trtspec.loadtest.prompts import Prompt, PromptSet

    talks = tuple(
        Prompt(f"s{s}t{t}", "chat", f"question {t} of {s}", 3, session=f"s{s}", turn=t)
        for s in range(8)
        for t in range(3)
    )
    monkeypatch.setattr(asked_module, "load_prompts", lambda *_args, **_more: PromptSet(talks, "talks", "0"))
    with chat_server() as one, chat_server() as other:
        result = load(one, other, tmp_path / "run", concurrency=(2,), requests=24)
        asked = [request.document["messages"] for request in one.asked if request.method == "POST"]
    records = measured(result, "baseline")
    assert Counter(r.session for r in records) == {f"s{s}": 3 for s in range(8)}
    longest = [messages for messages in asked if len(messages) == 5]
    assert len(longest) == 8
    for messages in longest:
        assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
        assert messages[1]["content"].startswith("w")
        assert messages[4]["content"].startswith("question 2 of")
    for session in {r.session for r in records}:
        turns = sorted((r for r in records if r.session == session), key=lambda r: r.start_ns)
        assert [r.turn for r in turns] == [0, 1, 2]
        assert all(earlier.end_ns <= later.start_ns for earlier, later in pairwise(turns))


def test_a_duration_instead_of_a_number(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        result = load(one, other, tmp_path / "run", requests=4, duration=0.6, concurrency=(1,), rate=(40.0,))
    for load_name in ("concurrency 1", "poisson 40/s"):
        records = [r for r in measured(result, "baseline") if r.load == load_name]
        assert len(records) > 8, "more than one round of requests"
        assert len({r.pair_id for r in records}) == len(records)
    offsets = [r.scheduled_ns for r in measured(result, "baseline") if r.load == "poisson 40/s"]
    assert len(offsets) == pytest.approx(24, abs=14)


def test_an_interrupted_run_is_gone_on_with(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(
            urls=urls, out=tmp_path / "run", concurrency=(1, 2), requests=16, max_tokens=4, counted=True
        )
        seen: list[Status] = []

        def listener(status: Status) -> None:
            seen.append(status)
            if len(seen) == 25:
                os.kill(os.getpid(), signal.SIGINT)

        first = run(None, options, SilentReporter(), listener)
        assert first.interrupted
        before = {(r.arm, r.load, r.pair_id): r.start_ns for r in read_run(first.path).records if r.excluded is None}
        second = resume(None, first.path, SilentReporter())
        with pytest.raises(UsageError, match="this run is complete"):
            resume(None, first.path, SilentReporter())
    assert not second.interrupted
    records = [r for r in read_run(second.path).records if r.excluded is None]
    tally = Counter((r.arm, r.load, r.pair_id) for r in records)
    assert set(tally.values()) == {1}
    assert len(tally) == 2 * 2 * 16
    kept = sum(before.get((r.arm, r.load, r.pair_id)) == r.start_ns for r in records)
    assert 8 <= kept <= len(before)
    assert len(read_json(second.path / "provenance.json")["resumed"]) == 1
    assert second.summary["arms"]["baseline"]["requests"]["ok"] == 32
    warm = [r for r in read_run(second.path).records if r.excluded == "warm-up" and r.start_ns > max(before.values())]
    assert {r.arm for r in warm} == set(ARMS), "the second part warms up too"
    assert read_json(second.path / "measurement.json")["resumed"] == {"parts": 2, "changed": []}


def test_going_on_keeps_whole_lines_whatever_their_texts_hold(tmp_path: Path) -> None:
    """JSON does not escape U+2028 and U+0085, which are ends of lines elsewhere."""
    odd = "a\u2028b\u0085c\x0b\x1c "

    def script(asked: Asked) -> Iterable[Step]:
        if asked.method != "POST":
            return json_answer({"data": [{"id": "m"}]})
        piece = {"choices": [{"index": 0, "delta": {"content": odd}, "finish_reason": "stop"}]}
        return events(piece, b"[DONE]", at_ms=3)

    def listener(status: Status) -> None:
        if status.done == 9:
            os.kill(os.getpid(), signal.SIGINT)

    with SseServer(script) as one, SseServer(script) as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(urls=urls, out=tmp_path / "run", concurrency=(1,), requests=10, max_tokens=4, counted=True)
        assert run(None, options, SilentReporter(), listener).interrupted
        file = tmp_path / "run" / "requests.jsonl"
        file.write_bytes(file.read_bytes()[:-20])
        result = resume(None, tmp_path / "run", SilentReporter())
        assert {r.text for r in measured(result, "baseline")} == {odd}
        kept = file.read_bytes()
        file.write_bytes(kept.replace(b"\n", b"\nbroken\n", 1))
        with pytest.raises(RecordsError, match="not valid JSON"):
            resume(None, tmp_path / "run", SilentReporter())
        assert file.read_bytes() == kept.replace(b"\n", b"\nbroken\n", 1), "nothing is measured into a broken file"
    assert result.summary["arms"]["baseline"]["requests"]["ok"] == 10


def test_what_cannot_be_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run to go on with"):
        resume(None, tmp_path, SilentReporter())


def test_another_pair_is_not_gone_on_with(tmp_path: Path) -> None:
    """The load-test section may change: a run goes on with its own options."""
    spec_file = toy_spec(tmp_path)
    before = json.loads(json.dumps(spec_facts(spec_file)))
    require_unchanged(before, toy_spec(tmp_path, loadtest={"requests": 5}), tmp_path)
    with pytest.raises(UsageError, match="its spec changed since"):
        require_unchanged(before, toy_spec(tmp_path, speculation={"draft_length": 2}), tmp_path)
    rebuilt = {**before, "engines": {**before["engines"], "draft": {"key": "other", "dtype": "float32"}}}
    with pytest.raises(UsageError, match="its engines changed since"):
        require_unchanged(rebuilt, toy_spec(tmp_path), tmp_path)


def test_aa_compares_a_server_with_itself(tmp_path: Path) -> None:
    with chat_server() as one:
        result = load(one, one, tmp_path / "run", aa=True, requests=24)
    assert result.summary["comparison"]["noise_floor"]["source"] == "this A/A run"
    servers = read_json(result.path / "measurement.json")["servers"]
    assert all(entry["frontend_requests"] is None for entry in servers)
    with chat_server() as one, chat_server() as other:
        later = load(one, other, tmp_path / "later", calibration=result.path)
        assert later.summary["comparison"]["noise_floor"]["source"] == "an A/A run before"
        with pytest.raises(UsageError, match="not an A/A run"):
            load(one, other, tmp_path / "wrong", calibration=later.path)


def test_unique_beginnings_reach_the_server(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        load(one, other, tmp_path / "run", unique_prefixes=True)
        asked = [[r.document["messages"][0]["content"] for r in s.asked if r.method == "POST"] for s in (one, other)]
    assert asked[0] == asked[1], "both arms are asked the same"
    assert len({text[:10] for text in asked[0]}) == len(asked[0])
