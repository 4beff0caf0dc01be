"""Inner requests: one call of a leaf model inside Triton, its responses, and how it is ended early."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.speculation import LeafError
    from trtspec.triton_models.frontend_arrivals import Arrivals, Buffer
    from trtspec.triton_models.frontend_deployment import BIRTH
    from trtspec.triton_models.frontend_runtime import Operation, Runtime
else:
    from frontend_arrivals import Arrivals, Buffer
    from frontend_deployment import BIRTH
    from frontend_runtime import Operation, Runtime
    from speculation import LeafError

__all__ = ["Calls", "Result", "Tensors"]

Array = npt.NDArray[Any]
Tensors = Mapping[str, Any]  # name → pb_utils.Tensor

# The backend lets go of a finished iterator within milliseconds; what is kept is a few kilobytes each.
_KEEP_SECONDS = 2.0
_END = object()
_DEAD = "stub process"  # how Triton calls a Python model whose process has died
# how it calls a model that is not loaded: one that is started again after its death, for a moment
_AWAY = ("not at ready state", "unknown model", "no available versions")
_ALWAYS = ("output_ids", "sequence_length")
_ON_REQUEST = {"return_log_probs": "output_log_probs", "return_generation_logits": "generation_logits"}
_NEEDED = ("input_ids", "input_lengths", "request_output_len")
# a call's parameter: it goes on with an answer that its model has begun, so it is never one too many
_CONTINUES = {"trtspec_continues": True}
_BUSY = "busy: "  # how the torch runtime's errors begin where too many requests wait


@dataclass(frozen=True)
class Result:
    """What a leaf answered: new ids, and further outputs by name where they were asked for."""

    ids: list[int]
    extra: Mapping[str, Array]


class Calls:
    """Makes the inner requests of one frontend."""

    def __init__(self, every_tick: Callable[[], None]) -> None:
        self.runtime = Runtime(self._probe, every_tick)
        self._arrivals = Arrivals()
        self._used = _Used(self._arrivals)
        self._cannot_stop: set[str] = set()
        self._prefix, self._numbers = uuid.uuid4().hex[:16], itertools.count()

    async def call(
        self, model: str, tensors: Tensors, *, timeout: float | None = None, continues: bool = False
    ) -> list[Result]:
        """The responses of one inner request; LeafError when it fails or is late.

        One that `continues` an answer may not be refused for want of room: the answer was let in when it began.
        """
        request, request_id = self._request(model, tensors, continues=continues)
        results: list[Result] = await Operation(
            model, lambda: self._collect(model, request), lambda: self._stop(model, tensors, request_id), timeout
        )
        return results

    async def stream(self, model: str, tensors: Tensors, *, continues: bool = False) -> AsyncGenerator[Result, None]:
        """Each response of one inner request as it comes; closing ends the inner request too."""
        request, request_id = self._request(model, tensors, continues=continues)
        call = _Stream(self._used.responses(request))
        try:
            while True:
                item = await Operation(
                    model, lambda: self._guarded(model, call.next), lambda: self._end(model, tensors, request_id, call)
                )
                if item is _END:
                    return
                yield item
        except LeafError:
            call.leave(self.runtime)  # it has ended by itself; what is left is its last, empty response
            raise
        finally:
            if not call.done and not call.left:
                self.runtime.submit(lambda: self._end(model, tensors, request_id, call))

    def start(self) -> None:
        """Start the threads that look after the calls."""
        self._arrivals.start()
        self.runtime.watch()

    def close(self) -> None:
        """Let go of the threads."""
        self._arrivals.close()
        self.runtime.close()

    def _end(self, model: str, tensors: Tensors, request_id: str, call: _Stream) -> None:
        call.leave(self.runtime)
        self._stop(model, tensors, request_id)

    def _request(
        self, model: str, tensors: Tensors, request_id: str = "", *, continues: bool = False
    ) -> tuple[Any, str]:
        request_id = request_id or f"{self._prefix}-{next(self._numbers)}"
        request = pb_utils.InferenceRequest(
            model_name=model,
            request_id=request_id,
            requested_output_names=_outputs(tensors),
            inputs=list(tensors.values()),
            **({"parameters": _CONTINUES} if continues else {}),
        )
        return request, request_id

    def _stop(self, model: str, tensors: Tensors, request_id: str) -> None:
        """Ask the leaf to end the request with this id, as NVIDIA's models do: same id, `stop` set."""
        if model in self._cannot_stop:
            return
        needed = {name: tensors[name] for name in _NEEDED}
        stop = pb_utils.Tensor("stop", np.ones((1, 1), np.bool_))
        try:
            self._collect(model, self._request(model, {**needed, "stop": stop}, request_id)[0])
        except LeafError as error:
            if error.reason == "dead" or any(text in str(error) for text in _AWAY):
                return
            # the leaf then runs to its token limit; nothing else is lost
            self._cannot_stop.add(model)
            pb_utils.Logger.log_warn(f"{model} cannot be stopped early: {error}")

    def _probe(self, model: str) -> None:
        """A request to stop what is not there: any leaf but a dead one has an answer.

        Our own leaf tells when its process began: calls from before went to one that is gone.
        """
        one = np.ones((1, 1), np.int32)
        tensors = {name: pb_utils.Tensor(name, one) for name in _NEEDED}
        stop = pb_utils.Tensor("stop", np.ones((1, 1), np.bool_))
        results = self._collect(model, self._request(model, {**tensors, "stop": stop})[0])
        told = [token for result in results for token in result.ids]
        if len(told) == 3 and told[0] == BIRTH:
            error = LeafError(f"{model} died and was started again", "dead")
            self.runtime.bury(model, error, told[1] + told[2] / 1000)

    def _collect(self, model: str, request: Any) -> list[Result]:
        results: list[Result] = self._guarded(
            model, lambda: [_result(response) for response in self._used.responses(request)]
        )
        return results

    def _guarded(self, model: str, work: Any) -> Any:
        """What `work` returns; whatever it raises becomes a LeafError, and a death ends its earlier calls too."""
        began = time.monotonic()
        try:
            return work()
        except Exception as raised:  # noqa: BLE001 - Triton's own exception types differ between versions
            error = raised if isinstance(raised, LeafError) else _leaf_error(raised)
            if error.reason == "dead":
                self.runtime.bury(model, error, began)
            raise error from None


def _outputs(tensors: Tensors) -> list[str]:
    """The outputs that a request asks for."""
    return [*_ALWAYS, *(output for switch, output in _ON_REQUEST.items() if switch in tensors)]


class _Used:
    """Keeps the response iterators of finished inner requests for a while.

    When an iterator ends, a thread of the Python backend drops its own reference to it, without the interpreter lock
    (seen in 24.10). Were that the last reference, the responses and their arrays would be freed there, and the
    process would crash sooner or later.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._kept: deque[tuple[float, Any]] = deque()
        self._lock = threading.Lock()

    def responses(self, request: Any) -> Iterator[Any]:
        """The responses of `request`, which is sent now; returns when the first one is there."""
        iterator = request.exec(decoupled=True)
        try:
            buffer = Buffer(iterator)
            yield next(iterator)
            buffer.confirm()
            while True:
                self._arrivals.wait(buffer)
                yield next(iterator)
        except StopIteration:
            return
        finally:
            self._keep(iterator)

    def _keep(self, iterator: Any) -> None:
        now = time.monotonic()
        with self._lock:
            self._kept.append((now, iterator))
            while self._kept[0][0] < now - _KEEP_SECONDS:
                self._kept.popleft()


class _Stream:
    """A streaming call, read by one thread at a time and always to its end: the leaf must not be left hanging."""

    def __init__(self, responses: Iterator[Any]) -> None:
        self._responses = responses
        self._lock = threading.Lock()
        self._reading = False
        self.done = False
        self.left = False

    def next(self) -> Any:
        """The next result, `_END` after the last."""
        self._begin()
        try:
            response = next(self._responses, _END)
            self.done = response is _END
        except Exception:
            self.done = True
            raise
        finally:
            drain = self._pause()
        if drain:
            self._drain()
        return response if response is _END else _result(response)

    def leave(self, runtime: Runtime) -> None:
        """Nobody listens any more: what still comes is read and dropped."""
        with self._lock:
            self.left = True
            idle = not self._reading and not self.done
            self._reading = self._reading or idle
        if idle:
            runtime.submit(self._drain)

    def _begin(self) -> None:
        with self._lock:
            self._reading = True

    def _pause(self) -> bool:
        """Whether the rest has to be drained by this thread."""
        with self._lock:
            self._reading = self.left
            return self.left and not self.done

    def _drain(self) -> None:
        try:
            for _ in self._responses:
                pass
        except Exception:  # noqa: BLE001, S110 - it was only read so that it ends
            pass
        self.done = True


def _result(response: Any) -> Result:
    """The new ids of one response; an empty one (the final flag alone) has none."""
    if response.has_error():
        raise _leaf_error(response.error().message())
    arrays = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
    found = arrays.pop("output_ids", None)
    if found is not None and found.dtype.kind not in "iu":
        raise LeafError(f"output_ids has the type {found.dtype}")
    ids: list[int] = [] if found is None else found.reshape(-1).tolist()
    lengths = arrays.pop("sequence_length", None)
    length = int(lengths.reshape(-1)[0]) if lengths is not None and lengths.size else len(ids)
    ids = ids[:length] if length > 0 else ids
    if ids and min(ids) < 0 and ids[0] != BIRTH:
        raise LeafError(f"its answer broke off, with token id {min(ids)}")
    # copies, because the memory goes with the response
    return Result(ids, {name: np.array(array) for name, array in arrays.items()})


def _leaf_error(error: object) -> LeafError:
    """The first line of an error (a Python backend puts a traceback below it)."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:400] if lines else type(error).__name__
    if text.startswith(_BUSY):
        return LeafError(text.removeprefix(_BUSY), "busy")
    return LeafError(text, "dead" if _DEAD in text.lower() else "failed")
