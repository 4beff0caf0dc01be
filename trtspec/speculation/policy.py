"""How many tokens to draft in the next round: pure functions of the running requests and of what happened so far.

A policy is a value. It answers for the next round, and `after_round` and `after_plain` give the policy that follows,
so that whole courses are simulated without a model. When it answers 0, the target goes on alone for `pause` tokens
and the policy is asked again. The draft's KV cache is behind by then; its next call carries the whole sequence, and it
catches up in one prefill of what it has missed.

Text and model are accepted quite differently, so each has a policy of its own that learns from its own rounds
(`BySource`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from .transcript import LOOKED_UP, Source

__all__ = ["Adaptive", "BySource", "DraftPolicy", "Fixed", "Schedule", "Wanted", "clipped", "fixed_length"]

# Tokens that the target makes alone before a policy that answered 0 is asked again.
_PAUSE = 32
# Adaptive: rounds over which acceptance is pooled, rounds of a probe, and tokens of the first and the longest rest.
_WINDOW = 8
_PROBE = 4
_REST = 64
_LONGEST_REST = 512


class DraftPolicy(Protocol):
    """Chooses the draft length of each round of one request."""

    def length(self, running: int) -> int:
        """Tokens to draft in the next round while `running` requests are in work; 0: none."""
        ...

    def pause(self) -> int | None:
        """After an answer of 0: tokens without a draft until the next question, None: for the rest of the request."""
        ...

    def after_round(self, drafted: int, accepted: int) -> DraftPolicy:
        """The policy after a round."""
        ...

    def after_plain(self, tokens: int) -> DraftPolicy:
        """The policy after `tokens` that the target made alone."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same length in every round."""

    tokens: int

    def length(self, running: int) -> int:
        """`tokens`, whatever else runs."""
        del running
        return self.tokens

    def pause(self) -> int | None:
        """None: a fixed 0 stays."""
        return None

    def after_round(self, drafted: int, accepted: int) -> Fixed:
        """Itself."""
        del drafted, accepted
        return self

    def after_plain(self, tokens: int) -> Fixed:
        """Itself."""
        del tokens
        return self


def fixed_length(length: int) -> DraftPolicy:
    """The policy that always wants `length` tokens."""
    return Fixed(length)


@dataclass(frozen=True)
class Schedule:
    """The length by running requests: that of the smallest bound that is not exceeded; beyond the last one none."""

    steps: tuple[tuple[int, int], ...]  # (running requests up to, draft length), bounds ascending

    @classmethod
    def of(cls, lengths: Mapping[int, int]) -> Schedule:
        """The schedule of {running requests up to: draft length}."""
        return cls(tuple(sorted(lengths.items())))

    def length(self, running: int) -> int:
        """The length of the first step with a bound of at least `running`."""
        return next((tokens for bound, tokens in self.steps if running <= bound), 0)

    def pause(self) -> int | None:
        """A few tokens: the load may fall at any time."""
        return _PAUSE

    def after_round(self, drafted: int, accepted: int) -> Schedule:
        """Itself."""
        del drafted, accepted
        return self

    def after_plain(self, tokens: int) -> Schedule:
        """Itself."""
        del tokens
        return self


@dataclass(frozen=True)
class Adaptive:
    """The length by the request's own acceptance.

    One token more after a round in which everything was accepted, one less after a round in which less than half was,
    within `shortest` and `longest`. When the pooled acceptance of the last rounds is below `off_below`, the request
    rests for some tokens and then probes with the shortest drafts; each probe that fails doubles the rest.
    """

    now: int
    shortest: int
    longest: int
    off_below: float
    recent: tuple[tuple[int, int], ...] = ()  # (drafted, accepted) of the last rounds
    probing: bool = False
    resting: int = 0  # tokens left
    rest: int = _REST  # tokens of the next rest

    def length(self, running: int) -> int:
        """The present length; 0 while it rests."""
        del running
        return 0 if self.resting else self.now

    def pause(self) -> int | None:
        """What is left of the rest."""
        return self.resting

    def after_round(self, drafted: int, accepted: int) -> Adaptive:
        """Longer, shorter, at rest, or past a probe."""
        if drafted == 0:
            return self
        recent = (*self.recent, (drafted, accepted))[-_WINDOW:]
        if len(recent) < (_PROBE if self.probing else _WINDOW):
            return replace(self, recent=recent, now=self._next_length(drafted, accepted))
        rate = sum(good for _, good in recent) / sum(made for made, _ in recent)
        if rate < self.off_below:
            longer = min(2 * self.rest, _LONGEST_REST)
            return replace(self, recent=(), resting=self.rest, rest=longer, probing=False, now=self.shortest)
        rest = _REST if self.probing else self.rest
        return replace(self, recent=recent, probing=False, rest=rest, now=self._next_length(drafted, accepted))

    def after_plain(self, tokens: int) -> Adaptive:
        """Closer to the end of the rest, and then on probation."""
        if not self.resting:
            return self
        left = max(0, self.resting - tokens)
        return replace(self, resting=left, probing=left == 0)

    def _next_length(self, drafted: int, accepted: int) -> int:
        step = 1 if accepted == drafted else -1 if 2 * accepted < drafted else 0
        # a draft cut short (at the token limit, or at an end token) says nothing about a longer one
        step = 0 if step > 0 and drafted < self.now else step
        return min(self.longest, max(self.shortest, self.now + step))


class Wanted(NamedTuple):
    """Tokens to draft in the next round by who drafts; 0: it is not asked."""

    text: int = 0
    model: int = 0


@dataclass(frozen=True)
class BySource:
    """The policy of each source of drafts, None for one that there is not.

    A source learns from the rounds that it drafted. For one that rests, tokens of the others are tokens without it.
    """

    text: DraftPolicy | None = None
    model: DraftPolicy | None = None

    def wanted(self, running: int) -> Wanted:
        """The length that each source's own policy wants."""
        text, model = (0 if policy is None else policy.length(running) for policy in (self.text, self.model))
        return Wanted(text, model)

    def pause(self) -> int | None:
        """When all want 0: tokens until one of them is to be asked again, None: never in this request."""
        pauses = [policy.pause() for policy in (self.text, self.model) if policy is not None]
        return min((pause for pause in pauses if pause is not None), default=None)

    def after_round(self, source: Source, drafted: int, accepted: int) -> BySource:
        """The policies after a round, which made one token more than was accepted; without a draft it was nobody's."""
        if drafted == 0:
            return self.after_plain(1)
        others = self.after_plain(accepted + 1)
        if source == LOOKED_UP:
            return replace(others, text=self.text and self.text.after_round(drafted, accepted))
        return replace(others, model=self.model and self.model.after_round(drafted, accepted))

    def after_plain(self, tokens: int) -> BySource:
        """The policies after `tokens` that the target made alone."""
        text, model = (policy and policy.after_plain(tokens) for policy in (self.text, self.model))
        return BySource(text, model)

    def without(self, source: Source) -> BySource:
        """The policies once `source` is not asked any more."""
        return replace(self, text=None) if source == LOOKED_UP else replace(self, model=None)


def clipped(wanted: int, *, remaining: int, engine_limit: int | None) -> int:
    """`wanted` draft tokens, cut to the engine's limit and to what still fits.

    A round gives one token more than it drafts, so `remaining` output tokens leave room for remaining - 1.
    """
    limits = [wanted, remaining - 1] + ([] if engine_limit is None else [engine_limit])
    return max(0, min(limits))
