"""Answers of the target, with its probabilities, for a list of prompts.

One pass gives both the tokens and the soft labels: while the target answers, its ``k`` best
log-probabilities are kept at every position, so no second scoring pass is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trtspec.training.decoder import Decoder, KeyValueCache

__all__ = ["Answer", "GenerationSettings", "Job", "Part", "Row", "best_tokens", "generate"]

PREFILL_ROWS = 16
Part = Literal["train", "stop", "measure"]


@dataclass(frozen=True)
class Job:
    """One prompt to answer.

    ``part`` tells what its answer is for: to train on, to stop the training by, or to measure with.
    The first ``sampled`` tokens of the answer are drawn at ``temperature`` from the ``k`` best
    tokens, the rest is greedy: the way to many different but typical greedy continuations.
    """

    index: int
    category: str
    prompt: tuple[int, ...]
    sampled: int = 0
    temperature: float = 1.0
    part: Part = "train"


@dataclass(frozen=True)
class GenerationSettings:
    """Limits of a generation: rows in the batch, tokens per answer, soft labels per token."""

    rows: int = 64
    max_new_tokens: int = 144
    top_k: int = 20
    end_ids: tuple[int, ...] = (2,)
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """A job's answer: token ids [T], and ids and log-probabilities [T, k] of the best tokens.

    Row t of the labels is the target's distribution for ``tokens[t]``, given the prompt and
    ``tokens[:t]``.
    """

    job: Job
    tokens: NDArray[np.int64]
    top_ids: NDArray[np.integer[Any]]
    top_logprobs: NDArray[np.floating[Any]]


@dataclass
class Row:
    """An answer in the making; ``last`` is the token to feed next, at ``position``."""

    job: Job
    rng: np.random.Generator
    position: int
    tokens: list[int] = field(default_factory=list)
    top_ids: list[NDArray[np.int64]] = field(default_factory=list)
    top_logprobs: list[NDArray[np.float32]] = field(default_factory=list)

    @staticmethod
    def of(job: Job, settings: GenerationSettings) -> Row:
        """A row before its first token."""
        return Row(job, np.random.default_rng((settings.seed, job.index)), len(job.prompt) - 1)

    def take(self, ids: NDArray[np.int64], logprobs: NDArray[np.float32]) -> None:
        """Choose the next token from the labels [k] and keep both."""
        chosen = 0
        if len(self.tokens) < self.job.sampled:
            noise = self.rng.gumbel(size=len(ids))
            chosen = int(np.argmax(logprobs / self.job.temperature + noise))
        self.tokens.append(int(ids[chosen]))
        self.top_ids.append(ids)
        self.top_logprobs.append(logprobs)

    def ended(self, settings: GenerationSettings) -> bool:
        """True behind an end id or the last token allowed."""
        return self.tokens[-1] in settings.end_ids or len(self.tokens) >= settings.max_new_tokens

    def answer(self) -> Answer:
        """What was taken."""
        return Answer(
            self.job,
            np.array(self.tokens),
            np.stack(self.top_ids),
            np.stack(self.top_logprobs),
        )


def best_tokens(logits: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Ids and log-probabilities [..., k] of the best tokens, the best first, from scores [..., vocabulary]."""
    scores = logits.float()
    best = scores.topk(min(count, scores.shape[-1]))
    logprobs = best.values - scores.logsumexp(-1, keepdim=True)
    return best.indices.cpu().numpy(), logprobs.cpu().numpy()


@torch.inference_mode()
def generate(decoder: Decoder, jobs: Iterable[Job], settings: GenerationSettings) -> Iterator[Answer]:
    """The answers, in the order in which they end.

    A job's answer does not depend on the jobs beside it (up to rounding), and its samples only
    on ``settings.seed`` and its index.
    """
    waiting = deque(jobs)
    if not waiting:
        return
    longest = max(len(job.prompt) for job in waiting)
    cache = decoder.new_cache(settings.rows, longest + settings.max_new_tokens)
    batch = _Batch(decoder, settings, cache, _common_prefix([job.prompt for job in waiting]))
    while waiting or batch.busy:
        yield from batch.refill(waiting)
        yield from batch.step()


def _common_prefix(prompts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What all prompts begin with, short of a whole prompt."""
    low, high = min(prompts), max(prompts)
    limit = min(map(len, prompts)) - 1
    same = (i for i in range(limit) if low[i] != high[i])
    return low[: next(same, limit)]


class _Batch:
    """The rows in progress; a row's place in the list is its place in the cache.

    The prompts' common prefix (the chat format's system message) is computed once, for all rows.
    """

    def __init__(
        self, decoder: Decoder, settings: GenerationSettings, cache: KeyValueCache, prefix: tuple[int, ...]
    ) -> None:
        self.decoder = decoder
        self.settings = settings
        self.cache = cache
        self.start = len(prefix)
        self.rows: list[Row | None] = [None] * settings.rows
        if prefix:
            decoder.forward(torch.tensor([prefix]), torch.arange(self.start)[None], cache, torch.tensor([0]))
            for cached in (cache.keys, cache.values):
                cached[:, 1:, :, : self.start] = cached[:, :1, :, : self.start]

    @property
    def busy(self) -> int:
        return sum(row is not None for row in self.rows)

    def refill(self, waiting: deque[Job]) -> Iterator[Answer]:
        """Start waiting jobs in free rows, once a prefill's worth of rows is free."""
        free = [place for place, row in enumerate(self.rows) if row is None]
        if not waiting or (len(free) < min(PREFILL_ROWS, len(waiting), len(self.rows))):
            return
        while free and waiting:
            count = min(PREFILL_ROWS, len(free), len(waiting))
            places, free = free[:count], free[count:]
            yield from self._prefill(places, [waiting.popleft() for _ in places])

    def _prefill(self, places: list[int], jobs: list[Job]) -> Iterator[Answer]:
        rests = [job.prompt[self.start :] for job in jobs]
        lengths = torch.tensor([len(rest) for rest in rests])
        width = int(lengths.max())
        tokens = torch.tensor([rest + (0,) * (width - len(rest)) for rest in rests])
        positions = (self.start + torch.arange(width)).expand(len(jobs), width)
        hidden = self.decoder.forward(tokens, positions, self.cache, torch.tensor(places))
        for place, job in zip(places, jobs, strict=True):
            self.rows[place] = Row.of(job, self.settings)
        yield from self._take(places, hidden[torch.arange(len(jobs)), lengths - 1])

    def step(self) -> Iterator[Answer]:
        """One token for every row; free rows go along idle while most rows are in use."""
        if not self.busy:
            return
        if self.busy < 0.7 * len(self.rows):
            self._close_up()
        places = list(range(self._end))
        rows = [self.rows[place] for place in places]
        tokens = torch.tensor([[row.tokens[-1] if row else 0] for row in rows])
        positions = torch.tensor([[row.position if row else self.start] for row in rows])
        hidden = self.decoder.forward(tokens, positions, self.cache, torch.tensor(places))
        yield from self._take(places, hidden[:, -1])

    @property
    def _end(self) -> int:
        """Behind the last row in use."""
        return max(place for place, row in enumerate(self.rows) if row is not None) + 1

    def _close_up(self) -> None:
        """Move the last rows into free places before them: the rows in use are then a view of the cache, no copy."""
        while (end := self._end) > self.busy:
            free = self.rows.index(None)
            for cached in (self.cache.keys, self.cache.values):
                cached[:, free] = cached[:, end - 1]
            self.rows[free], self.rows[end - 1] = self.rows[end - 1], None

    def _take(self, places: list[int], hidden: Tensor) -> Iterator[Answer]:
        ids, logprobs = best_tokens(self.decoder.logits(hidden), self.settings.top_k)
        for at, place in enumerate(places):
            row = self.rows[place]
            if row is None:
                continue
            row.take(ids[at], logprobs[at])
            row.position += 1
            if row.ended(self.settings):
                self.rows[place] = None
                yield row.answer()
