"""The speed-up over draft length and concurrency as a plan shows it: cells, best draft lengths, break-even points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trtspec.planning.acceptance import Acceptance, walltime_improvement
from trtspec.planning.breakeven import (
    BreakEvenAcceptance,
    BreakEvenConcurrency,
    break_even_acceptance,
    break_even_concurrency,
)
from trtspec.planning.speedup import Performance, RoundTime, SpeedModel

__all__ = ["ADVICE", "Best", "Cell", "Forecast", "Grid", "default_concurrencies", "default_draft_lengths"]

# where more is accepted, longer drafts pay; the ranges are rules of thumb, so they are advice and no values
ADVICE = (
    "draft lengths: 6 to 8 for code, 3 to 4 for chat are rules of thumb of the field, not measurements; the reason is "
    "that the best length grows with the acceptance (arXiv 2211.17192, section 3.5). Measure your own traffic: "
    "trtspec loadtest --draft-length N"
)
_LENGTHS = (*range(1, 9), 10, 12, 16, 24, 32, 48, 64)


def default_concurrencies(max_batch_size: int) -> tuple[int, ...]:
    """Powers of two up to the batch size that the engines are built for, and that size."""
    powers = [1 << power for power in range(13) if 1 << power < max_batch_size]
    return (*powers, max_batch_size)


def default_draft_lengths(chosen: int, longest: int) -> tuple[int, ...]:
    """Usual draft lengths up to `longest`, with the spec's own and the longest one."""
    return tuple(sorted({length for length in _LENGTHS if length <= longest} | {chosen, longest}))


@dataclass(frozen=True)
class Grid:
    """What is asked: concurrencies and draft lengths to show, the spec's length, the longest one that is built in.

    `limit` is how many sequences fit at once (None: not planned).
    """

    concurrencies: tuple[int, ...]
    draft_lengths: tuple[int, ...]
    chosen: int
    longest: int
    limit: int | None = None

    def fits(self, concurrency: int) -> bool:
        """True when so many sequences fit at once, as far as that is known."""
        return self.limit is None or concurrency <= self.limit


@dataclass(frozen=True)
class Cell:
    """One draft length at one concurrency; without an acceptance only its costs and what it would need."""

    draft_length: int
    concurrency: int
    fits: bool
    cost_ratio: float
    round: RoundTime | None
    break_even: BreakEvenAcceptance | None
    tokens_per_round: float | None = None
    speedup: float | None = None
    decode_speedup: float | None = None
    ideal_speedup: float | None = None
    performance: Performance | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it; null where an acceptance is missing."""
        return {
            "draft_length": self.draft_length,
            "concurrency": self.concurrency,
            "within_limits": self.fits,
            "speedup": self.speedup,
            "decode_speedup": self.decode_speedup,
            "ideal_speedup": self.ideal_speedup,
            "tokens_per_round": self.tokens_per_round,
            "cost_ratio": self.cost_ratio,
            "round": None if self.round is None else self.round.to_json(),
            "break_even": None if self.break_even is None else self.break_even.to_json(),
            "performance": None if self.performance is None else self.performance.to_json(),
        }


@dataclass(frozen=True)
class Best:
    """The draft length with the largest speed-up at a concurrency."""

    concurrency: int
    draft_length: int
    speedup: float

    def to_json(self) -> dict[str, Any]:
        """All three."""
        return {"concurrency": self.concurrency, "draft_length": self.draft_length, "speedup": self.speedup}


@dataclass(frozen=True)
class Forecast:
    """The model's answers on a grid; `acceptance` is None with a `reason`."""

    model: SpeedModel
    grid: Grid
    acceptance: Acceptance | None
    reason: str | None
    caveat: str | None = None

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every draft length at every concurrency."""
        grid = self.grid
        return tuple(self.cell(c, length) for length in grid.draft_lengths for c in grid.concurrencies)

    @cached_property
    def baselines(self) -> tuple[Performance, ...]:
        """The target alone at every concurrency."""
        return tuple(self.model.baseline(concurrency) for concurrency in self.grid.concurrencies)

    @cached_property
    def best(self) -> tuple[Best, ...]:
        """At every concurrency, over all draft lengths that the engine has room for; empty without an acceptance."""
        if self.acceptance is None:
            return ()
        found = []
        for concurrency in self.grid.concurrencies:
            length, speedup = self.model.best_draft_length(self.acceptance, concurrency, self.grid.longest)
            found.append(Best(concurrency, length, speedup))
        return tuple(found)

    @cached_property
    def break_even(self) -> dict[int, BreakEvenConcurrency]:
        """By draft length; empty without an acceptance."""
        if self.acceptance is None:
            return {}
        lengths = dict.fromkeys((*self.grid.draft_lengths, self.grid.chosen))
        return {n: break_even_concurrency(self.model, self.acceptance, n) for n in lengths if n > 0}

    def cell(self, concurrency: int, draft_length: int) -> Cell:
        """One cell of the grid."""
        model, fits = self.model, self.grid.fits(concurrency)
        ratio = model.cost_ratio(concurrency)
        if draft_length == 0:
            alone = model.baseline(concurrency)
            return Cell(0, concurrency, fits, ratio, None, None, 1.0, 1.0, 1.0, 1.0, alone)
        costs = model.round_time(concurrency, draft_length)
        needed = break_even_acceptance(model, concurrency, draft_length)
        if self.acceptance is None:
            return Cell(draft_length, concurrency, fits, ratio, costs, needed)
        tokens = self.acceptance.tokens_per_round(draft_length)
        baseline, result = model.baseline(concurrency), model.speculative(concurrency, draft_length, tokens)
        return Cell(
            draft_length,
            concurrency,
            fits,
            ratio,
            costs,
            needed,
            tokens,
            baseline.request_latency / result.request_latency,
            baseline.time_per_output_token / result.time_per_output_token,
            walltime_improvement(self.acceptance.alpha, draft_length, ratio),
            result,
        )

    def speculative(self) -> tuple[Performance, ...]:
        """With the spec's draft length at every concurrency; empty without an acceptance."""
        if self.acceptance is None:
            return ()
        chosen = self.grid.chosen
        tokens = self.acceptance.tokens_per_round(chosen)
        return tuple(self.model.speculative(c, chosen, tokens) for c in self.grid.concurrencies)

    def to_json(self) -> dict[str, Any]:
        """The speed-up section of a plan."""
        traffic = self.model.traffic
        return {
            "acceptance": None if self.acceptance is None else self.acceptance.to_json(),
            "reason": self.reason,
            "draft_length": self.grid.chosen,
            "traffic": {"prompt_tokens": traffic.prompt_tokens, "output_tokens": traffic.output_tokens},
            "gpu": self.model.machine.gpu.name,
            "assumptions": self.model.machine.assumptions.to_json(),
            "baseline": [self._baseline_json(item) for item in self.baselines],
            "grid": [cell.to_json() for cell in self.cells],
            "best": [item.to_json() for item in self.best],
            "break_even_concurrency": {str(n): found.to_json() for n, found in self.break_even.items()},
            "advice": ADVICE,
            "caveat": self.caveat,
            "validated": False,
        }

    def _baseline_json(self, performance: Performance) -> dict[str, Any]:
        concurrency = performance.concurrency
        return {
            "concurrency": concurrency,
            "within_limits": self.grid.fits(concurrency),
            **performance.to_json(),
            "step": self.model.baseline_pass(concurrency).to_json(),
            "draft_step": None if self.model.draft is None else self.model.draft_pass(concurrency).to_json(),
        }
