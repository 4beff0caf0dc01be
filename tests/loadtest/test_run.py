"""Whole load tests against scripted servers that speak Triton's protocol."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.wire.fake_triton import EndEarly, ErrorMessage, FakeTriton, Received, Reply, answer, echo_script
from trtspec.errors import LoadTestFailed, ServerUnreachable, UsageError, VerificationFailed
from trtspec.files import read_json
from trtspec.loadtest import RunOptions, RunResult, Status, latest_run, read_run, run, run_options, summarise_run
from trtspec.progress import SilentReporter
from trtspec.spec import SpecFile

Steps = Iterable[Any]
Script = Callable[[Received], Steps]


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    return toy_spec(tmp_path_factory.mktemp("toy"))


def options(baseline: FakeTriton, speculative: FakeTriton, out: Path, **values: Any) -> RunOptions:
    small = {"concurrency": (1,), "requests": 12, "warmup": 2, "max_tokens": 12, "timeout": 5.0, **values}
    return RunOptions(urls={"baseline": baseline.url, "speculative": speculative.url}, out=out, **small)


def load(spec_file: SpecFile, out: Path, scripts: tuple[Script, Script] | None = None, **values: Any) -> RunResult:
    """A run of (baseline, speculative) scripts; by default a token every 4 ms against 3 tokens every 6 ms."""
    baseline, speculative = scripts or (echo_script(gap_ms=4), echo_script(bundle=3, gap_ms=6))
    with FakeTriton(baseline) as one, FakeTriton(speculative) as other:
        return run(spec_file, options(one, other, out, **values), SilentReporter())


def test_a_run_measures_what_the_servers_do(spec_file: SpecFile, tmp_path: Path) -> None:
    paced = echo_script(gap_ms=12), echo_script(bundle=3, gap_ms=18)
    result = load(spec_file, tmp_path / "run", paced)
    assert result.failure is None
    assert not result.interrupted
    summary = result.summary
    baseline, speculative = summary["arms"]["baseline"], summary["arms"]["speculative"]
    assert baseline["requests"] == {"ok": 12, "failed": 0, "excluded": 2}
    assert speculative["requests"] == {"ok": 12, "failed": 0, "excluded": 2}
    # 11 tokens in 132 ms after the first, against 9 in 54 ms; a busy machine may delay, nothing may be early
    assert 0.98 < baseline["time_per_output_token"]["mean"] / 0.012 < 1.4
    assert 0.98 < speculative["time_per_output_token"]["mean"] / 0.006 < 1.4
    assert speculative["tokens_per_chunk"]["mean"] == 3.0
    assert summary["acceptance"]["mean_acceptance_length"] == 3.0
    assert summary["acceptance"]["source"] == "server"
    comparison = summary["comparison"]
    assert comparison["speedup"]["request_latency"]["estimate"] == pytest.approx(137 / 59, rel=0.25)
    assert comparison["verdict_code"] == "FASTER"
    assert comparison["equality"] == {"identical": 12, "diverged": 0, "first_divergence": []}
    assert summary["client"]["loop_lag"]["count"] > 10


def test_the_folder_holds_everything_and_is_recomputed_from_it(spec_file: SpecFile, tmp_path: Path) -> None:
    result = load(spec_file, tmp_path / "run")
    names = {path.name for path in result.path.iterdir()}
    assert names == {"provenance.json", "requests.jsonl", "measurement.json", "summary.json"}
    assert read_json(result.path / "summary.json") == json.loads(json.dumps(result.summary))
    assert summarise_run(read_run(result.path)) == result.summary
    provenance = read_json(result.path / "provenance.json")
    assert provenance["options"]["seed"] == 1
    assert provenance["prompts"]["available"] == 240
    assert provenance["machine"]["memory_bytes"] > 0
    assert len(provenance["prompts"]["sha256"]) == 64


def test_both_arms_get_the_same_rendered_prompts_in_balanced_order(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script()) as other:
        run(spec_file, options(one, other, tmp_path / "run", draft_length=3), SilentReporter())
        baseline, speculative = one.received, other.received
    assert [r.prompt for r in baseline] == [r.prompt for r in speculative]
    assert all(r.prompt.startswith("<|im_start|>user\n") for r in baseline)
    assert all("num_draft_tokens" not in r.inputs for r in baseline)
    assert all(r.inputs["num_draft_tokens"] == [3] for r in speculative)
    assert all("temperature" not in r.inputs and "seed" not in r.inputs for r in baseline)
    records = read_run(tmp_path / "run").records
    order = "".join(r.arm[0] for r in records if r.excluded is None)
    assert {order[at : at + 4] for at in range(0, len(order), 4)} <= {"sbbs", "bssb"}


def test_prompts_as_they_are_without_chat_template(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script()) as other:
        run(spec_file, options(one, other, tmp_path / "run", chat_template="never"), SilentReporter())
        assert not any("<|im_start|>" in r.prompt for r in one.received)


def test_sampling_uses_the_same_seed_in_both_arms(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script()) as other:
        result = run(spec_file, options(one, other, tmp_path / "run", temperature=0.7), SilentReporter())
        seeds = [[r.inputs["seed"][0] for r in server.received] for server in (one, other)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) > 10
    assert any("temperature 0.7" in text for text in result.summary["comparison"]["warnings"])


def test_several_connections_keep_the_server_busy(spec_file: SpecFile, tmp_path: Path) -> None:
    slow = echo_script(gap_ms=15), echo_script(gap_ms=15)
    result = load(spec_file, tmp_path / "run", slow, concurrency=(4,), requests=24, warmup=2)
    records = read_run(result.path).records
    assert {r.excluded for r in records} == {None, "warm-up", "fill"}
    for arm in ("baseline", "speculative"):
        counted = [r for r in records if r.arm == arm and r.excluded is None]
        assert len(counted) == 24
        everything = [r for r in records if r.arm == arm]
        running = [
            sum(r.start_ns <= (one.start_ns + one.end_ns) / 2 <= r.end_ns for r in everything if r.block == one.block)
            for one in counted
        ]
        assert sum(running) / len(running) > 3.2, "measured requests meet the full concurrency"
    level = result.summary["arms"]["baseline"]["by_concurrency"]["4"]
    # 12 tokens in 170 ms on each of 4 connections; a busy machine may make it slower, never faster
    assert 0.6 < level["output_tokens_per_second"]["total"] / (4 * 12 / 0.170) < 1.05


def test_only_one_arm_is_under_load_at_a_time(spec_file: SpecFile, tmp_path: Path) -> None:
    records = read_run(load(spec_file, tmp_path / "run", concurrency=(1, 3)).path).records
    spans: dict[tuple[int, int | None, str], list[int]] = {}
    for r in records:
        spans.setdefault((r.concurrency, r.block, r.arm), []).extend((r.start_ns, r.end_ns))
    ordered = sorted((min(times), max(times)) for times in spans.values())
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ordered))


def test_failed_requests_are_recorded_reported_and_fail_the_command(spec_file: SpecFile, tmp_path: Path) -> None:
    count = iter(range(1000))

    def flaky(request: Received) -> Steps:
        if next(count) % 4 == 3:
            return [Reply(2, "half", 1), ErrorMessage("target_failed: out of memory")]
        return echo_script()(request)

    result = load(spec_file, tmp_path / "run", (echo_script(), flaky))
    arm = result.summary["arms"]["speculative"]
    assert arm["requests"]["failed"] >= 2
    assert isinstance(result.failure, LoadTestFailed)
    assert "out of memory" in result.failure.message
    assert result.summary["comparison"]["withheld"]
    failed = [r for r in read_run(result.path).records if r.error]
    assert {r.error_code for r in failed} == {"target_failed"}
    assert all(r.text == "half" for r in failed)


def test_values_that_a_server_refuses_are_the_users_mistake(spec_file: SpecFile, tmp_path: Path) -> None:
    def refusing(request: Received) -> Steps:
        return [ErrorMessage("invalid_request: num_draft_tokens 60 is more than the 8")]

    result = load(spec_file, tmp_path / "run", (echo_script(), refusing), requests=4)
    assert isinstance(result.failure, UsageError)
    assert "num_draft_tokens 60 is more than the 8" in result.failure.message
    count = iter(range(1000))

    def sometimes(request: Received) -> Steps:
        return refusing(request) if next(count) % 2 else echo_script()(request)

    mixed = load(spec_file, tmp_path / "mixed", (echo_script(), sometimes), requests=6)
    assert isinstance(mixed.failure, LoadTestFailed), "a server that answers some of them is at fault"


def test_a_stream_cut_off_is_an_error_not_a_short_answer(spec_file: SpecFile, tmp_path: Path) -> None:
    def cut(request: Received) -> Steps:
        return [*answer(["a ", "b "])[:-1], EndEarly()]

    result = load(spec_file, tmp_path / "run", (echo_script(), cut))
    assert result.summary["arms"]["speculative"]["error_rate"] == 1.0


def test_a_server_that_dies_ends_the_run_quickly_with_a_report(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(echo_script(gap_ms=2)) as one, FakeTriton(echo_script(gap_ms=2)) as other:
        seen: list[Status] = []

        def listener(status: Status) -> None:
            seen.append(status)
            if status.done == 15:
                threading.Thread(target=other.stop).start()

        start = time.perf_counter()
        opts = options(one, other, tmp_path / "run", concurrency=(1, 4), requests=40)
        result = run(spec_file, opts, SilentReporter(), listener)
    assert time.perf_counter() - start < 20
    assert isinstance(result.failure, ServerUnreachable)
    speculative = result.summary["arms"]["speculative"]
    assert speculative["requests"]["failed"] >= 60
    assert speculative["requests"]["ok"] + speculative["requests"]["failed"] == 80
    assert 0.5 < speculative["error_rate"] < 1
    assert result.summary["comparison"]["verdict"].startswith("No verdict")
    assert any("stopped" in text for text in result.summary["comparison"]["warnings"])
    assert (result.path / "summary.json").is_file()


def test_a_server_that_falls_silent_does_not_hang_the_run(spec_file: SpecFile, tmp_path: Path) -> None:
    def silent(request: Received) -> Steps:
        return [Reply(60_000, "late", 1)]

    start = time.perf_counter()
    result = load(spec_file, tmp_path / "run", (echo_script(), silent), timeout=0.3, warmup=0)
    assert time.perf_counter() - start < 15
    assert isinstance(result.failure, ServerUnreachable)
    assert "no complete answer within 0.3 s" in result.failure.message


def test_no_server_there(spec_file: SpecFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.loadtest.session._READY", 0.5)
    urls: Any = {"baseline": "127.0.0.1:9", "speculative": "127.0.0.1:9"}
    with pytest.raises(ServerUnreachable):
        run(spec_file, RunOptions(urls=urls, out=tmp_path / "run"), SilentReporter())


def test_interrupted_runs_keep_what_they_measured(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(echo_script(gap_ms=10)) as one, FakeTriton(echo_script(gap_ms=10)) as other:

        def listener(status: Status) -> None:
            if status.done == 9:
                os.kill(os.getpid(), signal.SIGINT)

        result = run(spec_file, options(one, other, tmp_path / "run", requests=60), SilentReporter(), listener)
    assert result.interrupted
    records = read_run(result.path).records
    assert 9 <= sum(r.ok and r.excluded is None for r in records) <= 11
    assert result.summary["comparison"]["warnings"][0].startswith("the load test was interrupted")
    assert result.failure is None


def diverging(tokens: list[str], ids: list[int], logits: tuple[float, ...]) -> Script:
    def script(request: Received) -> Steps:
        if request.model == "tensorrt_llm":
            assert request.inputs["input_ids"] == [100, 101, 1, 2]
            return [Reply(1, None, logits=logits), Reply(1, None, final=True)]
        count = len(tokens)
        return [
            Reply(1, "".join(tokens), count, token_ids=tuple(ids), token_texts=tuple(tokens), prompt_ids=(100, 101)),
            Reply(1, None, final=True),
        ]

    return script


@pytest.mark.parametrize(("second", "verdict"), [(4.999, "near-tie"), (1.0, "logic fault?")])
def test_divergences_are_examined_while_the_servers_are_up(
    spec_file: SpecFile, tmp_path: Path, second: float, verdict: str
) -> None:
    logits = (0.0, 0.0, 0.0, 5.0, second, 0.0)
    scripts = (
        diverging(["a ", "b ", "left"], [1, 2, 3], logits),
        diverging(["a ", "b ", "right"], [1, 2, 4], logits),
    )
    result = load(spec_file, tmp_path / "run", scripts, requests=2)
    places = result.summary["comparison"]["equality"]["first_divergence"]
    assert len(places) == 2
    place = places[0]
    assert (place["token_index"], place["baseline_token"], place["speculative_token"]) == (2, 3, 4)
    assert place["logit_gap"] == pytest.approx(5.0 - second, abs=1e-5)
    assert place["two_best"][0] == {"token": 3, "logit": 5.0}
    assert place["verdict"] == verdict
    assert read_json(result.path / "divergence.json")["divergences"][0]["verdict"] == verdict
    assert isinstance(result.failure, VerificationFailed) == (verdict == "logic fault?")


def test_a_frontend_without_token_details_is_said_so(spec_file: SpecFile, tmp_path: Path) -> None:
    scripts = (lambda _: answer(["a "]), lambda _: answer(["b "]))
    result = load(spec_file, tmp_path / "run", scripts, requests=2)
    place = result.summary["comparison"]["equality"]["first_divergence"][0]
    assert (place["verdict"], place["reason"]) == ("not examined", "the server gives no token details")
    assert result.failure is None


def test_random_prompts_are_marked_in_every_record(spec_file: SpecFile, tmp_path: Path) -> None:
    result = load(spec_file, tmp_path / "run", prompts="random", requests=4)
    assert result.summary["valid_for_acceptance"] is False
    assert all(r.synthetic for r in read_run(result.path).records)


def test_progress_tells_where_it_stands(spec_file: SpecFile, tmp_path: Path) -> None:
    seen: list[Status] = []
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script(bundle=3)) as other:
        run(spec_file, options(one, other, tmp_path / "run"), SilentReporter(), seen.append)
    last = seen[-1]
    assert (last.done, last.total, last.errors, last.seconds_left) == (24, 24, 0, 0.0)
    speculative, baseline = last.arms["speculative"], last.arms["baseline"]
    assert (speculative.acceptance_rate, baseline.acceptance_rate) == (1.0, None)
    assert speculative.done == baseline.done == 12
    assert speculative.tokens_per_second is not None
    assert speculative.first_token_seconds is not None
    assert speculative.seconds_per_request is not None
    assert speculative.seconds_per_request > speculative.first_token_seconds > 0
    assert [status.done for status in seen] == sorted(status.done for status in seen)


def test_an_existing_run_is_never_overwritten(spec_file: SpecFile, tmp_path: Path) -> None:
    (tmp_path / "something").write_text("mine")
    with pytest.raises(UsageError, match="new or empty"):
        load(spec_file, tmp_path)


def test_runs_go_below_the_specs_folder_and_the_latest_is_found(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script()) as other:
        opts = options(one, other, tmp_path, requests=2)
        result = run(spec_file, RunOptions(**{**opts.__dict__, "out": None}), SilentReporter())
    assert result.path.parent == spec_file.runs
    assert latest_run(spec_file.runs) == result.path


def test_options_come_from_the_spec_and_the_command_line(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, loadtest={"concurrency": [2, 8], "requests": 30, "temperature": 0.5})
    found = run_options(spec_file, requests=5, seed=None)
    assert (found.concurrency, found.requests, found.temperature, found.seed) == ((2, 8), 5, 0.5, 1)
    with pytest.raises(UsageError, match="no address for the baseline arm"):
        run_options(spec_file, urls={"speculative": "a:1"})
    with pytest.raises(UsageError, match="draft length 9 is more than the engine's 8"):
        run_options(spec_file, draft_length=9)
    with pytest.raises(UsageError, match="given twice"):
        run_options(spec_file, concurrency=(2, 2))
