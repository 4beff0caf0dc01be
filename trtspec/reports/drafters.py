"""Who drafted: the text itself or a model. Empty where the server does not look drafts up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, percent_text, text_cell

__all__ = ["NAMES", "drafter_lines", "drafter_note", "drafter_rows", "drafter_table", "told_by_drafter"]

NAMES = {"text": "the text", "model": "a model"}
_NO_RATE = "it drafted nothing"
_NO_SHARE = "the server counts no output tokens"
_COUNTS = ("num_spec_steps", "num_draft_tokens", "num_accepted_tokens")
_COLUMNS = ("Who drafted", "Rounds", "Drafted", "Accepted", "Acceptance rate", "Share of the output")


def told_by_drafter(section: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Drafter → its counts, in the acceptance section of a summary or in one of its categories."""
    told = section.get("by_drafter")
    return told if isinstance(told, Mapping) else {}


def drafter_table(data: ReportData) -> Table:
    """Each drafter over all prompts, and where there are several categories in each of them."""
    whole = told_by_drafter(data.acceptance)
    categories = {name: told_by_drafter(part) for name, part in _categories(data)} if whole else {}
    parts = {"all": whole, **(categories if len(categories) > 1 else {})}
    rows = [(text_cell(prompts), *row) for prompts, told in parts.items() for row in drafter_rows(told)]
    return Table(("Prompts", *_COLUMNS), tuple(rows), frozenset({1}))


def drafter_rows(told: Mapping[str, Mapping[str, Any]]) -> Iterator[Sequence[Cell]]:
    """Name, rounds, drafted, accepted, acceptance rate and share of the output of each drafter."""
    for name, row in told.items():
        counts = (text_cell(row[key]) for key in _COUNTS)
        rates = (_share(row["acceptance_rate"], _NO_RATE), _share(row["output_share"], _NO_SHARE))
        yield text_cell(NAMES.get(name, name)), *counts, *rates


def drafter_note(told: Mapping[str, Mapping[str, Any]]) -> str:
    """Who is asked when, and what the target chose itself where that is known."""
    asked = "Drafts are looked for in the text first, then a model is asked."
    shares = [row["output_share"] for row in told.values()]
    if None in shares:
        rest = ""
    else:
        rest = f" {percent_text(max(0.0, 1 - sum(shares)))} of the output the target chose itself."
    return f"{asked if 'model' in told else 'Drafts are looked for in the text.'}{rest}"


def drafter_lines(told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line a drafter: `the text: 12 rounds, 96 drafted, 40 accepted (42 %), 20 % of the output`."""
    return [_line([cell.text for cell in row]) for row in drafter_rows(told)]


def _line(texts: Sequence[str]) -> str:
    name, rounds, drafted, accepted, rate, share = texts
    known = "" if rate == "–" else f" ({rate})"
    part = "" if share == "–" else f", {share} of the output"
    return f"{name}: {rounds} rounds, {drafted} drafted, {accepted} accepted{known}{part}"


def _share(value: float | None, reason: str) -> Cell:
    return Cell("–", reason=reason) if value is None else text_cell(percent_text(value))


def _categories(data: ReportData) -> list[tuple[str, Mapping[str, Any]]]:
    found: Mapping[str, Mapping[str, Any]] = data.acceptance.get("by_category") or {}
    return sorted(found.items())
