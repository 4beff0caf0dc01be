"""The plan in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtspec.planning.forecast import Forecast
from trtspec.planning.measured import MeasuredRun
from trtspec.units import bytes_text

if TYPE_CHECKING:
    from trtspec.planning.plan import Plan

__all__ = ["verdict_sentence"]

# a better draft length is proposed when it is at least this much faster
_WORTH = 1.01


def verdict_sentence(plan: Plan) -> str:
    """Whether it fits, whether it pays and up to where, and what to set; parts joined by semicolons."""
    pair_errors = plan.check.of_level("error")
    short = plan.memory is not None and plan.memory.fits is False
    errors = pair_errors if pair_errors or short else plan.errors
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"cannot be served: {errors[0].message}{more}"
    parts = [_fit(plan), *_speed(plan)]
    return "; ".join(part for part in parts if part)


def _fit(plan: Plan) -> str:
    memory = plan.memory
    if memory is None:
        return "not planned"
    where = _where(plan)
    if memory.fits is None:
        would = f", would fit {_any_of(memory.candidates)}" if memory.candidates else ""
        return f"no GPU is named{would}: set hardware.gpu or give --gpu NAME"
    if not memory.fits:
        return _does_not_fit(plan)
    limit = memory.limits.max_concurrent_sequences
    room = "" if limit is None else f", {limit} sequence{'' if limit == 1 else 's'} at once"
    return f"fits {where}{room}"


def _any_of(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _where(plan: Plan) -> str:
    memory = plan.memory
    if memory is None or plan.gpu is None:
        return "in this machine's memory"
    return f"on {len(memory.placement.gpus)} × {plan.gpu.name}"


def _does_not_fit(plan: Plan) -> str:
    memory = plan.memory
    assert memory is not None
    problems = memory.placement.problems
    if problems:
        return f"does not fit {_where(plan)}: {problems[0]}"
    arm = memory.speculative if not memory.speculative.fits else memory.baseline
    missing = f"{bytes_text(arm.short)} short on a GPU" if arm.short else "nothing is left for keys and values"
    remedy = next((item for item in memory.remedies if item.fits), None)
    change = f"; set {remedy.text}" if remedy else "; no single change of the spec would make it fit"
    what = "the baseline arm does not fit" if arm is memory.baseline else "does not fit"
    return f"{what} {_where(plan)}: {missing}{change}"


def _speed(plan: Plan) -> list[str]:
    if plan.memory is not None and plan.memory.fits is False:
        return []
    if plan.forecast is None:
        return _measured(plan.run) if plan.run is not None else _nothing(plan)
    return _forecast(plan.forecast)


def _nothing(plan: Plan) -> list[str]:
    if plan.memory is None or plan.memory.fits is None:
        return []
    why = "no GPU" if plan.gpu is None else plan.reasons.get("speedup", "not planned")
    return [f"the speed-up is not forecast ({why}): measure it with trtspec loadtest"]


def _forecast(forecast: Forecast) -> list[str]:
    if forecast.acceptance is None:
        return _needed(forecast)
    chosen, first = forecast.grid.chosen, forecast.grid.concurrencies[0]
    within = [item for item in forecast.best if forecast.grid.fits(item.concurrency)]
    most = max(within or forecast.best, key=lambda item: item.speedup)
    if most.speedup < 1:
        return [f"speculation loses (×{most.speedup:.2f} at best, at concurrency {most.concurrency}): leave it off"]
    now, best = forecast.cell(first, chosen), forecast.best[0]
    assert now.speedup is not None
    parts = [f"expected ×{now.speedup:.2f} at concurrency {first}{_until(forecast)}"]
    if best.draft_length != chosen and best.speedup > max(1.0, now.speedup * _WORTH):
        parts.append(f"set speculation.draft_length: {best.draft_length} (×{best.speedup:.2f})")
    elif now.speedup < 1 and most.speedup > _WORTH:
        parts.append(f"best is ×{most.speedup:.2f} at concurrency {most.concurrency} with {most.draft_length} drafted")
    return parts


def _until(forecast: Forecast) -> str:
    """Where the spec's draft length starts and stops paying."""
    found, limit = forecast.break_even[forecast.grid.chosen], forecast.grid.limit
    if found.since is None:
        return f", {found.reason}"
    if limit is not None and found.since > limit:
        return f", a loss up to {limit} sequences at once"
    since = f", pays from {found.since} on" if found.since > 1 else ""
    if found.concurrency is None or (limit is not None and found.concurrency >= limit):
        many = "" if limit == 1 else f" up to {limit} sequences at once"
        up_to = found.reason if limit is None else f"no loss{many}"
        return since or f", {up_to}"
    return f"{since}, loses above {found.concurrency}"


def _needed(forecast: Forecast) -> list[str]:
    first, length = forecast.grid.concurrencies[0], forecast.grid.chosen
    needed = forecast.cell(first, length).break_even
    if needed is None or needed.rate is None:
        why = needed.reason if needed else "no draft"
        return [f"{length} drafted tokens are {why} at concurrency {first}"]
    return [
        f"pays at concurrency {first} when more than {needed.rate:.0%} of {length} drafted tokens are accepted",
        "measure that: trtspec loadtest",
    ]


def _measured(run: MeasuredRun) -> list[str]:
    if not run.levels:
        return ["the run compares no concurrency"]
    known = [level for level in run.levels if level.speedup is not None]
    shown = ", ".join(f"×{level.speedup:.2f} at concurrency {level.concurrency}" for level in known)
    loses = ", ".join(map(str, run.loses_at))
    return [f"measured {shown}" if shown else "no speed-up measured", f"it loses at {loses}" if loses else ""]
