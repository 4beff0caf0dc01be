"""A load test's run as the planner sees it: what acceptance it found, what a round cost, and how far a plan was off.

Acceptance and step costs are kept apart. From the measured speed-up S of the time per output token and the measured
tokens a round E follows the cost of a round in target steps, E / S, and the cost ratio that theorem 3.8 would need for
it: c = (E / S − 1) / γ. It holds everything that a round costs beyond one target step: drafting, the longer verify,
calls. It needs no GPU and no roofline, and answers what a plan answers: other draft lengths, break-even acceptance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from trtspec.planning.acceptance import (
    Acceptance,
    bisect,
    expected_tokens,
    rate_from_alpha,
)
from trtspec.planning.speedup import Performance

__all__ = ["Level", "MeasuredRun", "level_comparison", "measured_run"]

# draft lengths that a measured cost ratio is asked for, and the longest that can be drafted
_LONGEST, _LONGEST_DRAFT = 16, 64
_CONCURRENCY = re.compile("[1-9][0-9]{0,5}")
_MOST = 1e9  # no ratio and no time of a run is larger, or smaller than its inverse


@dataclass(frozen=True)
class Level:
    """One concurrency of a run; seconds a token, speed-ups as the load test gives them, None where not measured."""

    concurrency: int
    speedup: float | None
    low: float | None
    high: float | None
    decode_speedup: float | None
    baseline_tpot: float | None
    speculative_tpot: float | None

    @property
    def loses(self) -> bool:
        """True when speculation was slower (the interval below 1, or the estimate where there is no interval)."""
        bound = self.high if self.high is not None else self.speedup
        return bound is not None and bound < 1


@dataclass(frozen=True)
class MeasuredRun:
    """What a run says; `acceptance` is None with `reason` where its server counted nothing.

    `prompt_tokens` and `output_tokens` are means over its requests, `name` and `runtime` those of its spec; None where
    only a summary is there.
    """

    path: Path
    acceptance: Acceptance | None
    reason: str | None
    levels: tuple[Level, ...]
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    verdict: str | None = None
    warnings: tuple[str, ...] = ()
    name: str | None = None
    runtime: str | None = None

    @property
    def loses_at(self) -> tuple[int, ...]:
        """Concurrencies at which speculation was slower."""
        return tuple(level.concurrency for level in self.levels if level.loses)


def measured_run(
    path: Path, summary: Mapping[str, Any], prompts: int | None = None, outputs: int | None = None
) -> MeasuredRun:
    """The run whose summary.json says `summary`; `prompts` and `outputs` are mean tokens of its requests."""
    acceptance, reason = _acceptance(path, summary)
    comparison = _object(summary.get("comparison"))
    synthetic = summary.get("valid_for_acceptance") is False
    return MeasuredRun(
        path=path,
        acceptance=acceptance,
        reason=reason,
        levels=_levels(summary),
        prompt_tokens=prompts,
        output_tokens=outputs,
        verdict=verdict if isinstance(verdict := comparison.get("verdict"), str) else None,
        warnings=("its prompts are synthetic: this acceptance is not that of real traffic",) if synthetic else (),
    )


def _acceptance(path: Path, summary: Mapping[str, Any]) -> tuple[Acceptance | None, str | None]:
    found = _object(summary.get("acceptance"))
    rate, histogram = _number(found.get("acceptance_rate")), found.get("acceptance_histogram")
    if rate is None:
        return None, str(found.get("reason") or "the run has no acceptance rate")
    if not isinstance(histogram, list) or not 1 < len(histogram) <= _LONGEST_DRAFT + 1:
        return None, "the run has no acceptance histogram, so its draft length is not known"
    positions = _falling_shares(found.get("per_position") or [])
    if positions is None or not 0 <= rate <= 1:
        return None, "the run's acceptance is not made of shares from 0 to 1 that fall from position to position"
    return Acceptance(rate, len(histogram) - 1, "measured", positions, str(path)), None


def _falling_shares(values: Any) -> tuple[float, ...] | None:
    """Shares of rounds by position, none larger than the one before it; None when `values` are not that."""
    found = tuple(map(_number, values)) if isinstance(values, list) else (None,)
    shares = tuple(share for share in found if share is not None)
    falling = all(1 >= before >= after >= 0 for before, after in pairwise((1.0, *shares)))
    return shares if falling and len(shares) == len(found) else None


def _levels(summary: Mapping[str, Any]) -> tuple[Level, ...]:
    compared = _object(_object(summary.get("comparison")).get("by_concurrency"))
    arms = _object(summary.get("arms"))
    numbers = sorted(int(key) for key in compared if _CONCURRENCY.fullmatch(str(key)))
    return tuple(_level(number, _object(compared[str(number)]), arms) for number in numbers)


def _level(concurrency: int, compared: Mapping[str, Any], arms: Mapping[str, Any]) -> Level:
    speedups = _object(compared.get("speedup"))
    headline = _object(speedups.get("latency_per_token"))
    return Level(
        concurrency,
        _positive(headline.get("estimate")),
        _number(headline.get("low")),
        _number(headline.get("high")),
        _positive(_object(speedups.get("time_per_output_token")).get("estimate")),
        _tpot(arms, "baseline", concurrency),
        _tpot(arms, "speculative", concurrency),
    )


def _tpot(arms: Mapping[str, Any], arm: str, concurrency: int) -> float | None:
    levels = _object(_object(arms.get(arm)).get("by_concurrency"))
    return _positive(_object(_object(levels.get(str(concurrency))).get("time_per_output_token")).get("mean"))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    """A number as runs hold them; None for anything else, infinity and what no clock measures included."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST
    return float(value) if known else None


def _positive(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number > 1 / _MOST else None


def level_comparison(
    level: Level, run: MeasuredRun, predicted: tuple[Performance, Performance] | None
) -> dict[str, Any]:
    """One concurrency: measured, predicted (baseline, speculative), their error, and what the measurement implies.

    Errors are predicted / measured − 1: 0.1 is 10 % too high.
    """
    measured = {
        "speedup": level.speedup,
        "low": level.low,
        "high": level.high,
        "decode_speedup": level.decode_speedup,
        "baseline_time_per_output_token": level.baseline_tpot,
        "speculative_time_per_output_token": level.speculative_tpot,
    }
    forecast = None if predicted is None else _forecast(*predicted)
    errors = None if forecast is None else {name: _error(forecast[name], measured[name]) for name in forecast}
    return {
        "concurrency": level.concurrency,
        "measured": measured,
        "predicted": forecast,
        "error": errors,
        "implied": implied_costs(level, run.acceptance),
    }


def _forecast(baseline: Performance, speculative: Performance) -> dict[str, float]:
    return {
        "speedup": baseline.request_latency / speculative.request_latency,
        "decode_speedup": baseline.time_per_output_token / speculative.time_per_output_token,
        "baseline_time_per_output_token": baseline.time_per_output_token,
        "speculative_time_per_output_token": speculative.time_per_output_token,
    }


def _error(predicted: float, measured: float | None) -> float | None:
    return predicted / measured - 1 if measured else None


def implied_costs(level: Level, acceptance: Acceptance | None) -> dict[str, Any] | None:
    """Cost of a round, cost ratio, break-even acceptance and best draft length that the measurement implies.

    None without an acceptance or a speed-up per output token. A ratio below 0 (a round cheaper than a target step: the
    two arms were not under the same load) counts as 0 for what is derived from it.
    """
    if acceptance is None or not level.decode_speedup:
        return None
    length = acceptance.draft_length
    tokens = acceptance.tokens_per_round(length)
    steps = tokens / level.decode_speedup
    ratio = (steps - 1) / length
    counted = max(ratio, 0.0)
    alpha = bisect(lambda value: expected_tokens(value, length) - (length * counted + 1))
    best = max(range(1, _LONGEST + 1), key=lambda n: acceptance.tokens_per_round(n) / (n * counted + 1))
    reached = length * counted + 1 <= length + 1
    return {
        "round_in_target_steps": steps,
        "cost_ratio": ratio,
        "break_even_acceptance_rate": rate_from_alpha(alpha, length) if reached else None,
        "best_draft_length": best,
        "speedup_at_best": acceptance.tokens_per_round(best) / (best * counted + 1),
    }
