"""The engine: one worker thread that packs the rows of all running requests into forward passes."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from trtspec.errors import RequestFailed
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.cache import PrefixCache
from trtspec.torch_runtime.config import EngineConfig
from trtspec.torch_runtime.errors import RequestRefused
from trtspec.torch_runtime.kv import KVShape, SequenceKV
from trtspec.torch_runtime.request import GenerationRequest, Listener, Stats, Update
from trtspec.torch_runtime.sequence import Running

__all__ = ["Counters", "Engine", "Model"]

_CPU_CHUNK = 256  # prompt tokens of one sequence in a pass on a CPU: bounds how long the others stall


class Model(Protocol):
    """Computes packed passes."""

    kv_shape: KVShape
    vocab_size: int

    def forward(self, batch: PackedBatch) -> Tensor:
        """Logits [n, vocab] of the wanted rows."""
        ...


@dataclass(frozen=True)
class Counters:
    """Totals since the engine started: passes, rows computed in them, and prompt tokens taken from the cache."""

    passes: int = 0
    rows: int = 0
    reused: int = 0
    requests: int = 0


@dataclass(frozen=True)
class _Waiting:
    request: GenerationRequest
    listener: Listener
    cancelled: Callable[[], bool]


def _never() -> bool:
    return False


class Engine:
    """Serves requests from any thread; listeners are called on the worker thread and must be quick."""

    def __init__(self, model: Model, config: EngineConfig, *, cache_tokens: int = 16384) -> None:
        self.config = config
        self._model = model
        self._cache = PrefixCache(cache_tokens, slack=config.max_draft_len + 2)
        self._waiting: deque[_Waiting] = deque()
        self._running: list[Running] = []
        self._counters = Counters()
        self._wake = threading.Condition()
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="trtspec-engine", daemon=True)
        self._worker.start()

    @property
    def counters(self) -> Counters:
        """A snapshot of the totals."""
        return self._counters

    @property
    def vocab_size(self) -> int:
        """Number of ids that the model knows."""
        return self._model.vocab_size

    def submit(self, request: GenerationRequest, listener: Listener, cancelled: Callable[[], bool] = _never) -> None:
        """Queue a request; RequestRefused at once when it can never be served.

        `cancelled` is asked between passes; once it is true the request ends with an error of code "cancelled".
        """
        check_request(request, self.config, self._model.vocab_size)
        with self._wake:
            if self._closing:
                raise RequestRefused("the engine is shutting down", code="unavailable")
            self._waiting.append(_Waiting(request, listener, cancelled))
            self._wake.notify()

    def close(self) -> None:
        """Stop the worker; requests that still run end with an error."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._worker.join()

    def _work(self) -> None:
        torch.set_num_threads(torch.get_num_threads())  # the number of threads is a property of each thread
        with torch.inference_mode():
            while self._admit():
                self._drop_cancelled()
                self._step()
        self._abandon()

    def _admit(self) -> bool:
        """Wait for work and start what fits; False when the engine closes."""
        with self._wake:
            while not (self._closing or self._waiting or self._running):
                self._wake.wait()
            if self._closing:
                return False
            room = self.config.max_batch_size - len(self._running)
            admitted = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        for waiting in admitted:
            self._start(waiting)
        return True

    def _start(self, waiting: _Waiting) -> None:
        try:
            kv = self._keys_and_values(waiting)
        except Exception as error:  # noqa: BLE001 - no memory for one request: the others go on
            with contextlib.suppress(Exception):
                waiting.listener(Update((), Stats(len(waiting.request.prompt), 0), error=_failure(error)))
            return
        self._running.append(Running(waiting.request, waiting.listener, waiting.cancelled, kv))
        self._count(requests=1, reused=kv.length)

    def _keys_and_values(self, waiting: _Waiting) -> SequenceKV:
        if _is_cancelled(waiting.cancelled):
            return SequenceKV(self._model.kv_shape)
        prompt = list(waiting.request.prompt)
        return self._cache.take(prompt) or SequenceKV(self._model.kv_shape, len(prompt) + 64)

    def _drop_cancelled(self) -> None:
        for running in [running for running in self._running if _is_cancelled(running.cancelled)]:
            self._retire(running)
            running.fail(RequestFailed("cancelled by the client", code="cancelled"))

    def _step(self) -> None:
        chosen = self._schedule()
        if not chosen:
            return
        parts = [(running.kv, rows) for running, rows, _ in chosen]
        wanted = [count for _, _, count in chosen]
        try:
            batch = PackedBatch.build(parts, wanted, self._model.kv_shape.device)
            logits = self._model.forward(batch)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises ends these requests, not the server
            self._fail_all([running for running, _, _ in chosen], error)
            return
        self._count(passes=1, rows=int(batch.tokens.shape[0]))
        for (running, _, count), part in zip(chosen, torch.split(logits, wanted), strict=True):
            if count:
                self._deliver(running, part)

    def _schedule(self) -> list[tuple[Running, list[int], int]]:
        """Who computes which rows in the next pass; whoever waited longest comes first."""
        budget = self.config.max_num_tokens
        chunk = _CPU_CHUNK if self._model.kv_shape.device.type == "cpu" else budget
        chosen, skipped = [], []
        for running in self._running:
            rows, count = running.next_rows(min(budget, chunk))
            if rows:
                chosen.append((running, rows, count))
                budget -= len(rows)
            else:
                skipped.append(running)
        self._running = [*skipped, *(running for running, _, _ in chosen)]
        return chosen

    def _deliver(self, running: Running, logits: Tensor) -> None:
        try:
            update = running.absorb(logits)
        except Exception as error:  # noqa: BLE001 - what one request asks for must not end the worker
            self._fail_all([running], error)
            return
        if update.final:
            self._retire(running)
        try:
            running.listener(update)
        except Exception:  # noqa: BLE001 - a listener that is gone ends its request, not the server
            if not update.final:
                self._retire(running)

    def _retire(self, running: Running) -> None:
        self._running.remove(running)
        self._cache.put(running.tokens, running.kv)

    def _fail_all(self, failed: list[Running], error: Exception) -> None:
        for running in failed:
            self._running.remove(running)
            running.fail(_failure(error))

    def _abandon(self) -> None:
        stopping = RequestFailed("the engine is shutting down", code="unavailable")
        kv = SequenceKV(self._model.kv_shape)
        left = [Running(item.request, item.listener, item.cancelled, kv) for item in self._waiting]
        for running in [*self._running, *left]:
            running.fail(stopping)
        self._running, self._waiting = [], deque()

    def _count(self, **more: int) -> None:
        totals = {name: getattr(self._counters, name) + amount for name, amount in more.items()}
        self._counters = replace(self._counters, **totals)


def _failure(error: Exception) -> RequestFailed:
    return RequestFailed(f"the forward pass failed: {error}", code="engine_failed")


def _is_cancelled(ask: Callable[[], bool]) -> bool:
    """What `ask` says; a client that cannot be asked any more is gone."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - see above
        return True


def check_request(request: GenerationRequest, config: EngineConfig, vocab_size: int) -> None:
    """RequestRefused when the engine can never serve `request`."""
    prompt, draft = len(request.prompt), len(request.draft)
    if prompt == 0:
        raise RequestRefused("input_ids is empty")
    if request.max_new_tokens < 1:
        raise RequestRefused(f"request_output_len is {request.max_new_tokens}; at least 1 is needed")
    if draft > config.max_draft_len:
        raise RequestRefused(f"{draft} draft tokens, but this engine was built for at most {config.max_draft_len}")
    if draft + 1 > config.max_num_tokens:
        raise RequestRefused(f"{draft} draft tokens do not fit into max_num_tokens {config.max_num_tokens}")
    needed = prompt + (draft or request.max_new_tokens)
    if needed > config.max_seq_len:
        raise RequestRefused(
            f"prompt of {prompt} plus {needed - prompt} tokens is more than max_seq_len {config.max_seq_len}",
            code="prompt_too_long",
        )
    if unknown := [token for token in (*request.prompt, *draft_words(request)) if not 0 <= token < vocab_size]:
        raise RequestRefused(f"token id {unknown[0]} is not in the vocabulary (0 to {vocab_size - 1})")


def draft_words(request: GenerationRequest) -> tuple[int, ...]:
    """Every id of a request beside its prompt."""
    return (*request.draft, *(token for word in request.bad_words for token in word))
