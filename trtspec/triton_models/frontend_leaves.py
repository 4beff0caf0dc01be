"""The leaf models, called inside Triton: one inner request for each draft, verify or plain generation."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

if TYPE_CHECKING:
    from trtspec.speculation import LeafError, pack_words
else:
    from speculation import LeafError, pack_words

__all__ = ["Context", "DraftModel", "Runtime", "TargetModel"]

Array = npt.NDArray[Any]
Tensors = dict[str, Array]

_OUTPUTS = ["output_ids", "sequence_length"]
# Threads wait for inner responses; they are made when needed, and one request uses one at a time.
_THREADS = 1024
# The backend lets go of a finished iterator within milliseconds; what is kept is a few kilobytes each.
_KEEP_SECONDS = 2.0
_END = object()


@dataclass(frozen=True)
class Context:
    """What stays the same in all inner requests of one client request."""

    prompt_length: int
    end_ids: tuple[int, ...]
    stop_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    min_tokens: int = 0
    bad_words: Sequence[Sequence[int]] = ()
    sampling: Mapping[str, Array] = field(default_factory=dict)

    def with_sampling(self, sampling: Mapping[str, Array]) -> Context:
        """The same context with other sampling inputs."""
        return replace(self, sampling=sampling)

    def tensors(self, ids: Sequence[int], limit: int) -> Tensors:
        """The inner request for `limit` tokens after `ids`; the answer is asked for without the prompt."""
        made = len(ids) - self.prompt_length
        end, *others = [*self.end_ids, *self.stop_ids] or [-1]
        tensors = {
            "input_ids": _row(ids),
            "input_lengths": _row([len(ids)]),
            "request_output_len": _row([limit]),
            "end_id": _row([end]),
            "streaming": np.zeros((1, 1), np.bool_),
            "exclude_input_in_output": np.ones((1, 1), np.bool_),
        }
        if others:
            tensors["stop_words_list"] = pack_words([[token] for token in others])[None]
        if self.pad_id is not None:
            tensors["pad_id"] = _row([self.pad_id])
        if self.bad_words:
            tensors["bad_words_list"] = pack_words(self.bad_words)[None]
        if self.min_tokens > made:
            tensors["min_tokens"] = _row([self.min_tokens - made])
        return {**tensors, **self.sampling}


class Runtime:
    """Inner requests, run in threads of its own so that the event loop never waits.

    `InferenceRequest.async_exec` would use the loop's default pool, which has cores + 4 threads and so limits how
    many clients are served at a time.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "inner")
        self._used = _Used()
        self._can_stop = True

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def call(self, model: str, tensors: Tensors) -> list[int]:
        """All new ids of one inner request; LeafError when it fails."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._collect, _request(model, tensors))

    async def stream(self, model: str, tensors: Tensors) -> AsyncGenerator[list[int], None]:
        """The ids of each response of one inner request; closing ends the inner request too."""
        call = _Stream(_request(model, tensors), self._used, asyncio.get_running_loop())
        self._pool.submit(call.pump)
        try:
            while (item := await call.queue.get()) is not _END:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            if call.close():
                self._pool.submit(self._stop, model, tensors, call.request_id)

    def _stop(self, model: str, tensors: Tensors, request_id: str) -> None:
        """Ask the leaf to end the request with this id, as NVIDIA's models do: same id, `stop` set."""
        if not self._can_stop:
            return
        needed = {name: tensors[name] for name in ("input_ids", "input_lengths", "request_output_len")}
        stop = _request(model, needed | {"stop": np.ones((1, 1), np.bool_)}, request_id)
        try:
            self._collect(stop)
        except LeafError as error:
            # the leaf then runs to its token limit; nothing else is lost
            self._can_stop = False
            pb_utils.Logger.log_warn(f"{model} cannot be stopped early: {error}")

    def _collect(self, request: Any) -> list[int]:
        try:
            return [token for response in self._used.responses(request) for token in _new_ids(response)]
        except LeafError:
            raise
        except Exception as error:  # noqa: BLE001 - Triton's own exception types differ between versions
            raise LeafError(_line(error)) from None


class _Used:
    """Keeps the response iterators of finished inner requests for a while.

    When an iterator ends, a thread of the Python backend drops its own reference to it, without the interpreter lock
    (seen in 24.10). Were that the last reference, the responses and their arrays would be freed there, and the
    process would crash sooner or later.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Any]] = deque()
        self._lock = threading.Lock()

    def responses(self, request: Any) -> Iterator[Any]:
        """The responses of `request`, which is sent now."""
        iterator = request.exec(decoupled=True)
        try:
            yield from iterator
        finally:
            self._keep(iterator)

    def _keep(self, iterator: Any) -> None:
        now = time.monotonic()
        with self._lock:
            self._kept.append((now, iterator))
            while self._kept[0][0] < now - _KEEP_SECONDS:
                self._kept.popleft()


class _Stream:
    """A decoupled inner request, pumped from its thread into a queue of the event loop."""

    def __init__(self, request: Any, used: _Used, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.request_id: str = request.request_id()
        self._request = request
        self._used = used
        self._loop = loop
        self._closed = threading.Event()
        self._done = threading.Event()

    def pump(self) -> None:
        try:
            for response in self._used.responses(self._request):
                # responses are read to the end even when nobody listens any more: the leaf must not be left hanging
                if not self._closed.is_set():
                    self._put(_new_ids(response))
        except Exception as error:  # noqa: BLE001 - handed to the coroutine that waits
            self._put(error if isinstance(error, LeafError) else LeafError(_line(error)))
        finally:
            self._done.set()
            self._put(_END)

    def close(self) -> bool:
        """Stop listening; True when the inner request is still running."""
        self._closed.set()
        return not self._done.is_set()

    def _put(self, item: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.queue.put_nowait, item)


class DraftModel:
    """`trtspec.speculation.DraftLeaf` on a Triton model."""

    def __init__(self, runtime: Runtime, model: str, context: Context) -> None:
        self._runtime, self._model, self._context = runtime, model, context

    async def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """`count` greedy tokens after `ids`, in one inner request."""
        return await self._runtime.call(self._model, self._context.tensors(ids, count))


class TargetModel:
    """`trtspec.speculation.TargetLeaf` on a Triton model."""

    def __init__(self, runtime: Runtime, model: str, context: Context) -> None:
        self._runtime, self._model, self._context = runtime, model, context

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
        """The accepted part of `draft` and one token more, in one inner request."""
        tensors = self._context.tensors(ids, len(draft) + 1)
        if draft:
            tensors["draft_input_ids"] = _row(draft)
        return await self._runtime.call(self._model, tensors)

    async def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[list[int], None]:
        """Up to `limit` tokens after `ids`, as the leaf makes them, in one inner request."""
        tensors = self._context.tensors(ids, limit) | {"streaming": np.ones((1, 1), np.bool_)}
        async with aclosing(self._runtime.stream(self._model, tensors)) as pieces:
            async for piece in pieces:
                if piece:
                    yield piece


def _row(values: Sequence[int]) -> Array:
    return np.array([values], np.int32)


def _request(model: str, tensors: Tensors, request_id: str = "") -> Any:
    return pb_utils.InferenceRequest(
        model_name=model,
        request_id=request_id or uuid.uuid4().hex,
        requested_output_names=_OUTPUTS,
        inputs=[pb_utils.Tensor(name, array) for name, array in tensors.items()],
    )


def _new_ids(response: Any) -> list[int]:
    """The ids of one response; an empty one (the final flag alone) has none."""
    if response.has_error():
        raise LeafError(_line(response.error().message()))
    arrays = {tensor.name(): tensor.as_numpy().reshape(-1) for tensor in response.output_tensors()}
    ids: list[int] = arrays["output_ids"].tolist() if "output_ids" in arrays else []
    length = int(arrays["sequence_length"][0]) if arrays.get("sequence_length", np.empty(0)).size else len(ids)
    return ids[:length] if length > 0 else ids


def _line(error: object) -> str:
    """The first line of an error: a Python backend puts a traceback below it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:400] if lines else type(error).__name__
