"""The draft and verify loop: rounds until an end token, a stop word, the token limit or a cancellation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from .counters import Counters
from .detokenize import Decode
from .drafting import Drafting, DraftLimits
from .leaves import Cancelled, DraftLeaf, TargetLeaf
from .policy import BySource, DraftPolicy, Wanted
from .settle import cut_at_end, first_piece, new_tokens, settle
from .transcript import DRAFTED, LOOKED_UP, Source, Token, Transcript

__all__ = ["LENGTH", "STOP", "STOP_WORD", "Chunk", "Generation", "Limits", "Models", "Surroundings"]

STOP = "stop"
LENGTH = "length"
STOP_WORD = "stop_word"


@dataclass(frozen=True)
class Limits:
    """What ends a request, and what a draft may be."""

    max_tokens: int
    end_ids: tuple[int, ...] = ()  # the first one is put back where a runtime leaves the end token out
    stop_ids: frozenset[int] = frozenset()  # single tokens that are stop words
    stop_words: tuple[str, ...] = ()
    max_draft_length: int | None = None
    vocab_size: int | None = None
    fence: int = 0  # output tokens that no call of a leaf reaches across: what it is told changes there


@dataclass(frozen=True)
class Models:
    """The leaves of a request, the tokenizer's decode, and who drafts (nobody: plain generation).

    `lookup` is asked first and may find nothing; `lookup_length` are the tokens that it proposes, None: as many as the
    policy wants.
    """

    target: TargetLeaf
    decode: Decode
    draft: DraftLeaf | None = None
    lookup: DraftLeaf | None = None
    lookup_length: int | None = None


def _alone() -> int:
    return 1


def _nobody(drafted: int) -> None:
    del drafted


@dataclass(frozen=True)
class Surroundings:
    """What a request shares with others: how many of them run, and who is told of its steps."""

    running: Callable[[], int] = _alone
    on_step: Callable[[int], None] = _nobody  # the draft length after every round, 0 after anything else


@dataclass(frozen=True)
class Chunk:
    """What a round added to the output, with the running totals after it."""

    text: str
    tokens: tuple[Token, ...]
    num_output_tokens: int
    counters: Counters
    finish_reason: str = ""  # empty until the last chunk


class Generation:
    """One request. `chunks` runs it; text and counts are final as soon as they are in a chunk.

    Each source of drafts starts with `policy` and goes on with its own experience.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        limits: Limits,
        models: Models,
        policy: DraftPolicy,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._prompt_length = len(prompt)
        self._ids = list(prompt)
        self._limits = limits
        self._models = models
        self._policy = BySource(policy if models.lookup else None, policy if models.draft else None)
        self._around = surroundings or Surroundings()
        self._transcript = Transcript(models.decode, limits.stop_words)
        self._word_ids = limits.stop_ids - set(limits.end_ids)
        self._enders = (*limits.end_ids, *sorted(self._word_ids))
        draft_limits = DraftLimits(limits.max_draft_length, limits.vocab_size, self._enders)
        self._drafting = Drafting(draft_limits, models.draft, models.lookup, models.lookup_length)
        self._finish = ""
        self.counters = Counters()

    async def chunks(self, cancelled: Callable[[], bool] = lambda: False) -> AsyncGenerator[Chunk, None]:
        """A chunk per round that has something to show, and one last chunk with the finish reason.

        Raises Cancelled when `cancelled` says so (asked before every call of a leaf), LeafError from the target.
        """
        while not self._finish:
            drafted = self.counters.drafted
            if any(wanted := self._policy.wanted(self._around.running())):
                await self._round(wanted, cancelled)
                if chunk := self._take():
                    yield chunk
            else:
                async with aclosing(self._plain(cancelled)) as pieces:
                    async for chunk in pieces:
                        yield chunk
            self._around.on_step(self.counters.drafted - drafted)

    @property
    def _made(self) -> int:
        return len(self._ids) - self._prompt_length

    @property
    def _remaining(self) -> int:
        return self._limits.max_tokens - self._made

    @property
    def _room(self) -> int:
        """Tokens that one call of the target may make."""
        fence = self._limits.fence - self._made
        return min(self._remaining, fence) if fence > 0 else self._remaining

    async def _round(self, wanted: Wanted, cancelled: Callable[[], bool]) -> None:
        """A draft and its verification.

        Where the text holds no draft the target makes one token, and the text is looked at again: a stream of a few
        tokens costs more than it saves, as its inner call takes longer and a draft that is found meanwhile has to wait.
        """
        _check(cancelled)
        proposal = await self._drafting.propose(self._ids, wanted, self._room)
        if proposal.failure:
            self.counters = self.counters.with_fallback(proposal.failure)
        if proposal.asked_text and not proposal.looked_up:
            self.counters = self.counters.with_miss()
        if not self._drafting.asks_model:
            self._policy = self._policy.without(DRAFTED)
        if not self._drafting:
            return
        draft = proposal.tokens
        _check(cancelled)
        returned = await self._models.target.verify(self._ids, draft)
        new = new_tokens(self._ids, returned, draft, len(draft) + 1)
        outcome = settle(draft, new, self._enders)
        self.counters = self.counters.with_round(len(draft), outcome.accepted, looked_up=proposal.looked_up)
        source = LOOKED_UP if proposal.looked_up else DRAFTED
        self._policy = self._policy.after_round(source, len(draft), outcome.accepted)
        self._append(outcome.tokens, outcome.accepted, source, ended=outcome.ended)

    async def _plain(self, cancelled: Callable[[], bool]) -> AsyncGenerator[Chunk, None]:
        """The target alone, in one streaming call: to the end of the request, or as far as the policy pauses."""
        _check(cancelled)
        begin, limit = self._made, self._plain_limit()
        async with aclosing(self._models.target.stream(self._ids[:], limit)) as pieces:
            async for piece in pieces:
                _check(cancelled)
                new = first_piece(self._ids, piece) if self._made == begin else tuple(piece)
                tokens, ended = cut_at_end(new[: limit - (self._made - begin)], self._enders)
                self._append(tokens, ended=ended)
                if chunk := self._take():
                    yield chunk
                if self._finish:
                    return
        if self._made - begin == limit:
            self._policy = self._policy.after_plain(limit)
            return
        # a runtime that left the end token out, as in `settle`
        self._append(self._enders[:1], ended=True)
        yield self._last()

    def _plain_limit(self) -> int:
        pause = self._policy.pause()
        return self._room if pause is None else max(1, min(pause, self._room))

    def _append(self, tokens: Sequence[int], drafted: int = 0, source: Source = DRAFTED, *, ended: bool) -> None:
        self._ids += tokens
        word = ended and bool(tokens) and tokens[-1] in self._word_ids
        self._transcript.extend(tokens[:-1] if word else tokens, drafted, source)
        if self._transcript.stopped or word:
            self._finish = STOP_WORD
        elif ended:
            self._finish = STOP
        elif self._remaining <= 0:
            self._finish = LENGTH

    def _take(self) -> Chunk | None:
        if self._finish:
            return self._last()
        piece = self._transcript.take_if_text()
        if piece is None:
            return None
        return Chunk(piece.text, piece.tokens, self._transcript.count, self.counters)

    def _last(self) -> Chunk:
        self._transcript.close()
        if self._transcript.stopped:
            self._finish = STOP_WORD
        piece = self._transcript.take()
        return Chunk(piece.text, piece.tokens, self._transcript.count, self.counters, self._finish)


def _check(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("the client cancelled the request")
