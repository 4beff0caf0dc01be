"""What died is started again while the server goes on, a few times."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving.models import model_repository
from tests.triton_models.deployment import ANSWERS, make_deployment
from trtspec.serving import RunningServer, free_ports, repository_plan, start_server
from trtspec.serving.health import stub_processes
from trtspec.serving.revival import MOST, Revivals
from trtspec.serving.security import AdminKey, new_admin_key

BODY = {"text_input": "Long", "num_draft_tokens": 4}


def test_it_waits_longer_each_time_and_then_gives_up() -> None:
    now, waited, said = [0.0], list[float](), list[str]()
    revivals = Revivals(clock=lambda: now[0], sleep=waited.append)
    assert [revivals.begin("a", "a died", said.append) for _ in range(MOST + 1)] == [True] * MOST + [False]
    assert waited == [0, 5, 30]
    assert said[1] == "[yellow]warning:[/] a died; it is started again in 5 s (2 of 3)"
    assert said[-1] == "[yellow]warning:[/] a died, 4 times within 10 min 00 s"
    assert revivals.begin("b", "b died", said.append)
    now[0] = 700.0
    assert revivals.begin("a", "a died", said.append)
    assert waited[-1] == 0
    assert revivals.done == {"a": 4, "b": 1}


@contextmanager
def started(repository: Path, admin: AdminKey | None) -> Iterator[RunningServer]:
    plan = repository_plan(repository, free_ports(), log=repository.parent / "server.log", admin=admin)
    server = start_server(plan, ready_timeout=120)
    try:
        yield server
    finally:
        server.stop(now=True)


def kill(server: RunningServer, model: str) -> None:
    """Kill a model's process and wait until that is seen."""
    (pid,) = [pid for pid, name in stub_processes(server.pid).items() if name == model]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: model in server.dead_models())


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.triton
def test_a_leaf_is_loaded_again_and_drafts_again(tmp_path: Path) -> None:
    """Killed while it has nothing to do: one that dies with a lock of theirs takes the server with it."""
    deployment, said = make_deployment(tmp_path), list[str]()
    with started(deployment.repository, new_admin_key()) as server:
        deployment.url = f"http://{server.http_url}"
        rounds = deployment.generate(BODY)["num_spec_steps"]
        kill(server, "tensorrt_llm_draft")
        assert server.fatal() == "the process of model tensorrt_llm_draft died"
        answer = deployment.generate(BODY)
        assert (answer["text_output"], answer["num_draft_fallbacks"]) == (ANSWERS["Long"], 1)
        pid = server.pid
        assert server.revive(said.append)
        assert server.problem() is None
        assert (server.pid, server.restarts) == (pid, {"tensorrt_llm_draft": 1})
        answer = deployment.generate(BODY)
        assert (answer["num_spec_steps"], answer["num_draft_fallbacks"]) == (rounds, 0)
    assert said[0].endswith("model tensorrt_llm_draft died; it is started again now (1 of 3)")
    assert "trtspec: tensorrt_llm_draft runs again\n" in server.log.read_text()


@pytest.mark.triton
def test_calls_of_a_leaf_that_was_started_again_before_anybody_asked_end_too(tmp_path: Path) -> None:
    """One request alone: nothing else asks the dead process, and the new one is well when it is asked."""
    deployment = make_deployment(tmp_path, delay_ms=100)
    with started(deployment.repository, new_admin_key()) as server, ThreadPoolExecutor(1) as pool:
        deployment.url = f"http://{server.http_url}"
        waiting = pool.submit(deployment.refused, {"text_input": "Long", "num_draft_tokens": 0})
        eventually(lambda: bool(deployment.inner("tensorrt_llm")))
        kill(server, "tensorrt_llm")
        assert server.revive(lambda _line: None)
        _, text = waiting.result(timeout=30)
        assert text.startswith("target_failed: ")


@pytest.mark.triton
@pytest.mark.parametrize("victim", ["frontend", "server"])
def test_what_holds_requests_is_started_again_as_a_whole(tmp_path: Path, victim: str) -> None:
    repository = model_repository(tmp_path / "repository", name="tensorrt_llm_bls")
    with started(repository, new_admin_key()) as server:
        pid = server.pid
        if victim == "frontend":
            kill(server, "tensorrt_llm_bls")
        else:
            os.kill(pid, signal.SIGKILL)
            eventually(server.exited)
        assert server.revive(lambda _line: None)
        assert server.pid != pid
        assert (server.problem(), server.restarts) == (None, {"server": 1})


@pytest.mark.triton
def test_what_somebody_ended_or_no_key_unlocks_stays_ended(tmp_path: Path) -> None:
    repository = model_repository(tmp_path / "repository")
    with started(repository, new_admin_key()) as server:
        assert not server.revive(lambda _line: None)
        os.kill(server.pid, signal.SIGTERM)
        eventually(server.exited)
        assert not server.revive(lambda _line: None)
    with started(repository, None) as server:
        kill(server, "echo")
        assert not server.revive(lambda _line: None)
