"""Every metric of both arms with its percentiles, unit and formula: over the whole run and at each load level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, DisplayUnit, display_unit
from trtspec.reports.levels import Level
from trtspec.reports.names import metric_formula, metric_name
from trtspec.reports.reading import Part

__all__ = ["MetricBlock", "MetricRow", "metric_blocks", "tail"]

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
# where higher is better the bad tail is the low one
_LOW_TAIL = {"p90": "p10", "p95": "p5", "p99": "p1"}


@dataclass(frozen=True)
class MetricRow:
    """One metric: the cells of each arm in the order of the block's statistics."""

    name: str
    formula: str
    unit: str
    arms: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class MetricBlock:
    """The metrics of one part of the run; `footnotes` say why cells are empty."""

    title: str
    note: str
    arms: tuple[str, ...]
    statistics: tuple[str, ...]
    rows: tuple[MetricRow, ...]
    footnotes: tuple[str, ...]


def metric_blocks(data: ReportData) -> tuple[MetricBlock, ...]:
    """One block a load level, then the whole run where there is more than one."""
    if len(data.levels) == 1:
        return (_block(_title(data.levels[0]), data.whole, data),)
    blocks = [_block(_title(level), level.part, data) for level in data.levels]
    return (*blocks, _block("All levels pooled", data.whole, data)) if blocks else ()


def _title(level: Level) -> str:
    return level.label[:1].upper() + level.label[1:]


def _block(title: str, part: Part, data: ReportData) -> MetricBlock:
    formulas = data.summary.get("formulas") or {}
    rows = [_row(part, name, data.arms, formulas) for name in part.metric_names()]
    return MetricBlock(title, _counts(part, data), data.arms, STATISTICS, tuple(rows), _footnotes(rows, data.arms))


def _footnotes(rows: Sequence[MetricRow], arms: Sequence[str]) -> tuple[str, ...]:
    """Each reason for a dash once, with the metrics that it concerns."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        missing = [{cell.reason for cell in cells if cell.reason} for cells in row.arms]
        for reason in sorted(set().union(*missing)):
            those = [arm for arm, found in zip(arms, missing, strict=True) if reason in found]
            names = row.name if len(those) == len(arms) else f"{row.name} ({', '.join(those)})"
            reasons.setdefault(reason, []).append(names)
    return tuple(f"{reason}: {'; '.join(names)}" for reason, names in reasons.items())


def _counts(part: Part, data: ReportData) -> str:
    texts = []
    for arm in data.arms:
        ok, failed, excluded = (part.counts(arm).get(key) or 0 for key in ("ok", "failed", "excluded"))
        extra = "".join(f", {count} {word}" for count, word in ((failed, "failed"), (excluded, "excluded")) if count)
        texts.append(f"{arm} {ok} ok{extra}")
    return " · ".join(texts)


def _row(part: Part, name: str, arms: tuple[str, ...], formulas: Mapping[str, str]) -> MetricRow:
    found = [part.metric(arm, name) for arm in arms]
    unit_name = next((str(row["unit"]) for row in found if row.get("unit")), "")
    unit = display_unit(unit_name, [row.get(key) for row in found for key in ("mean", "p50", "p99")])
    cells = tuple(tuple(_cell(part, arm, name, key, unit) for key in STATISTICS) for arm in arms)
    return MetricRow(metric_name(name), str(formulas.get(name) or metric_formula(name)), unit.name, cells)


def _cell(part: Part, arm: str, name: str, statistic: str, unit: DisplayUnit) -> Cell:
    chosen = tail(part.metric(arm, name), statistic)
    cell = part.cell(arm, name, chosen, unit)
    return replace(cell, tag=chosen) if chosen != statistic and not cell.reason else cell


def tail(row: Mapping[str, Any], statistic: str) -> str:
    """The statistic that shows the bad tail: p10 for p90 where higher is better, else itself."""
    low = _LOW_TAIL.get(statistic, "")
    return low if low in row else statistic
