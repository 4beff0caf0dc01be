"""trtspec's own loop over two engines in this process: no server, no tensors on the wire."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from torch import Tensor

from benchmarks.speculation.pair import Pair, Question
from benchmarks.speculation.samples import Passes, Sample, Stopwatch
from trtspec.speculation import Fixed, Generation, LeafError, Limits, Models, NgramDraft
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import RuntimeOptions, read_engine_config
from trtspec.torch_runtime.engine import Engine
from trtspec.torch_runtime.loading import cpu_threads, load_model
from trtspec.torch_runtime.request import GenerationRequest, Update

__all__ = ["InProcess"]


class TimedModel:
    """A model whose passes are timed."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.kv_shape, self.vocab_size = model.kv_shape, model.vocab_size
        self.seconds, self.passes = 0.0, 0

    def forward(self, batch: PackedBatch) -> Tensor:
        """The model's own pass."""
        started = time.perf_counter()
        logits: Tensor = self._model.forward(batch)
        self.seconds += time.perf_counter() - started
        self.passes += 1
        return logits


class EngineLeaf:
    """An engine as the loop's draft or target."""

    def __init__(self, engine: Engine, end_ids: tuple[int, ...], threshold: float = 0.0) -> None:
        self._engine, self._threshold = engine, threshold
        self._end = {"end_id": end_ids[0], "stop_words": tuple((token,) for token in end_ids[1:])} if end_ids else {}

    async def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """A draft."""
        return [token for update in self._updates(ids, count) for token in update.tokens]

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
        """The accepted part of a draft and one token more."""
        return [token for update in self._updates(ids, len(draft) + 1, tuple(draft)) for token in update.tokens]

    async def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
        """Plain generation."""
        for update in self._updates(ids, limit):
            yield update.tokens

    def _updates(self, ids: Sequence[int], limit: int, draft: tuple[int, ...] = ()) -> Any:
        arrived: queue.SimpleQueue[Update] = queue.SimpleQueue()
        request = GenerationRequest(tuple(ids), limit, draft, confidence_threshold=self._threshold, **self._end)  # type: ignore[arg-type]
        self._engine.submit(request, arrived.put)
        while True:
            update = arrived.get()
            if update.error is not None:
                raise LeafError(update.error.message)
            yield update
            if update.final:
                return


class InProcess:
    """Both arms of the pair in this process."""

    def __init__(self, pair: Pair, options: RuntimeOptions, draft_length: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(pair.target / "tokenizer.json"))
        self._pair, self._draft_length = pair, draft_length
        self._timed = {role: TimedModel(load_model(pair.engine(role), options)) for role in ("target", "draft")}
        self._engines = {
            role: Engine(
                model,
                read_engine_config(pair.engine(role)),
                options.limits,
                threads=cpu_threads(options.threads, pair.engine(role)),
            )
            for role, model in self._timed.items()
        }

    def close(self) -> None:
        """Stop the engines."""
        for engine in self._engines.values():
            engine.close()

    def ask(self, question: Question, max_tokens: int, *, speculative: bool) -> Sample:
        """One answer, by rounds or by the target alone."""
        return asyncio.run(self._ask(question, max_tokens, speculative=speculative))

    async def _ask(self, question: Question, max_tokens: int, *, speculative: bool) -> Sample:
        given = self._pair.spec_file.spec.draft
        target = EngineLeaf(self._engines["target"], self._pair.end_ids)
        draft = EngineLeaf(self._engines["draft"], self._pair.end_ids, given.confidence_threshold)
        lookup = NgramDraft(given.lookup_match) if speculative and given.looks_up else None
        decode = lambda ids: self._tokenizer.decode(list(ids), skip_special_tokens=True)  # noqa: E731
        watch = Stopwatch()
        prompt = self._tokenizer.encode(question.text, add_special_tokens=False).ids
        generation = Generation(
            prompt,
            Limits(max_tokens, self._pair.end_ids, max_draft_length=8),
            Models(target, decode, draft if speculative else None, lookup, given.lookup_length if lookup else None),
            Fixed(self._draft_length if speculative else 0),
        )
        text, before = "", Passes()
        async with aclosing(generation.chunks()) as chunks:
            async for chunk in chunks:
                text += chunk.text
                if watch.first is None:
                    before, rounds = self._passes(), chunk.counters.rounds
                watch.saw(chunk.num_output_tokens)
        counters = chunk.counters
        return Sample(
            "in process" if speculative else "in process, baseline",
            question.id,
            question.category,
            **watch.times(chunk.num_output_tokens),
            text=text,
            rounds=counters.rounds - rounds if speculative else None,
            drafted=counters.drafted if speculative else None,
            accepted=counters.accepted if speculative else None,
            passes=self._passes().minus(before),
        )

    def _passes(self) -> Passes:
        target, draft = self._timed["target"], self._timed["draft"]
        return replace(Passes(), target_seconds=target.seconds, target=target.passes,
                       draft_seconds=draft.seconds, draft=draft.passes)  # fmt: skip
