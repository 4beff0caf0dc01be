"""Every way of running with stand-ins for the programs: what is started, in which order, and that all of it ends."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.serving.stand_ins import StandIns, install_stand_ins
from tests.serving.tensorrt_plans import HOST, deployed
from trtspec.errors import ServerNotReady
from trtspec.serving import LaunchPlan, RunningServer, ServeOptions, free_ports, launch_plan, start_server
from trtspec.spec import Arm

ORDER = ["load tensorrt_llm_draft", "load tensorrt_llm", "load tensorrt_llm_bls"]
WAYS = ("path", "docker")


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    programs = install_stand_ins(tmp_path / "programs")
    monkeypatch.setenv("PATH", programs.path)
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    return programs


def plan(folder: Path, programs: StandIns, layout: str, way: Any, arm: Arm = "speculative") -> LaunchPlan:
    host = dataclasses.replace(HOST, tritonserver=programs.folder / "bin" / "tritonserver")
    options = ServeOptions(way=way, managed=True, host=host)
    return launch_plan(deployed(folder, layout), arm, free_ports(), log=folder / "log", options=options)


def ranks(programs: StandIns, count: int) -> list[dict[str, Any]]:
    """The calls of tritonserver, once there are `count` of them: only rank 0 is waited for by the server's start."""
    deadline = time.monotonic() + 20
    while len(programs.calls("tritonserver")) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return programs.calls("tritonserver")


@pytest.mark.parametrize("way", WAYS)
def test_models_are_loaded_in_order_where_one_process_serves(tmp_path: Path, stand_ins: StandIns, way: str) -> None:
    made = plan(tmp_path, stand_ins, "tp1-tp1", way)
    with start_server(made, ready_timeout=30) as server:
        assert stand_ins.events() == ORDER
        assert server.drain(10, print)
    assert stand_ins.events()[3:] == ["unload tensorrt_llm_bls", "terminated"]
    (call,) = stand_ins.calls("tritonserver")
    assert call["env"] == {"HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize("way", WAYS)
def test_an_orchestrator_that_spawns(tmp_path: Path, stand_ins: StandIns, way: str) -> None:
    with start_server(plan(tmp_path, stand_ins, "tp4-tp1", way), ready_timeout=30):
        assert stand_ins.events() == ORDER
    (call,) = stand_ins.calls("tritonserver")
    assert call["env"]["TRTLLM_ORCHESTRATOR"] == "1"
    assert call["env"]["TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES"] == "1"


@pytest.mark.parametrize("way", WAYS)
def test_an_orchestrator_that_does_not_spawn(tmp_path: Path, stand_ins: StandIns, way: str) -> None:
    with start_server(plan(tmp_path, stand_ins, "fast-logits", way), ready_timeout=30):
        assert stand_ins.events() == []  # the ranks load together
        calls = {call["env"]["OMPI_COMM_WORLD_RANK"]: call for call in ranks(stand_ins, 3)}
    assert sorted(calls) == ["0", "1", "2"]
    assert "--load-model=tensorrt_llm_bls" not in calls["1"]["argv"]
    prefixes = {word for call in calls.values() for word in call["argv"] if "shm-region-prefix-name" in word}
    assert len(prefixes) == 3
    assert stand_ins.events().count("terminated") == 3


def test_leader_mode(tmp_path: Path, stand_ins: StandIns) -> None:
    with start_server(plan(tmp_path, stand_ins, "tp4-tp1", "path", "baseline"), ready_timeout=30):
        assert len(ranks(stand_ins, 4)) == 4


def test_a_container_is_removed_by_name(tmp_path: Path, stand_ins: StandIns) -> None:
    made = plan(tmp_path, stand_ins, "tp1-tp1", "docker")
    server = start_server(made, ready_timeout=30)
    server.stop(now=True)
    run, remove = stand_ins.calls("docker")
    name = run["argv"][run["argv"].index("--name") + 1]
    assert remove["argv"][1:] == ["rm", "-f", name]
    assert made.container == name


def test_a_model_that_cannot_be_loaded(tmp_path: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_REFUSE", "tensorrt_llm")
    with pytest.raises(
        ServerNotReady, match=r"model tensorrt_llm cannot be loaded: load failed .*: no engine"
    ) as caught:
        start_server(plan(tmp_path, stand_ins, "tp1-tp1", "path"), ready_timeout=30)
    assert "At:" not in caught.value.message
    assert stand_ins.events()[:2] == ORDER[:2]


@pytest.mark.parametrize("layout", ["tp1-tp1", "fast-logits"])
def test_a_server_that_ends_while_starting(
    tmp_path: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    line = "Assertion failed: MPI size 1 != TP size 2 * PP size 1"
    monkeypatch.setenv("STAND_IN_FAIL", f"[TensorRT-LLM][ERROR] {line}")
    with pytest.raises(ServerNotReady) as caught:
        start_server(plan(tmp_path, stand_ins, layout, "path"), ready_timeout=30)
    assert caught.value.cause == "another number of MPI ranks was started than the engine was built for"
    assert any(line in entry for entry in caught.value.log_tail)


def started(folder: Path, programs: StandIns) -> RunningServer:
    return start_server(plan(folder, programs, "tp1-tp1", "path"), ready_timeout=30)


FOX = "The quick brown fox jumps over the lazy dog."
PLAIN, OF_MODEL, OF_TEXT = (
    {"text_input": text, "max_tokens": 8, "stream": True, **more}
    for text, more in ((FOX, {"num_draft_tokens": 0}), (FOX, {}), ("again again again again", {}))
)
OF_TEXT_3 = {**OF_TEXT, "text_input": "again again again again again"}


@pytest.mark.parametrize(
    ("layout", "arm", "bodies"),
    [
        ("tp1-tp1", "speculative", [PLAIN, OF_MODEL]),
        ("ngram", "speculative", [PLAIN, OF_TEXT_3]),
        ("lookup", "speculative", [PLAIN, OF_MODEL, OF_TEXT]),
        ("lookup", "baseline", [PLAIN]),
    ],
)
def test_the_first_requests_are_plain_and_verify_a_draft_of_each_source(
    tmp_path: Path, stand_ins: StandIns, layout: str, arm: Arm, bodies: list[dict[str, Any]]
) -> None:
    with start_server(plan(tmp_path, stand_ins, layout, "path", arm), ready_timeout=30) as server:
        assert len(server.warm_up(10)) == 2 * len(bodies)
    sent = [json.loads(event.removeprefix("generate ")) for event in stand_ins.events() if event.startswith("generate")]
    assert sent == bodies * 2


def test_a_first_request_that_fails(tmp_path: Path, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_BROKEN", "1")
    server = started(tmp_path, stand_ins)
    with pytest.raises(ServerNotReady, match="a first request failed: internal: no answer"):
        server.warm_up(10)
    assert server.exited()
