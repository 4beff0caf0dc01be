"""Expected speed-up over draft length and concurrency: step costs from the roofline, acceptance kept apart from them.

A closed loop of `c` requests is modelled, each of `prompt_tokens` and `output_tokens`, that share every pass:

    baseline     latency = c × prefill + (output − 1) × step
    speculative  latency = c × (both prefills) + (γ − 1) × draft step + calls + (output / E − 1) × round
    round        = γ × draft step + verify of γ + 1 tokens + 2 calls of the frontend (1 where no second model drafts)

E are the tokens of a round (see `acceptance`). The other c − 1 prompts are read between one's own tokens. Neither side
is faster than the frontend's process: c × 2 calls a round, c tokens a step. The speed-up is the ratio of the latencies,
which is also that of the tokens per second; the *decode* speed-up is that of the time per output token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from trtspec.planning.acceptance import Acceptance, walltime_improvement
from trtspec.planning.roofline import NO_PASS, Machine, Pass, PassTime, pass_time, prefill_time
from trtspec.planning.shapes import ModelShape

__all__ = ["Performance", "RoundTime", "SpeedModel", "Traffic"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Traffic:
    """A typical request, and how many tokens one pass takes at most."""

    prompt_tokens: int
    output_tokens: int
    max_num_tokens: int

    @property
    def context(self) -> float:
        """Tokens behind a new token, on average over an answer."""
        return self.prompt_tokens + self.output_tokens / 2


@dataclass(frozen=True)
class RoundTime:
    """Seconds of one round by what they go to; `wait` is added where the frontend's process is the slowest part."""

    draft: float
    verify: float
    calls: float
    wait: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.draft + self.verify + self.calls + self.wait

    def to_json(self) -> dict[str, float]:
        """The terms in seconds."""
        return {
            "seconds": self.seconds,
            "draft": self.draft,
            "verify": self.verify,
            "calls": self.calls,
            "frontend_wait": self.wait,
        }


@dataclass(frozen=True)
class Performance:
    """What one of `concurrency` users sees, and what all get together. Seconds and tokens per second."""

    concurrency: int
    time_to_first_token: float
    time_per_output_token: float
    request_latency: float
    output_tokens: int

    @property
    def tokens_per_second(self) -> float:
        """Of all users together."""
        return self.concurrency * self.output_tokens / self.request_latency

    @property
    def tokens_per_second_per_user(self) -> float:
        """Of one user while the answer comes: 1 / time per output token."""
        return 1 / self.time_per_output_token

    @property
    def requests_per_second(self) -> float:
        """Of all users together."""
        return self.concurrency / self.request_latency

    def to_json(self) -> dict[str, float]:
        """The metrics under the names of a load test's summary."""
        return {
            "time_to_first_token": self.time_to_first_token,
            "time_per_output_token": self.time_per_output_token,
            "request_latency": self.request_latency,
            "tokens_per_second_per_user": self.tokens_per_second_per_user,
            "output_tokens_per_second": self.tokens_per_second,
            "requests_per_second": self.requests_per_second,
        }


@dataclass(frozen=True)
class SpeedModel:
    """Target and draft on a machine under a traffic; without a second model drafts cost nothing."""

    target: ModelShape
    draft: ModelShape | None
    machine: Machine
    traffic: Traffic
    _kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def baseline_pass(self, concurrency: int) -> PassTime:
        """One token for each request."""
        return self._once(("baseline", concurrency), lambda: self._pass(self.target, concurrency, 1))

    def draft_pass(self, concurrency: int) -> PassTime:
        """One drafted token for each request."""
        draft = self.draft
        if draft is None:
            return NO_PASS
        return self._once(("draft", concurrency), lambda: self._pass(draft, concurrency, 1))

    @property
    def _calls(self) -> int:
        """Inner calls of a round."""
        return 1 if self.draft is None else 2

    def verify_pass(self, concurrency: int, draft_length: int) -> PassTime:
        """The drafted tokens of each request and one more; what the cache lost is computed again."""
        tokens = draft_length + 1 + self.machine.assumptions.recomputed_tokens
        key = ("verify", concurrency, draft_length)
        return self._once(key, lambda: self._pass(self.target, concurrency, tokens))

    def cost_ratio(self, concurrency: int) -> float:
        """c of theorem 3.8: a draft step over a target step."""
        return self.draft_pass(concurrency).seconds / self.baseline_pass(concurrency).seconds

    def ideal_speedup(self, acceptance: Acceptance, concurrency: int, draft_length: int) -> float:
        """Theorem 3.8: no calls, no prompts, and verifying costs one target step."""
        return walltime_improvement(acceptance.alpha, draft_length, self.cost_ratio(concurrency))

    def round_time(self, concurrency: int, draft_length: int) -> RoundTime:
        """One round of every request."""
        assumed = self.machine.assumptions
        draft = draft_length * self.draft_pass(concurrency).seconds
        verify = self.verify_pass(concurrency, draft_length).seconds
        calls = self._calls * assumed.call_latency
        busy = concurrency * self._calls * assumed.call_cpu / assumed.frontend_processes
        return RoundTime(draft, verify, calls, max(0.0, busy - draft - verify - calls))

    def token_time(self, concurrency: int) -> float:
        """Seconds between two tokens of the baseline, other prompts apart."""
        assumed = self.machine.assumptions
        busy = concurrency * assumed.token_cpu / assumed.frontend_processes
        return max(self.baseline_pass(concurrency).seconds, busy)

    def baseline(self, concurrency: int) -> Performance:
        """The target alone."""
        prefill = self._prefill(self.target, self.traffic.prompt_tokens)
        first = self.machine.assumptions.call_latency + prefill
        others = (concurrency - 1) * prefill
        rest = self.traffic.output_tokens - 1
        latency = first + others + rest * self.token_time(concurrency)
        per_token = (latency - first) / rest if rest else self.token_time(concurrency)
        return Performance(concurrency, first, per_token, latency, self.traffic.output_tokens)

    def speculative(self, concurrency: int, draft_length: int, tokens_per_round: float) -> Performance:
        """Draft and target, `tokens_per_round` tokens a round; a draft length of 0 is the baseline."""
        if draft_length == 0:
            return self.baseline(concurrency)
        prompts, first = self._first_round(concurrency, draft_length)
        output = self.traffic.output_tokens
        rounds = max(output / tokens_per_round - 1, 0.0)
        round_time = self.round_time(concurrency, draft_length).seconds
        latency = first + (concurrency - 1) * prompts + rounds * round_time
        after_first = output - tokens_per_round
        per_token = (latency - first) / after_first if rounds > 0 else round_time / tokens_per_round
        return Performance(concurrency, first, per_token, latency, output)

    def fixed_latency(self, concurrency: int, draft_length: int) -> float:
        """The part of a speculative request's latency that no acceptance changes."""
        prompts, first = self._first_round(concurrency, draft_length)
        return first + (concurrency - 1) * prompts

    def speedup(self, concurrency: int, draft_length: int, tokens_per_round: float) -> float:
        """Latency of the baseline over that of speculation; below 1 it is a loss."""
        speculative = self.speculative(concurrency, draft_length, tokens_per_round)
        return self.baseline(concurrency).request_latency / speculative.request_latency

    def best_draft_length(self, acceptance: Acceptance, concurrency: int, longest: int) -> tuple[int, float]:
        """The draft length from 1 to `longest` with the largest speed-up, and that speed-up."""
        values = {
            length: self.speedup(concurrency, length, acceptance.tokens_per_round(length))
            for length in range(1, longest + 1)
        }
        best = max(values, key=lambda length: values[length])
        return best, values[best]

    def _first_round(self, concurrency: int, draft_length: int) -> tuple[float, float]:
        """Seconds of reading the prompt in both models, and until the first round's tokens are there."""
        prompt = self.traffic.prompt_tokens
        read = 0.0 if self.draft is None else self._prefill(self.draft, prompt)
        prompts = read + self._prefill(self.target, prompt + draft_length)
        drafting = (draft_length - 1) * self.draft_pass(concurrency).seconds
        return prompts, prompts + drafting + self._calls * self.machine.assumptions.call_latency

    def _pass(self, shape: ModelShape, concurrency: int, tokens: float) -> PassTime:
        return pass_time(shape, self.machine, Pass(concurrency, tokens, self.traffic.context))

    def _prefill(self, shape: ModelShape, tokens: int) -> float:
        key = ("prefill", id(shape), tokens)
        return self._once(key, lambda: prefill_time(shape, self.machine, tokens, self.traffic.max_num_tokens))

    def _once(self, key: Any, make: Callable[[], Result]) -> Result:
        if key not in self._kept:
            self._kept[key] = make()
        return cast("Result", self._kept[key])
