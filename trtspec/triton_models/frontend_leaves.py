"""The leaf models as the loop sees them: one inner request for each draft, verify or plain generation."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.speculation import LeafError, pack_words
    from trtspec.triton_models.frontend_calls import Calls, Result
else:
    from frontend_calls import Calls, Result
    from speculation import LeafError, pack_words

__all__ = ["Context", "DraftModel", "Exchange", "TargetModel"]

Array = npt.NDArray[Any]
Words = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Context:
    """What stays the same in all inner requests of one client request to one model."""

    prompt_length: int
    end_ids: tuple[int, ...]
    stop_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    min_tokens: int = 0
    bad_words: Words = ()
    sampling: Mapping[str, Array] = field(default_factory=dict)
    min_tokens_name: str = "min_tokens"
    returns: tuple[str, ...] = ()  # switches that are on in every call
    reseed: str = ""  # the seed's input, where every call needs a seed of its own
    salt: int = 0  # tells the seeds of one model from those of the other

    def with_sampling(self, sampling: Mapping[str, Array]) -> Context:
        """The same context with other sampling inputs, and nothing extra returned."""
        return replace(self, sampling=sampling, returns=(), reseed="")

    def constant(self) -> dict[str, Any]:
        """The tensors of every inner request, made once; the answer is asked for without the prompt."""
        end, *others = [*self.end_ids, *self.stop_ids] or [-1]
        arrays: dict[str, Array] = {
            "end_id": _row([end]),
            "exclude_input_in_output": np.ones((1, 1), np.bool_),
            **{name: np.ones((1, 1), np.bool_) for name in self.returns},
            **self.sampling,
        }
        if others:
            arrays["stop_words_list"] = pack_words([[token] for token in others])[None]
        if self.pad_id is not None:
            arrays["pad_id"] = _row([self.pad_id])
        if self.bad_words:
            arrays["bad_words_list"] = pack_words(self.bad_words)[None]
        return {name: pb_utils.Tensor(name, array) for name, array in arrays.items()}

    def seed(self, made: int) -> dict[str, Any]:
        """The seed of the call after `made` tokens; the request's own for the first of the target.

        A runtime that starts its random numbers anew with each inner request would draw those of the first token again
        in every round, and the draft would draw its tokens with the numbers that decide about accepting them.
        """
        if not self.reseed or not (made or self.salt):
            return {}
        given = self.sampling.get(self.reseed)
        seed = _mixed(0 if given is None else int(given.reshape(-1)[0]), made, self.salt)
        return {self.reseed: pb_utils.Tensor(self.reseed, np.array([[seed]], np.uint64))}

    def before_min_tokens(self, made: int) -> dict[str, Any]:
        """What holds until min_tokens are made: runtimes keep back the end id alone, so the others are bad words."""
        if made >= self.min_tokens:
            return {}
        arrays = {self.min_tokens_name: _row([self.min_tokens - made])}
        if self.end_ids[1:]:
            arrays["bad_words_list"] = pack_words([*self.bad_words, *([token] for token in self.end_ids[1:])])[None]
        return {name: pb_utils.Tensor(name, array) for name, array in arrays.items()}


@dataclass
class Exchange:
    """What the two models of a request leave for each other and for the answer."""

    draft_logits: Array | None = None  # of the last draft: [1, n, vocab], or an opaque handle
    opaque: bool = False
    log_probs: list[float] = field(default_factory=list)  # of output token i
    draft_seconds: float = 0.0  # since the last round
    target_seconds: float = 0.0

    def take_logits(self, count: int) -> Array | None:
        """The logits of the first `count` draft tokens; a handle stays whole."""
        logits, self.draft_logits = self.draft_logits, None
        return logits if logits is None or self.opaque else np.ascontiguousarray(logits[:, :count])


class _Model:
    """Builds the inner requests of one client request to one model; the sequence is kept as one growing array."""

    def __init__(self, calls: Calls, model: str, context: Context, exchange: Exchange) -> None:
        self._calls, self._model, self._context, self._exchange = calls, model, context, exchange
        self._constant = context.constant()
        self._buffer = np.empty((1, 256), np.int32)
        self._filled = 0

    def tensors(self, ids: Sequence[int], limit: int) -> dict[str, Any]:
        """The inner request for `limit` tokens after `ids`, which only ever grow."""
        arrays = {
            "input_ids": self._sequence(ids),
            "input_lengths": _row([len(ids)]),
            "request_output_len": _row([limit]),
        }
        tensors = {name: pb_utils.Tensor(name, array) for name, array in arrays.items()} | self._constant
        made = len(ids) - self._context.prompt_length
        if self._context.reseed:
            tensors |= self._context.seed(made)
        if self._context.min_tokens:
            tensors |= self._context.before_min_tokens(made)
        return tensors

    def begun(self, ids: Sequence[int]) -> bool:
        """Whether the answer has tokens already."""
        return len(ids) > self._context.prompt_length

    def _sequence(self, ids: Sequence[int]) -> Array:
        if len(ids) > self._buffer.shape[1]:
            larger = np.empty((1, 2 * len(ids)), np.int32)
            larger[0, : self._filled] = self._buffer[0, : self._filled]
            self._buffer = larger
        self._buffer[0, self._filled : len(ids)] = ids[self._filled :]
        self._filled = len(ids)
        return self._buffer[:, : len(ids)]


class DraftModel(_Model):
    """`trtspec.speculation.DraftLeaf` on a Triton model; with `return_generation_logits` it leaves its logits."""

    def __init__(self, calls: Calls, model: str, context: Context, exchange: Exchange, timeout: float) -> None:
        super().__init__(calls, model, context, exchange)
        self._timeout = timeout

    async def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """`count` tokens after `ids`, in one inner request."""
        started = time.perf_counter()
        results = await self._calls.call(
            self._model, self.tensors(ids, count), timeout=self._timeout, continues=self.begun(ids)
        )
        new = [token for result in results for token in result.ids]
        if "return_generation_logits" in self._context.returns:
            self._keep_logits(results)
        self._exchange.draft_seconds += time.perf_counter() - started
        return new

    def _keep_logits(self, results: Sequence[Result]) -> None:
        parts = [result.extra["generation_logits"] for result in results if "generation_logits" in result.extra]
        if not parts:
            raise LeafError(f"{self._model} sent no generation_logits", "no_logits")
        # [1, 1, n, vocab] → [1, n, vocab]
        self._exchange.draft_logits = np.concatenate([part.reshape(part.shape[-3:]) for part in parts], 1)


class TargetModel(_Model):
    """`trtspec.speculation.TargetLeaf` on a Triton model."""

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
        """The accepted part of `draft` and one token more, in one inner request."""
        started = time.perf_counter()
        tensors = self.tensors(ids, len(draft) + 1)
        logits = self._exchange.take_logits(len(draft))  # none of a draft that was looked up
        if draft:
            tensors["draft_input_ids"] = pb_utils.Tensor("draft_input_ids", _row(draft))
            if logits is not None:
                tensors["draft_logits"] = pb_utils.Tensor("draft_logits", logits)
        results = await self._calls.call(self._model, tensors, continues=self.begun(ids))
        new = [token for result in results for token in result.ids]
        for result in results:
            self._keep_log_probs(result)
        self._exchange.target_seconds += time.perf_counter() - started
        return new

    async def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[list[int], None]:
        """Up to `limit` tokens after `ids`, as the leaf makes them, in one inner request."""
        tensors = self.tensors(ids, limit)
        tensors["streaming"] = pb_utils.Tensor("streaming", np.ones((1, 1), np.bool_))
        async with aclosing(self._calls.stream(self._model, tensors, continues=self.begun(ids))) as results:
            async for result in results:
                if result.ids:
                    self._keep_log_probs(result)
                    yield result.ids

    def _keep_log_probs(self, result: Result) -> None:
        found = result.extra.get("output_log_probs")
        if found is not None:
            values = found.reshape(-1).tolist()
            self._exchange.log_probs += values[max(0, len(values) - len(result.ids)) :]


def _mixed(seed: int, made: int, salt: int) -> int:
    """64 bits that differ in about half from those of any other call (the mixer of SplitMix64)."""
    mask = (1 << 64) - 1
    state = (seed + 0x9E3779B97F4A7C15 * (made + 1) + 0xD1B54A32D192ED03 * salt) & mask
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
    return state ^ state >> 31


def _row(values: Sequence[int]) -> Array:
    return np.array([values], np.int32)
