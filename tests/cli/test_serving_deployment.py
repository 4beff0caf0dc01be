"""`trtspec serve` and `trtspec status` with the real server on the toy pair: first requests, draining, both arms."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from tests.serving.toy import ToyDeployment
from trtspec.cli.main import cli
from trtspec.serving import free_ports
from trtspec.spec import SpecFile

pytestmark = pytest.mark.triton


@contextmanager
def serving(spec_file: SpecFile, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`trtspec serve --output json` on free ports, and what it printed when it was ready."""
    ports = [word for name, port in free_ports().items() for word in (f"--{name}-port", str(port))]
    argv = [sys.executable, "-m", "trtspec", "serve", str(spec_file.path), "--output", "json", *ports, *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while lines[-1] and lines[-1] != "}\n":
                lines.append(process.stdout.readline())
            data = json.loads("".join(lines))
            assert "error" not in data, data
            yield process, data
        finally:
            process.kill()


def stream(url: str, max_tokens: int, seen: threading.Event | None = None) -> list[dict[str, Any]]:
    """Every event of a generate_stream; `seen` is set at the first."""
    body = {"text_input": "the cat", "max_tokens": max_tokens, "stream": True}
    request = urllib.request.Request(f"{url}/v2/models/tensorrt_llm_bls/generate_stream", json.dumps(body).encode())
    events = []
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data:"):
                events.append(json.loads(line[5:]))
                if seen is not None:
                    seen.set()
    return events


def text(events: list[dict[str, Any]]) -> str:
    return "".join(str(event.get("text_output", "")) for event in events)


def status(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(cli, ["status", *arguments, "--output", "json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_running_stream_ends_whole_after_sigterm(toy_deployment: ToyDeployment) -> None:
    with serving(toy_deployment.spec_file) as (process, data):
        url = data["urls"]["http"]
        whole = text(stream(url, 300))
        seen, found = threading.Event(), list[Any]()
        client = threading.Thread(target=lambda: found.append(stream(url, 300, seen)))
        client.start()
        assert seen.wait(30)
        process.send_signal(signal.SIGTERM)
        client.join(60)
        assert process.wait(60) == 0
        assert process.stderr is not None
        chatter = process.stderr.read()
    assert text(found[0]) == whole
    assert not any("error" in event for event in found[0])
    assert "no new requests; waiting up to 120 s" in chatter
    assert "first requests:" in chatter


def test_status_of_what_runs_and_of_nothing(toy_deployment: ToyDeployment) -> None:
    spec_file = toy_deployment.spec_file
    with serving(spec_file, "--arm", "baseline") as (process, data):
        stream(data["urls"]["http"], 8)
        deadline = time.monotonic() + 30
        while True:  # the metrics page is made anew every two seconds
            code, shown = status(str(spec_file.path))
            (server,) = [server for server in shown["servers"] if server["source"] == "state"]
            if (server["metrics"] and (server["metrics"]["requests"] or 0) >= 3) or time.monotonic() > deadline:
                break
        assert code == 0
        assert (server["arm"], server["pid"], server["phase"], server["way"]) == (
            "baseline", data["pid"], "ready", "embedded",
        )  # fmt: skip
        assert {model["name"]: model["ready"] for model in server["models"]} == dict.fromkeys(data["models"], True)
        assert server["version"].startswith("2.")
        assert server["metrics"]["requests"] >= 3  # two first ones and ours
        assert server["uptime_seconds"] > 0
        address = data["urls"]["http"].removeprefix("http://")
        metrics = data["urls"]["metrics"].rpartition(":")[2].partition("/")[0]
        code, shown = status(address, "--metrics-port", metrics)
        assert (code, shown["servers"][0]["source"], shown["servers"][0]["ready"]) == (0, "url", True)
        human = CliRunner().invoke(cli, ["status", str(spec_file.path)]).stdout
        assert "tensorrt_llm_bls" in human
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert status(address)[0] == 5
    assert not [server for server in status(str(spec_file.path))[1]["servers"] if server["source"] == "state"]


def test_both_arms_at_once(toy_deployment: ToyDeployment) -> None:
    with serving(toy_deployment.spec_file, "--both", "--no-warmup") as (process, data):
        first, second = data["servers"]
        assert (first["arm"], second["arm"]) == ("speculative", "baseline")
        ports = [int(server["urls"]["http"].rpartition(":")[2]) for server in (first, second)]
        assert ports[1] == ports[0] + 10
        answers = [text(stream(server["urls"]["http"], 12)) for server in (first, second)]
        assert answers[0] == answers[1]
        shown = status(str(toy_deployment.spec_file.path))[1]["servers"]
        assert {server["arm"] for server in shown if server["source"] == "state"} == {"speculative", "baseline"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        chatter = process.stderr.read()
    assert "both arms share" in chatter
    assert "first requests" not in chatter


def test_a_second_signal_ends_draining(toy_deployment: ToyDeployment) -> None:
    with serving(toy_deployment.spec_file, "--no-warmup") as (process, data):
        url, seen = data["urls"]["http"], threading.Event()

        def ask() -> None:
            try:
                stream(url, 480, seen)
            except (OSError, ValueError):
                seen.set()

        client = threading.Thread(target=ask)
        client.start()
        assert seen.wait(30)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert time.monotonic() - begin < 10
        client.join(30)


def test_an_idle_open_stream_does_not_hold_the_end_up(toy_deployment: ToyDeployment) -> None:
    import grpc
    from tritonclient.grpc import service_pb2_grpc

    from trtspec.wire import FrontendRequest
    from trtspec.wire.frontend import infer_request

    with serving(toy_deployment.spec_file) as (process, data), grpc.insecure_channel(data["urls"]["grpc"]) as channel:
        closing = threading.Event()

        def requests() -> Iterator[Any]:
            yield infer_request(FrontendRequest("the cat", 8))
            closing.wait(100)

        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
        assert next(call).error_message == ""
        time.sleep(2)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(100) == 0
        assert time.monotonic() - begin < 40
        closing.set()


def test_what_is_neither_a_spec_nor_an_address() -> None:
    result = CliRunner().invoke(cli, ["status", "nonsense"])
    assert result.exit_code == 2
    assert "neither a spec file nor HOST:PORT" in result.stderr
