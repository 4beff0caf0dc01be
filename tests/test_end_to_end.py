"""The whole job on a tiny pair: every command in the order in which a user types them, on the real Triton."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.builders import toy_spec
from tests.serving.toy import ToyDeployment
from trtspec.serving import free_ports
from trtspec.spec import ARMS, Arm, SpecFile
from trtspec.wire import Answer, FrontendRequest, ask

pytestmark = pytest.mark.triton

PROMPTS = (
    "hello world, how are you today?",
    "def add(a, b):\n    return",
    "the quick brown fox",
    "x",
    "ünïcödé 🙂 " * 6,
    "speculative decoding drafts tokens with a small model " * 4,
)


def trtspec(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One command as a user types it."""
    argv = [sys.executable, "-m", "trtspec", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def succeed(*arguments: str) -> Any:
    """The JSON document that a command prints; the test fails with its messages when it fails."""
    result = trtspec(*arguments, "--output", "json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def answer(toy: ToyDeployment, arm: Arm, prompt: str, **options: Any) -> Answer:
    request = FrontendRequest(prompt, options.pop("max_tokens", 32), token_details=True, **options)
    return asyncio.run(ask(toy.server(arm).grpc_url, request, timeout=60, on_chunk=lambda _: None))


# --- the arms ---


@pytest.mark.parametrize("prompt", PROMPTS, ids=range(len(PROMPTS)))
def test_greedy_answers_of_both_arms_are_the_same(toy_deployment: ToyDeployment, prompt: str) -> None:
    speculative = answer(toy_deployment, "speculative", prompt)
    baseline = answer(toy_deployment, "baseline", prompt)
    assert speculative.token_ids == baseline.token_ids
    assert speculative.text == baseline.text
    assert speculative.finish_reason == baseline.finish_reason
    assert baseline.counters.num_spec_steps == 0
    assert not any(baseline.drafted)


@pytest.mark.parametrize("length", [0, 1, 3, 8])
def test_the_draft_length_of_a_request_changes_rounds_only(toy_deployment: ToyDeployment, length: int) -> None:
    prompt = PROMPTS[0]
    expected = answer(toy_deployment, "baseline", prompt)
    got = answer(toy_deployment, "speculative", prompt, num_draft_tokens=length)
    assert got.token_ids == expected.token_ids
    counters = got.counters
    assert counters.num_spec_steps is not None
    assert counters.num_draft_tokens is not None
    assert (counters.num_spec_steps == 0) == (length == 0)
    assert counters.num_draft_tokens <= length * counters.num_spec_steps
    assert sum(got.drafted) <= (counters.num_accepted_tokens or 0)


def test_drafted_tokens_are_accepted_and_counted(toy_deployment: ToyDeployment) -> None:
    counters = answer(toy_deployment, "speculative", PROMPTS[0], max_tokens=64).counters
    assert counters.num_accepted_tokens
    assert counters.acceptance_histogram is not None
    assert sum(counters.acceptance_histogram) == counters.num_spec_steps
    weighted = sum(index * count for index, count in enumerate(counters.acceptance_histogram))
    assert weighted == counters.num_accepted_tokens


def test_seeded_samples_do_not_depend_on_speculation(toy_deployment: ToyDeployment) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "seed": 7, "max_tokens": 24}
    expected = answer(toy_deployment, "baseline", PROMPTS[1], **options)
    assert answer(toy_deployment, "speculative", PROMPTS[1], **options).token_ids == expected.token_ids
    other = answer(toy_deployment, "speculative", PROMPTS[1], **{**options, "seed": 8})
    assert other.token_ids != expected.token_ids


def test_many_requests_at_once_do_not_mix(toy_deployment: ToyDeployment) -> None:
    expected = {prompt: answer(toy_deployment, "baseline", prompt).text for prompt in PROMPTS}
    url = toy_deployment.server("speculative").grpc_url

    async def all_at_once() -> list[Answer]:
        requests = [FrontendRequest(prompt, 32) for prompt in PROMPTS * 2]
        return await asyncio.gather(*(ask(url, request, timeout=120, on_chunk=lambda _: None) for request in requests))

    texts = [got.text for got in asyncio.run(all_at_once())]
    assert texts == [expected[prompt] for prompt in PROMPTS * 2]


# --- other people's clients ---


def post(url: str, body: dict[str, Any]) -> Any:
    # curl -d sends this content type
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60)


def test_curl_generate_stream(toy_deployment: ToyDeployment) -> None:
    server = toy_deployment.server("speculative")
    body = {"text_input": PROMPTS[0], "max_tokens": 16, "stream": True}
    with post(f"http://{server.http_url}/v2/models/tensorrt_llm_bls/generate_stream", body) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in response.read().decode().splitlines() if line.startswith("data: ")]
    assert len(events) > 1
    expected = answer(toy_deployment, "baseline", PROMPTS[0], max_tokens=16).text
    assert "".join(event["text_output"] for event in events) == expected
    assert events[-1]["num_output_tokens"] == 16
    assert events[-1]["finish_reason"] == "length"


def test_curl_generate(toy_deployment: ToyDeployment) -> None:
    server = toy_deployment.server("speculative")
    url = f"http://{server.http_url}/v2/models/tensorrt_llm_bls/generate"
    with post(url, {"text_input": PROMPTS[0], "max_tokens": 16}) as response:
        data = json.load(response)
    assert data["text_output"] == answer(toy_deployment, "baseline", PROMPTS[0], max_tokens=16).text


def test_a_plain_tritonclient_stream(toy_deployment: ToyDeployment) -> None:
    from tritonclient import grpc

    server = toy_deployment.server("speculative")
    text = grpc.InferInput("text_input", [1, 1], "BYTES")
    text.set_data_from_numpy(np.array([[PROMPTS[0].encode()]], dtype=np.object_))
    limit = grpc.InferInput("max_tokens", [1, 1], "INT32")
    limit.set_data_from_numpy(np.array([[16]], dtype=np.int32))
    stream = grpc.InferInput("stream", [1, 1], "BOOL")
    stream.set_data_from_numpy(np.array([[True]], dtype=np.bool_))
    arrived: queue.Queue[Any] = queue.Queue()
    with grpc.InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: arrived.put((result, error)), stream_timeout=60)
        client.async_stream_infer("tensorrt_llm_bls", [text, limit, stream])
        pieces = list(_pieces(arrived))
        client.stop_stream()
    assert len(pieces) > 1
    assert "".join(pieces) == answer(toy_deployment, "baseline", PROMPTS[0], max_tokens=16).text


def _pieces(arrived: queue.Queue[Any]) -> Iterator[str]:
    """The texts of a stream up to the response that carries the final flag."""
    while True:
        result, error = arrived.get(timeout=60)
        assert error is None, error
        yield b"".join(result.as_numpy("text_output").flat).decode()
        if result.get_response().parameters["triton_final_response"].bool_param:
            return


# --- the commands ---


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    """A toy pair that nothing has been done with, and a few prompts to measure with."""
    folder = tmp_path_factory.mktemp("journey")
    lines = [
        {"id": f"p{number}", "category": ("chat", "code")[number % 2], "prompt": prompt, "max_tokens": 12}
        for number, prompt in enumerate(PROMPTS)
    ]
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    http, grpc, metrics = (port for _, port in free_ports().items())
    loadtest = {"prompts": "prompts.jsonl", "concurrency": [1, 2], "requests": 6, "warmup": 1}
    serving = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    return toy_spec(folder, serving=serving, loadtest=loadtest)


@pytest.fixture(scope="module")
def built(spec_file: SpecFile) -> SpecFile:
    """The same after `check`, `build` and `repo`."""
    path = str(spec_file.path)
    assert succeed("check", path)["ok"] is True
    succeed("build", path)
    arms = succeed("repo", path)["arms"]
    assert set(arms) == set(ARMS)
    return spec_file


@pytest.fixture(scope="module")
def run_folder(built: SpecFile) -> Path:
    """The folder of one load test of both arms."""
    summary = succeed("loadtest", str(built.path), "--out", str(built.runs / "first"))
    assert set(summary["arms"]) == set(ARMS)
    return built.runs / "first"


def test_serve_and_ask(built: SpecFile) -> None:
    argv = [sys.executable, "-m", "trtspec", "serve", str(built.path), "--output", "quiet"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().strip() == f"127.0.0.1:{built.spec.serving.http_port}"
            data = succeed("ask", str(built.path), PROMPTS[0], "--max-tokens", "16")
            other = succeed("ask", str(built.path), PROMPTS[0], "--max-tokens", "16", "--arm", "baseline")
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 130
        finally:
            server.kill()
    assert (data["arm"], data["started"]) == ("speculative", False)
    assert (other["arm"], other["started"]) == ("baseline", True)
    assert data["text"] == other["text"]
    assert data["num_spec_steps"] > 0
    assert other["num_spec_steps"] == 0


def test_a_changed_spec_asks_for_a_new_repository(built: SpecFile, tmp_path: Path) -> None:
    changed = built.root / "changed.yaml"
    changed.write_text(built.path.read_text().replace("draft_length: 4", "draft_length: 3"))
    result = trtspec("serve", str(changed))
    assert result.returncode == 2
    assert f"next: trtspec repo {changed}" in result.stderr


def test_the_load_test_measures_both_arms(run_folder: Path) -> None:
    summary = json.loads((run_folder / "summary.json").read_text())
    for arm in ARMS:
        measured = summary["arms"][arm]
        assert measured["error_rate"] == 0
        assert measured["requests"]["ok"] == 12
        assert measured["request_latency"]["p50"] > 0
    assert summary["comparison"]["equality"]["diverged"] == 0
    assert summary["acceptance"]["source"] == "server"
    assert summary["acceptance"]["num_accepted_tokens"] > 0


def test_the_report_needs_the_raw_file_only(run_folder: Path, tmp_path: Path) -> None:
    raw = tmp_path / "requests.jsonl"
    raw.write_bytes((run_folder / "requests.jsonl").read_bytes())
    recomputed = succeed("report", str(raw))
    summary = json.loads((run_folder / "summary.json").read_text())
    assert recomputed["arms"] == summary["arms"]
    assert recomputed["acceptance"] == summary["acceptance"]
    html = (run_folder / "report.html").read_text()
    assert "<html" in html
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=['\"]?(?:https?:)?//", html)


@contextmanager
def load_test_in_flight(spec_file: SpecFile, out: Path) -> Iterator[subprocess.Popen[str]]:
    """A long load test, some of whose requests have been measured."""
    argv = [sys.executable, "-m", "trtspec", "loadtest", str(spec_file.path), "--out", str(out)]
    argv += ["--requests", "400", "--max-tokens", "40", "--timeout", "20"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 120
            records = out / "requests.jsonl"
            while not records.is_file() or records.read_bytes().count(b"\n") < 8:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield process
        finally:
            process.kill()


def server_of(process: subprocess.Popen[str], arm: str) -> psutil.Process:
    """The tritonserver of an arm below a command."""
    children = psutil.Process(process.pid).children(recursive=True)
    return next(c for c in children if c.name() == "tritonserver" and any(f"/{arm}" in word for word in c.cmdline()))


def test_a_server_killed_during_a_load_test(built: SpecFile, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with load_test_in_flight(built, out) as process:
        os.kill(server_of(process, "speculative").pid, signal.SIGKILL)
        begin = time.monotonic()
        stdout, stderr = process.communicate(timeout=90)
    assert time.monotonic() - begin < 60
    assert process.returncode not in (0, 130), stderr
    assert "Traceback" not in stdout + stderr
    records = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    assert any(record["error"] for record in records)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["arms"]["speculative"]["error_rate"] > 0
    assert (out / "report.html").stat().st_size > 1000


def test_a_killed_load_test_leaves_no_server(built: SpecFile, tmp_path: Path) -> None:
    with load_test_in_flight(built, tmp_path / "run") as process:
        servers = [server_of(process, arm) for arm in ARMS]
        process.kill()
        process.wait(10)
    gone, alive = psutil.wait_procs(servers, timeout=15)
    assert len(gone) == 2
    assert not alive
