"""Requests as coroutines on threads: order, lateness, cancellation, dead leaves. No server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trtspec.speculation import Cancelled, Expired, LeafError
from trtspec.triton_models import frontend_runtime
from trtspec.triton_models.frontend_runtime import Operation, Runtime, Task

SOON = 5.0


class Bench:
    """A runtime, and a leaf that answers when it is let."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.probed: list[str] = []
        self.stopped: list[str] = []
        self.release = threading.Event()
        self.runtime = Runtime(self.probe)
        self.runtime.watch()

    def probe(self, model: str) -> None:
        self.probed.append(model)
        if model in self.dead:
            raise LeafError("Stub process is not healthy", "dead")

    def operation(self, work: Callable[[], Any], model: str = "leaf", timeout: float | None = None) -> Operation:
        return Operation(model, work, lambda: self.stopped.append(model), timeout)

    def hang(self, model: str = "leaf", timeout: float | None = None) -> Operation:
        return self.operation(lambda: self.release.wait(20), model, timeout)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.release.set()
    made.runtime.close()


class Outcome:
    """Runs a coroutine as a request and waits for its end."""

    def __init__(self, bench: Bench, body: Callable[[], Any], **task: Any) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self._done = threading.Event()

        async def request() -> None:
            try:
                self.value = await body()
            except Exception as error:  # noqa: BLE001 - looked at by the test
                self.error = error
            finally:
                self._done.set()

        bench.runtime.start(Task(request(), **{"is_cancelled": lambda: False, **task}))

    def wait(self) -> Outcome:
        assert self._done.wait(SOON), "the request did not end"
        return self


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + SOON
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_operations_run_in_order_and_in_one_thread(bench: Bench) -> None:
    async def body() -> list[Any]:
        return [await bench.operation(threading.get_ident) for _ in range(50)]

    threads = Outcome(bench, body).wait().value
    assert len(threads) == 50
    assert len(set(threads)) == 1
    assert eventually(lambda: bench.runtime.running == 0)


def test_what_an_operation_raises_reaches_the_coroutine(bench: Bench) -> None:
    def fail() -> None:
        raise LeafError("no memory")

    async def body() -> str:
        try:
            await bench.operation(fail)
        except LeafError as error:
            return f"{error}, then {await bench.operation(lambda: 'on')}"
        return "nothing raised"

    assert Outcome(bench, body).wait().value == "no memory, then on"


def test_a_late_operation_is_left_behind_and_the_request_goes_on(bench: Bench) -> None:
    async def body() -> str:
        try:
            await bench.hang("draft", timeout=0.05)
        except LeafError as error:
            return f"{error.reason} {await bench.operation(lambda: 'on')}"
        return "waited"

    assert Outcome(bench, body).wait().value == "timeout on"
    assert eventually(lambda: bench.stopped == ["draft"])


def test_a_client_that_leaves_ends_a_call_in_progress(bench: Bench) -> None:
    async def body() -> None:
        await bench.hang("target")

    error = Outcome(bench, body, is_cancelled=lambda: True).wait().error
    assert isinstance(error, Cancelled)
    assert eventually(lambda: bench.stopped == ["target"])


def test_a_deadline_ends_a_request_between_and_in_operations(bench: Bench) -> None:
    async def waiting() -> None:
        await bench.hang()

    async def busy() -> None:
        while True:
            await bench.operation(lambda: time.sleep(0.01))

    for body in (waiting, busy):
        error = Outcome(bench, body, deadline=time.monotonic() + 0.1).wait().error
        assert isinstance(error, Expired)
    assert eventually(lambda: bench.runtime.running == 0)


def test_a_dead_leaf_is_found_out_and_its_calls_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend_runtime, "_SILENCE", 0.05)
    bench.dead.add("draft")

    async def on(model: str) -> None:
        await bench.hang(model)

    dying = [Outcome(bench, lambda: on("draft")) for _ in range(3)]
    living = Outcome(bench, lambda: on("target"))
    for outcome in dying:
        error = outcome.wait().error
        assert isinstance(error, LeafError)
        assert error.reason == "dead"
    # with pauses: the watch thread and the threads that ask need their turns on a busy machine
    assert eventually(lambda: "target" in bench.probed)
    assert living.error is None
    bench.release.set()
    living.wait()


def test_calls_that_nobody_waits_for_are_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that never answers would else take thread after thread."""
    monkeypatch.setattr(frontend_runtime, "_MOST_ABANDONED", 3)

    async def body() -> str:
        try:
            await bench.hang("draft", timeout=0.01)
        except LeafError as error:
            return error.reason
        return "answered"

    assert [Outcome(bench, body).wait().value for _ in range(5)] == [*["timeout"] * 3, *["unavailable"] * 2]
    bench.release.set()
    assert eventually(lambda: Outcome(bench, body).wait().value == "answered")


def test_calls_of_a_dead_leaf_do_not_count_against_the_one_in_its_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a late word of its death end calls that began afterwards."""
    monkeypatch.setattr(frontend_runtime, "_MOST_ABANDONED", 2)

    async def late() -> None:
        await bench.hang("draft", timeout=0.01)

    assert [str(Outcome(bench, late).wait().error)[:5] for _ in range(3)] == ["draft", "draft", "draft"]
    death = time.monotonic()
    dead = LeafError("Stub process is not healthy", "dead")
    bench.runtime.bury("draft", dead, death)
    living = Outcome(bench, lambda: _answer(bench))
    assert eventually(lambda: any(task.operation for task in list(bench.runtime._tasks)))
    bench.runtime.bury("draft", dead, death)
    bench.release.set()
    assert living.wait().value is True


async def _answer(bench: Bench) -> Any:
    return await bench.hang("draft")


def test_a_leaf_that_hangs_is_asked_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question holds a thread until it is answered."""
    monkeypatch.setattr(frontend_runtime, "_SILENCE", 0.01)
    asked: list[str] = []

    def ask(model: str) -> None:
        asked.append(model)
        bench.release.wait(20)

    monkeypatch.setattr(bench.runtime, "_probe", ask)

    async def body() -> None:
        await bench.hang("target")

    outcome = Outcome(bench, body)
    assert eventually(lambda: bool(asked))
    time.sleep(0.3)
    assert asked == ["target"]
    bench.release.set()
    outcome.wait()


def test_a_request_that_fails_in_its_own_answer_is_no_longer_in_work(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    async def request() -> None:
        await bench.operation(lambda: time.sleep(0.1))
        raise RuntimeError("the client's channel is broken")

    bench.runtime.start(Task(request(), lambda: False))
    assert bench.runtime.running == 1
    assert eventually(lambda: bench.runtime.running == 0)
    assert "channel is broken" in capsys.readouterr().err


def test_hundreds_of_requests_at_a_time(bench: Bench) -> None:
    async def body() -> str:
        for _ in range(3):
            await bench.operation(lambda: time.sleep(0.05))
        return "done"

    started = time.monotonic()
    outcomes = [Outcome(bench, body) for _ in range(200)]
    assert {outcome.wait().value for outcome in outcomes} == {"done"}
    assert time.monotonic() - started < 200 * 0.15 / 4
    assert eventually(lambda: bench.runtime.running == 0)
