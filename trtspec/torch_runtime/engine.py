"""The engine: one worker thread that packs the rows of all running requests into forward passes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

import torch
from torch import Tensor

from trtspec.errors import RequestFailed
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import Admission, EngineConfig
from trtspec.torch_runtime.errors import EngineUnsupported, RequestRefused
from trtspec.torch_runtime.kv import KVShape, padded
from trtspec.torch_runtime.memory import KvMemory, MemoryUse
from trtspec.torch_runtime.pool import KVPool
from trtspec.torch_runtime.request import GenerationRequest, Listener, Stats, Update
from trtspec.torch_runtime.sequence import Running
from trtspec.torch_runtime.waiting import Waiting, WaitingLine, has_gone

__all__ = ["Counters", "Engine", "Load", "Model"]

# prompt tokens in a pass on a CPU: with answers waiting for it, and with nobody waiting
_CPU_CHUNK, _CPU_ALONE = 64, 256
_MOST_KEPT = 16384  # tokens of keys and values that there is always room for unless another limit is given
_SHORT = 16  # rows up to which a request is no prompt: a token, a draft, what a draft model has to catch up


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
class Load:
    """What an engine has to do now: requests, tokens of those that wait, and memory."""

    running: int
    waiting: int
    waiting_tokens: int
    memory: MemoryUse


def _never() -> bool:
    return False


class Engine:
    """Serves requests from any thread; listeners are called on the worker thread and must be quick."""

    def __init__(
        self, model: Model, config: EngineConfig, limits: Admission | None = None, *, threads: int | None = None
    ) -> None:
        """`threads`: CPU threads of a pass; None: as many as the calling thread uses."""
        self.config = config
        self._threads = threads or torch.get_num_threads()
        self._model = model
        self._limits = limits or Admission()
        self._memory = _memory(model.kv_shape, config, self._limits)
        self._waiting = WaitingLine(self._limits)
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
    def load(self) -> Load:
        """Requests in the engine, and the memory that they take."""
        with self._wake:
            return Load(len(self._running), len(self._waiting), self._waiting.tokens, self._memory.use)

    @property
    def vocab_size(self) -> int:
        """Number of ids that the model knows."""
        return self._model.vocab_size

    def submit(
        self,
        request: GenerationRequest,
        listener: Listener,
        cancelled: Callable[[], bool] = _never,
        *,
        continues: bool = False,
    ) -> None:
        """Queue a request; RequestRefused at once when it can never be served, or with code "busy" beyond the limits.

        `cancelled` is asked between passes; once it is true the request ends with an error of code "cancelled". One
        that `continues` an answer is never too many: the answer was let in when it began.
        """
        check_request(request, self.config, self._model.vocab_size)
        with self._wake:
            if self._closing:
                raise RequestRefused("the engine is shutting down", code="unavailable")
            waiting = Waiting(request, listener, cancelled, continues)
            self._waiting.add(waiting, self._places(waiting))
            self._wake.notify()

    def close(self) -> None:
        """Stop the worker; requests that still run end with an error."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._worker.join()

    def _work(self) -> None:
        # A property of each thread, but the first use in a thread takes over what any thread has set last: that first.
        torch.get_num_threads()
        torch.set_num_threads(self._threads)
        with torch.inference_mode():
            while self._admit():
                self._drop_gone()
                self._step()
        self._abandon()

    def _admit(self) -> bool:
        """Wait for work and start what fits; False when the engine closes."""
        with self._wake:
            while not (self._closing or self._waiting or self._running):
                self._wake.wait()
            if self._closing:
                return False
            gone = self._waiting.drop_gone()
            while waiting := self._waiting.take(self._fits):
                self._start(waiting)
        for waiting in gone:
            _fail(waiting, _cancelled())
        return True

    def _fits(self, waiting: Waiting) -> bool:
        return len(self._running) < self.config.max_batch_size and self._memory.fits(waiting.tokens)

    def _places(self, last: Waiting) -> int:
        """How many of the line, `last` behind it, start with the next pass: batch and memory have room for them."""
        free, tokens = self.config.max_batch_size - len(self._running), 0
        for place, waiting in enumerate(islice(chain(self._waiting, (last,)), max(0, free))):
            tokens += padded(waiting.tokens)
            if not self._memory.fits(tokens):
                return place
        return free

    def _start(self, waiting: Waiting) -> None:
        try:
            kv = self._memory.lend(list(waiting.request.prompt), waiting.tokens)
        except Exception as error:  # noqa: BLE001 - no memory for one request: the others go on
            _fail(waiting, _failure(error))
            return
        self._running.append(Running(waiting.request, waiting.listener, waiting.cancelled, kv))
        self._count(requests=1, reused=kv.length)

    def _drop_gone(self) -> None:
        for running in [running for running in self._running if has_gone(running.cancelled)]:
            self._retire(running)
            running.fail(_cancelled())

    def _step(self) -> None:
        chosen = self._schedule()
        if not chosen:
            return
        parts = [(running.kv, rows) for running, rows, _ in chosen]
        wanted = [count for _, _, count in chosen]
        self._memory.count_pass()
        try:
            batch = PackedBatch.build(parts, wanted, self._model.kv_shape.device)
            logits = self._model.forward(batch)
            best = _best([running for running, _, count in chosen if count], logits)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises ends these requests, not the server
            self._fail_all([running for running, _, _ in chosen], error)
            return
        self._count(passes=1, rows=int(batch.tokens.shape[0]))
        for (running, _, count), part in zip(chosen, torch.split(logits, wanted), strict=True):
            if count:
                self._deliver(running, part, best[:count])
                best = best[count:]

    def _schedule(self) -> list[tuple[Running, list[int], int]]:
        """Who computes which rows in the next pass; whoever waited longest comes first."""
        budget, prompts = self.config.max_num_tokens, self._prompt_rows()
        chosen, skipped = [], []
        for running in self._running:
            long = running.pending > _SHORT
            rows, count = running.next_rows(min(budget, prompts) if long else budget)
            if rows:
                chosen.append((running, rows, count))
                budget -= len(rows)
                prompts -= len(rows) if long else 0
            else:
                skipped.append(running)
        self._running = [*skipped, *(running for running, _, _ in chosen)]
        return chosen

    def _prompt_rows(self) -> int:
        """Rows of prompts in the next pass: fewer when answers wait for it, and one judged block at least."""
        if self._limits.prompt_chunk is None and self._model.kv_shape.device.type != "cpu":
            return self.config.max_num_tokens
        waited_for = any(running.pending <= _SHORT for running in self._running)
        chunk = self._limits.prompt_chunk or (_CPU_CHUNK if waited_for else _CPU_ALONE)
        return max(chunk, max((running.judged for running in self._running), default=1))

    def _deliver(self, running: Running, logits: Tensor, best: list[int]) -> None:
        try:
            update = running.absorb(logits, best)
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
        with self._wake:
            self._running.remove(running)
            self._memory.give_back(running.kv, running.tokens)

    def _fail_all(self, failed: list[Running], error: Exception) -> None:
        for running in failed:
            with self._wake:
                self._running.remove(running)
                self._memory.discard(running.kv)
            running.fail(_failure(error))

    def _abandon(self) -> None:
        stopping = RequestFailed("the engine is shutting down", code="unavailable")
        with self._wake:
            running, self._running = self._running, []
            waiting = self._waiting.clear()
        for one in running:
            one.fail(stopping)
        for another in waiting:
            _fail(another, stopping)

    def _count(self, **more: int) -> None:
        totals = {name: getattr(self._counters, name) + amount for name, amount in more.items()}
        self._counters = replace(self._counters, **totals)


def _failure(error: Exception) -> RequestFailed:
    return RequestFailed(f"the forward pass failed: {error}", code="engine_failed")


def _best(judged: list[Running], logits: Tensor) -> list[int]:
    """The likeliest token of each row, in one operation for all requests; nothing where none of them asks for it."""
    if not any(running.takes_the_best for running in judged):
        return []
    best: list[int] = logits.argmax(-1).tolist()
    return best


def _cancelled() -> RequestFailed:
    return RequestFailed("cancelled by the client", code="cancelled")


def _fail(waiting: Waiting, error: RequestFailed) -> None:
    """End a request that never started."""
    with contextlib.suppress(Exception):  # a listener that is gone needs no answer
        waiting.listener(Update((), Stats(len(waiting.request.prompt), 0), error=error))


def _memory(shape: KVShape, config: EngineConfig, limits: Admission) -> KvMemory:
    """EngineUnsupported when the limit is too small for one request of full length."""
    longest = padded(config.max_seq_len)
    tokens = limits.kv_tokens or max(config.max_batch_size * longest, _MOST_KEPT)
    if tokens < config.max_seq_len:
        raise EngineUnsupported(
            f"{tokens} tokens of keys and values are not enough for one request of max_seq_len {config.max_seq_len}",
            fix=f"set torch.kv_tokens to {longest} or more, or a smaller build.max_seq_len",
        )
    share = min(longest, tokens // config.max_batch_size)
    pool = KVPool.create(shape, 2 * config.max_batch_size, longest)
    return KvMemory(shape, max(tokens, longest), slack=config.max_draft_len + 2, share=share, pool=pool)


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
