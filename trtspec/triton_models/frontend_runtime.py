"""Client requests as coroutines that threads drive: the thread that runs a request also waits for its leaves.

A coroutine awaits an `Operation`, and its thread performs it, so nothing is handed from thread to thread between two
inner calls. A watch thread looks after what blocks: when a client has gone, when time is up, when a draft is late or a
leaf has died, it takes the coroutine away from the thread that waits and another one goes on with it; the first returns
to the pool when its call does.
"""

from __future__ import annotations

import faulthandler
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.speculation import Cancelled, Expired, LeafError
else:
    from speculation import Cancelled, Expired, LeafError

__all__ = ["Operation", "Runtime", "Task"]

# A request holds one thread while it is in work; threads are made when needed.
_THREADS = 1024
# So many calls that nobody waits for any more may hold threads of one model; then it is not called for the moment.
_MOST_ABANDONED = 64
_TICK = 0.05
# Asking Triton whether a client has gone is a message to another process: not more often than this (seconds).
_CANCEL_CHECK = 0.2
# A leaf that has said nothing for so long is asked whether it lives.
_SILENCE = 2.0
# A process whose threads stand still for so long has to end: its callers then get errors and not silence.
_FROZEN = 60.0


@dataclass(eq=False)
class Operation:
    """Work that may block, awaited by a request's coroutine; `stop` ends it early when nobody waits any more."""

    model: str
    work: Callable[[], Any]
    stop: Callable[[], None]
    timeout: float | None = None
    started: float = 0.0
    asked: float = 0.0  # when the leaf was last asked whether it lives

    def __await__(self) -> Generator[Operation, Any, Any]:
        return (yield self)


@dataclass(eq=False)
class Task:
    """One request in work."""

    coroutine: Coroutine[Operation, Any, None]
    is_cancelled: Callable[[], bool]
    deadline: float | None = None  # time.monotonic()
    operation: Operation | None = None
    ending: Exception | None = None  # thrown into the coroutine at its next operation
    checked: float = field(default_factory=time.monotonic)


class Runtime:
    """Runs requests; `probe(model)` raises LeafError with reason "dead" when that leaf has died."""

    def __init__(self, probe: Callable[[str], None], every_tick: Callable[[], None] = lambda: None) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "request")
        self._probe, self._every_tick = probe, every_tick
        self._tasks: set[Task] = set()
        self._abandoned: dict[str, set[Operation]] = {}
        self._asking: set[str] = set()
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._closing = False
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)

    def watch(self) -> None:
        """Start the watch thread."""
        self._watcher.start()

    @property
    def running(self) -> int:
        """Requests in work."""
        return len(self._tasks)

    def start(self, task: Task) -> None:
        """Run `task` in a thread of the pool."""
        with self._lock:
            self._tasks.add(task)
        self._work.set()
        self._pool.submit(self._run, task, None, None)

    def submit(self, work: Callable[[], Any]) -> None:
        """Do `work` on the side; its result and its errors are dropped."""
        if not self._closing:
            self._pool.submit(work)

    def close(self) -> None:
        """Let go of the threads."""
        self._closing = True
        self._work.set()
        self._watcher.join(1.0)
        faulthandler.cancel_dump_traceback_later()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, task: Task, value: Any, error: Exception | None) -> None:
        try:
            while True:
                operation = task.coroutine.throw(error) if error else task.coroutine.send(value)
                value = None
                error = self._begin(task, operation)
                if error is not None:
                    continue
                try:
                    value = operation.work()
                except Exception as raised:  # noqa: BLE001 - handed to the coroutine
                    error = raised
                if not self._finish(task, operation):
                    return
        except StopIteration:
            pass
        except Exception:  # noqa: BLE001 - a request ends in an answer; where even that failed, the log gets the reason
            traceback.print_exc()
        self._forget(task)

    def _begin(self, task: Task, operation: Operation) -> Exception | None:
        """What keeps `operation` from starting, None when nothing does."""
        with self._lock:
            if task.ending is not None:
                ending, task.ending = task.ending, None
                return ending
            if len(self._abandoned.get(operation.model, ())) >= _MOST_ABANDONED:
                return LeafError(f"{operation.model} has left {_MOST_ABANDONED} calls unanswered", "unavailable")
            operation.started = operation.asked = time.monotonic()
            task.operation = operation
        return None

    def _finish(self, task: Task, operation: Operation) -> bool:
        """Whether this thread still has the task; if not, somebody took it while the operation blocked."""
        with self._lock:
            if task.operation is operation:
                task.operation = None
                return True
            self._abandoned.get(operation.model, set()).discard(operation)
        return False

    def _forget(self, task: Task) -> None:
        with self._lock:
            self._tasks.discard(task)

    def _take_over(self, task: Task, operation: Operation, error: Exception) -> None:
        """Go on with `task` in another thread, with `error`, unless the operation has just ended."""
        with self._lock:
            if task.operation is not operation:
                return
            task.operation = None
            self._abandoned.setdefault(operation.model, set()).add(operation)
        self.submit(operation.stop)
        self._pool.submit(self._run, task, None, error)

    def _end(self, task: Task, error: Exception) -> None:
        with self._lock:
            operation = task.operation
            if operation is None:
                task.ending = task.ending or error
        if operation is not None:
            self._take_over(task, operation, error)

    def _watch(self) -> None:
        armed = 0.0
        while not self._closing:
            self._every_tick()
            if time.monotonic() - armed > _FROZEN / 6:
                armed = time.monotonic()
                # a timer of its own, which needs no interpreter lock; writes all stacks to the server's log
                faulthandler.dump_traceback_later(_FROZEN, exit=True)
            if not self._tasks:
                self._work.clear()
                # a task may have come in between; half a second late is early enough for what this thread does
                self._work.wait(0.5)
                continue
            time.sleep(_TICK)
            with self._lock:
                tasks = list(self._tasks)
            for task in tasks:
                self._look_after(task, time.monotonic())

    def _look_after(self, task: Task, now: float) -> None:
        operation = task.operation
        if task.deadline is not None and now > task.deadline:
            task.deadline = None
            self._end(task, Expired("the request took longer than this deployment allows"))
        elif operation is not None and operation.timeout is not None and now - operation.started > operation.timeout:
            late = f"{operation.model} did not answer within {operation.timeout:g} s"
            self._take_over(task, operation, LeafError(late, "timeout"))
        elif operation is not None and now - operation.asked > _SILENCE:
            self._ask_whether_it_lives(operation.model, now)
        if now - task.checked > _CANCEL_CHECK:
            task.checked = now
            if _gone(task):
                self._end(task, Cancelled("the client cancelled the request"))

    def _ask_whether_it_lives(self, model: str, now: float) -> None:
        for task in list(self._tasks):
            if (operation := task.operation) is not None and operation.model == model:
                operation.asked = now
        if model not in self._asking:  # one question at a time: a leaf that hangs does not answer this one either
            self._asking.add(model)
            self.submit(lambda: self._ask(model))

    def _ask(self, model: str) -> None:
        began = time.monotonic()
        try:
            self._probe(model)
        except LeafError as error:
            if error.reason == "dead":
                self.bury(model, error, began)
        finally:
            self._asking.discard(model)

    def bury(self, model: str, error: LeafError, before: float) -> None:
        """End the calls of a leaf that was found dead by a call of the time `before` and that began no later.

        They are never answered. Later ones may go to a process that was started in its place, against which those that
        nobody waits for must not count either.
        """
        for task in list(self._tasks):
            operation = task.operation
            if operation is not None and operation.model == model and operation.started <= before:
                self._take_over(task, operation, error)
        with self._lock:
            left = {operation for operation in self._abandoned.get(model, ()) if operation.started > before}
            self._abandoned[model] = left


def _gone(task: Task) -> bool:
    try:
        return bool(task.is_cancelled())
    except Exception:  # noqa: BLE001 - a client that cannot be asked any more has its answer already
        return False
