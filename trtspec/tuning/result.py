"""What a search found: every cell with its interval, the winners' own measurement, and what the spec should say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trtspec.loadtest.intervals import row
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE
from trtspec.tuning.options import BASELINE, TuneOptions, draft_length_of
from trtspec.tuning.plan import LevelPlan, split_prompts
from trtspec.tuning.schedule import Gain, Recommendation, best_lengths, recommend
from trtspec.tuning.search import Search
from trtspec.tuning.standings import Cell

__all__ = ["result_of"]


def result_of(search: Search) -> dict[str, Any]:
    """The content of tuning.json."""
    options, state = search.options, search.state
    levels = [_level(search, plan) for plan in search.plans]
    advice, lengths = _advice(levels, options)
    return {
        "schema": 1,
        "finished": state.phase == "finished",
        "verdict": advice.sentence,
        "recommendation": {
            "values": None if advice.values is None else dict(advice.values),
            "lengths": {str(level): length for level, length in zip(options.load.concurrency, lengths, strict=True)},
        },
        "candidates": list(options.candidates),
        "levels": levels,
        "rungs": state.rung + 1,
        "tolerance": options.tolerance,
        "seconds": {"budget": options.budget, "spent": state.spent},
        "failed": len(search.failed),
        "warnings": [*_warnings(search, levels), *_evened(levels, lengths)],
    }


def _level(search: Search, plan: LevelPlan) -> dict[str, Any]:
    level, records = search.state.levels[plan.label], search.search_records(plan.label)
    cells = {candidate: records.cell(candidate) for candidate in search.options.candidates}
    widest = max(cells.values(), key=lambda cell: len(cell.pairs))
    finalist = search.finalists.get(plan.label)
    confirmed = None if finalist is None else search.final_records(plan.label).cell(finalist)
    return {
        "load": plan.label,
        "concurrency": plan.concurrency,
        "winner": level.leader,
        "settled": level.settled,
        "baseline": {
            "output_tokens_per_second": row(widest.total_rate(BASELINE_ARM)),
            "user_tokens_per_second": row(widest.user_rate(BASELINE_ARM)),
        },
        "cells": [
            {**_cell(candidate, cell), "racing": candidate in level.racing, "dropped": level.dropped.get(candidate)}
            for candidate, cell in cells.items()
        ],
        "confirmed": None if finalist is None or confirmed is None else _confirmed(finalist, confirmed),
    }


def _cell(candidate: str, cell: Cell) -> dict[str, Any]:
    return {
        "candidate": candidate,
        "draft_length": draft_length_of(candidate),
        "pairs": len(cell.pairs),
        "speedup": row(cell.speedup),
        "output_tokens_per_second": row(cell.total_rate(SPECULATIVE)),
        "user_tokens_per_second": row(cell.user_rate(SPECULATIVE)),
        "acceptance_rate": _acceptance(cell),
    }


def _acceptance(cell: Cell) -> float | None:
    rows = cell.pairs.rows(SPECULATIVE)
    drafted, accepted = cell.pairs.table.drafted[rows], cell.pairs.table.accepted[rows]
    known = (drafted >= 0) & (accepted >= 0)
    total = int(drafted[known].sum())
    return int(accepted[known].sum()) / total if total else None


def _confirmed(candidate: str, cell: Cell) -> dict[str, Any]:
    speedup = cell.speedup
    return {
        **_cell(candidate, cell),
        "baseline": {
            "output_tokens_per_second": row(cell.total_rate(BASELINE_ARM)),
            "user_tokens_per_second": row(cell.user_rate(BASELINE_ARM)),
        },
        "shown": speedup.low is not None and speedup.low > 1,
    }


def _advice(levels: Sequence[dict[str, Any]], options: TuneOptions) -> tuple[Recommendation, list[int]]:
    gains = [_gains(level) for level in levels]
    lengths = best_lengths(gains)
    if options.policy is not None:
        own = [_low(level, options.policy) or 0.0 for level in levels]
        best = [gain[length] if length else 1.0 for gain, length in zip(gains, lengths, strict=True)]
        if math.prod(own) > max(1.0, math.prod(best)):
            return Recommendation({}, f"Keep policy {options.policy}: no fixed length is faster overall."), lengths
    return recommend(options.load.concurrency, lengths), lengths


def _gains(level: dict[str, Any]) -> Gain:
    """What each length is shown to gain at least: of the winner on fresh prompts, of others in the race."""
    found = {}
    for cell in level["cells"]:
        low = _low(level, cell["candidate"])
        if cell["draft_length"] is not None and low is not None:
            found[cell["draft_length"]] = low
    return found


def _low(level: dict[str, Any], candidate: str) -> float | None:
    confirmed = level["confirmed"]
    if confirmed is not None and confirmed["candidate"] == candidate:
        low: float | None = confirmed["speedup"]["low"]
        return low
    cell = next(cell for cell in level["cells"] if cell["candidate"] == candidate)
    found: float | None = cell["speedup"]["low"]
    return found


def _evened(levels: Sequence[dict[str, Any]], lengths: Sequence[int]) -> list[str]:
    """Levels whose own best length is not what is recommended, because drafts may not get longer with the load."""
    found = []
    for level, length in zip(levels, lengths, strict=True):
        winner = None if level["winner"] in {None, BASELINE} else draft_length_of(level["winner"])
        if length and winner is not None and winner != length:
            reason = "drafts may not get longer with the load"
            found.append(f"{level['load']}: {length} is recommended instead of {winner}, because {reason}.")
    return found


def _warnings(search: Search, levels: Sequence[dict[str, Any]]) -> list[str]:
    found = []
    if search.failed:
        found.append(f"{len(search.failed)} requests failed ({min(search.failed)}); their prompts are left out.")
    seen, held_out = split_prompts(search.prompts, search.options.load.seed)
    if seen == held_out:
        found.append("Too few prompts to keep some for the end: the winners were measured on prompts of the race.")
    for level in levels:
        if level["winner"] is None:
            found.append(f"{level['load']}: not measured.")
        elif level["winner"] == BASELINE:
            continue
        elif not level["settled"] and len([cell for cell in level["cells"] if cell["racing"]]) > 1:
            left = ", ".join(cell["candidate"] for cell in level["cells"] if cell["racing"])
            found.append(f"{level['load']}: the time did not suffice to tell {left} apart; a larger --budget would.")
        if level["confirmed"] is not None and not level["confirmed"]["shown"]:
            found.append(f"{level['load']}: draft length {level['winner']} is not shown to be faster than none.")
    return found
