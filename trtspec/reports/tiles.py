"""The few numbers that a decision rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, display_unit, number_text, percent_text, plain
from trtspec.reports.levels import Level
from trtspec.reports.reading import Part

__all__ = ["Tile", "build_tiles", "tile_level"]


@dataclass(frozen=True)
class Tile:
    """One number, or one for each arm, or words where there is none."""

    label: str
    value: Cell | None = None
    arms: tuple[tuple[str, Cell], ...] = ()
    words: str = ""
    note: str = ""


def tile_level(data: ReportData) -> Level | None:
    """The load that times and rates are shown of: the lightest; None where there is only one.

    A median over several levels may fall into different levels in the two arms and then contradicts the paired ratio.
    """
    return data.levels[0] if len(data.levels) > 1 else None


def build_tiles(data: ReportData) -> tuple[Tile, ...]:
    """Acceptance, both arms' latencies and rate, errors, and equality of the answers."""
    return (
        _acceptance(data.summary),
        _length(data.summary),
        _latency(data, "time_to_first_token", "Time to first token, median"),
        _latency(data, "time_per_output_token", "Time per output token, median"),
        _latency(data, "request_latency", "Request latency, median"),
        _rate(data),
        _errors(data),
        _equality(data.summary),
    )


def _acceptance(summary: Mapping[str, Any]) -> Tile:
    data = summary["acceptance"]
    rate = data.get("acceptance_rate")
    if rate is None:
        return Tile("Acceptance rate", words="unknown", note=_no_acceptance(data))
    cell = Cell(percent_text(rate), "acceptance.acceptance_rate", repr(rate))
    note = f"{data['num_accepted_tokens']:,} of {data['num_draft_tokens']:,} drafted tokens".replace(",", "\u202f")
    return Tile("Acceptance rate", cell, note=note)


def _length(summary: Mapping[str, Any]) -> Tile:
    data = summary["acceptance"]
    length = data.get("mean_acceptance_length")
    if length is None:
        return Tile("Mean acceptance length", words="unknown", note=_no_acceptance(data))
    cell = Cell(f"{length:.2f}", "acceptance.mean_acceptance_length", repr(length))
    return Tile("Mean acceptance length", cell, note="tokens per round; plain decoding is 1")


def _no_acceptance(data: Mapping[str, Any]) -> str:
    return plain(data.get("reason") or "the server sent no counters")


def _rate(data: ReportData) -> Tile:
    tile = _latency(data, "output_tokens_per_second", "Output tokens/s per user, median")
    totals = [_part(data).throughput(arm) for arm in data.arms]
    if not tile.arms or any(total is None for total in totals):
        return tile
    return replace(tile, note=f"all users together: {' and '.join(number_text(total or 0.0) for total in totals)}")


def _latency(data: ReportData, name: str, label: str) -> Tile:
    part = _part(data)
    unit = display_unit(_unit(part, data, name), [part.metric(arm, name).get("p50") for arm in data.arms])
    cells = [(arm, part.cell(arm, name, "p50", unit)) for arm in data.arms]
    if not any(cell.text != "–" for _, cell in cells):
        reason = next((cell.reason for _, cell in cells if cell.reason), "no request was sent")
        return Tile(label, words="not measured", note=reason)
    suffix = f" {unit.name}" if unit.name in {"ms", "s"} else ""
    arms = tuple((arm, cell if cell.reason else replace(cell, text=cell.text + suffix)) for arm, cell in cells)
    return Tile(label, arms=arms, note=_ratio_note(data, name))


def _part(data: ReportData) -> Part:
    level = tile_level(data)
    return data.whole if level is None else level.part


def _unit(part: Part, data: ReportData, name: str) -> str:
    return next((str(row["unit"]) for arm in data.arms if (row := part.metric(arm, name)).get("unit")), "s")


def _ratio_note(data: ReportData, name: str) -> str:
    found = _part(data).speedup(name)
    return f"speed-up {found.text}" if found is not None else ""


def _errors(data: ReportData) -> Tile:
    rates = [(arm, data.summary["arms"][arm].get("error_rate")) for arm in data.arms]
    if all(rate is None for _, rate in rates):
        return Tile("Error rate", words="no requests", note="nothing was sent, so nothing failed or succeeded")
    arms = tuple((arm, _rate_cell(arm, rate)) for arm, rate in rates)
    counts = [data.whole.counts(arm) for arm in data.arms]
    failed = sum(count.get("failed") or 0 for count in counts)
    sent = failed + sum(count.get("ok") or 0 for count in counts)
    return Tile("Error rate", arms=arms, note=f"{failed} of {sent} requests failed")


def _rate_cell(arm: str, rate: float | None) -> Cell:
    if rate is None:
        return Cell("–", reason="no requests")
    return Cell(percent_text(rate), f"arms.{arm}.error_rate", repr(rate))


def _equality(summary: Mapping[str, Any]) -> Tile:
    equality = summary["comparison"].get("equality") or {}
    same, apart = equality.get("identical"), equality.get("diverged")
    if same is None or apart is None or same + apart == 0:
        return Tile("Identical answers", words="not comparable", note="no prompt was answered by both arms")
    cell = Cell(f"{same} of {same + apart}", "comparison.equality.identical", repr(same))
    note = "every pair gave the same text" if apart == 0 else f"{apart} differ; they are listed under Answers"
    return Tile("Identical answers", cell, note=note)
