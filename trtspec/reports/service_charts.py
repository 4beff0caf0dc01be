"""What a user gets: requests within the service levels, and whether reading ever waits for text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.arm_points import ArmPoint, needs_room, point_figure, point_table
from trtspec.reports.charts import Chart, Choice, Control, absent, axis, share_axis
from trtspec.reports.data import ReportData
from trtspec.reports.formats import Table, number_text, percent_text

__all__ = ["goodput_chart", "slo_text", "underrun_chart"]

_NO_SLO = "No service levels were given; --slo ttft=0.5,tpot=0.05 says what counts as good."
_NAMES = {"ttft": "first token", "tpot": "time per token", "e2e": "whole answer", "stall": "longest stall"}


def slo_text(levels: Any) -> str:
    """The service levels in words: `first token ≤ 500 ms, time per token ≤ 50 ms`."""
    if not isinstance(levels, Mapping):
        return ""
    return ", ".join(f"{_NAMES.get(name, name)} ≤ {number_text(1000 * limit)} ms" for name, limit in levels.items())


def goodput_chart(data: ReportData) -> Chart:
    """Share of requests within every service level, and how many of them per second."""
    title = "Goodput"
    rows = _rows(data, "goodput")
    judged = [row for _, _, row in rows if row.get("slo")]
    if not judged:
        reason = next((str(row["reason"]) for _, _, row in rows if row.get("reason")), "")
        given = reason and "no service levels" not in reason and "no requests" not in reason
        return absent("goodput", title, f"Goodput is unknown: {reason}." if given else _NO_SLO)
    shares = [_share(load, arm, row.get("met") or {}, str(row.get("reason") or "")) for load, arm, row in rows]
    rates = [_rate(load, arm, row) for load, arm, row in rows]
    if all(point.value is None for point in shares):
        return absent("goodput", title, f"Goodput is unknown: {judged[0].get('reason')}.")
    variants = {
        "share": point_figure(shares, share_axis("requests within every level", range=[-3, 106])),
        "rate": point_figure(rates, axis("good requests per second", rangemode="tozero")),
    }
    choices = (Choice("share", "share of requests"), Choice("rate", "requests per second"))
    caption = f"Requests within every service level: {slo_text(judged[0]['slo'])}. Whiskers: 95 % Wilson interval."
    table = _joined(point_table(shares, "Share"), point_table(rates, "Good requests/s"))
    return Chart("goodput", title, caption, variants, (Control("view", "Show", choices),), table, height=320,
                 wide=needs_room(shares))  # fmt: skip


def _joined(one: Table, other: Table) -> Table:
    rows = tuple((*left, right[-1]) for left, right in zip(one.rows, other.rows, strict=True))
    return Table((*one.columns, other.columns[-1]), rows, one.text_columns)


def _rows(data: ReportData, name: str) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(load, arm, the section) of every level that has one."""
    found = [(level.label, arm, level.part.arms.get(arm, {}).get(name)) for level in data.levels for arm in data.arms]
    return [(load, arm, row) for load, arm, row in found if isinstance(row, Mapping)]


def _share(load: str, arm: str, row: Mapping[str, Any], reason: str) -> ArmPoint:
    share, low, high = (row.get(key) for key in ("share", "low", "high"))
    if share is None:
        return ArmPoint(load, arm, None, "", reason=str(row.get("reason") or reason))
    text = percent_text(share)
    if low is not None and high is not None:
        text += f" (95 % interval {percent_text(low)} to {percent_text(high)})"
    text += f" of {row.get('count')} requests"
    ends = [None if end is None else 100 * end for end in (low, high)]
    return ArmPoint(load, arm, 100 * share, text, ends[0], ends[1])


def _rate(load: str, arm: str, row: Mapping[str, Any]) -> ArmPoint:
    value = row.get("mean")
    reason = str(row.get("reason") or "")
    return ArmPoint(load, arm, value, "" if value is None else f"{number_text(value)} requests/s", reason=reason)


def underrun_chart(data: ReportData) -> Chart:
    """Share of requests whose reader had to wait for the next text."""
    title = "Does reading ever wait?"
    rows = _rows(data, "underruns")
    points = [_share(load, arm, row, "") for load, arm, row in rows]
    if all(point.value is None for point in points):
        reason = next((point.reason for point in points if point.reason), "no streamed answer with token counts")
        return absent("underruns", title, f"Unknown: {reason}.")
    speed = next((row.get("reading_speed") for _, _, row in rows if row.get("reading_speed")), None)
    caption = f"Share of answers in which a reader at {_speed(speed)} ran out of text. Speculation delivers in bursts."
    y = share_axis("answers with a pause", range=[-3, _top(points)])
    table, wide = point_table(points, "Share"), needs_room(points)
    return Chart("underruns", title, caption, {"": point_figure(points, y)}, table=table, height=320, wide=wide)


def _speed(speed: Any) -> str:
    return f"{speed:g} tokens per second" if isinstance(speed, (int, float)) else "reading speed"


def _top(points: Sequence[ArmPoint]) -> float:
    return min(106.0, 1.15 * max([10.0, *(point.high or point.value or 0.0 for point in points)]))
