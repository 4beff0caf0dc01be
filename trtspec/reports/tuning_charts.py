"""Charts of a search for the draft length: what each cell gains, and speed for one user against speed for all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.reports.charts import ARM_STYLE, Chart, Choice, Control, Figure, absent, axis, figure, safe, unity
from trtspec.reports.formats import Cell, Table, number_text, percent_text, ratio_text, text_cell
from trtspec.reports.reading import interval_of

__all__ = ["Point", "confirmation_chart", "frontier", "heat_chart", "pareto_chart"]

Level = Mapping[str, Any]
_ROW = 44


def heat_chart(data: Mapping[str, Any]) -> Chart:
    """The speed-up of every draft length at every load, and the acceptance there."""
    title = "Speed-up of each draft length at each load"
    levels: Sequence[Level] = data["levels"]
    if not any(interval_of(cell["speedup"]) for level in levels for cell in level["cells"]):
        return absent("heat", title, "No length was measured against the baseline.")
    height = 130 + _ROW * len(data["candidates"])
    variants = {"speedup": _heat(data, _speedup, height, around_one=True)}
    choices = [Choice("speedup", "speed-up")]
    if any(cell["acceptance_rate"] is not None for level in levels for cell in level["cells"]):
        variants["acceptance"] = _heat(data, _acceptance, height, around_one=False)
        choices.append(Choice("acceptance", "share of drafted tokens accepted"))
    caption = (
        "In the race, on the same prompts as the baseline; above 1 speculation is faster. ▸ won; a cell in brackets "
        "was dropped: shown to be slower than the leader, so measured on fewer prompts."
    )
    control = Control("view", "Show", tuple(choices))
    return Chart("heat", title, caption, variants, (control,), _cell_table(levels), height=height, wide=True)


def _speedup(cell: Mapping[str, Any]) -> float | None:
    found = interval_of(cell["speedup"])
    return None if found is None else found.estimate


def _acceptance(cell: Mapping[str, Any]) -> float | None:
    rate: float | None = cell["acceptance_rate"]
    return rate


def _heat(data: Mapping[str, Any], value: Any, height: int, *, around_one: bool) -> Figure:
    levels: Sequence[Level] = data["levels"]
    rows = [[level["cells"][index] for level in levels] for index in range(len(data["candidates"]))]
    values = [[value(cell) for cell in row] for row in rows]
    known = [number for row in values for number in row if number is not None]
    shade: Any = math.log if around_one else float
    reach = max([abs(math.log(number)) for number in known] + [0.05]) if around_one else 1.0
    trace = {
        "type": "heatmap", "x": [level["load"] for level in levels], "y": [safe(c) for c in data["candidates"]],
        "z": [[None if number is None else shade(number) for number in row] for row in values],
        "zmin": -reach if around_one else 0, "zmax": reach,
        "colorscale": [[0, "@baseline"], [0.5, "@card"], [1, "@speculative"]] if around_one
        else [[0, "@card"], [1, "@speculative"]],
        "showscale": False, "opacity": 0.62, "xgap": 3, "ygap": 3,
        "text": [[_text(cell, level, number, around_one) for cell, level, number in zip(row, levels, line, strict=True)]
                 for row, line in zip(rows, values, strict=True)],
        "texttemplate": "%{text}", "textfont": {"color": "@ink", "size": 13},
        "hovertext": [[_hover(cell, level) for cell, level in zip(row, levels, strict=True)] for row in rows],
        "hoverinfo": "text",
    }  # fmt: skip
    return figure(
        [trace], height, xaxis=axis("", type="category", side="top", showgrid=False),
        yaxis=axis("draft length", type="category", autorange="reversed", showgrid=False),
    )  # fmt: skip


def _text(cell: Mapping[str, Any], level: Level, number: float | None, around_one: bool) -> str:
    if number is None:
        return "–"
    text = ratio_text(number) if around_one else percent_text(number)
    if cell["candidate"] == level["winner"]:
        return f"<b>▸ {text}</b>"
    return f"({text})" if cell["dropped"] else text


def _hover(cell: Mapping[str, Any], level: Level) -> str:
    found = interval_of(cell["speedup"])
    lines = [f"<b>draft length {safe(cell['candidate'])}</b>, {safe(level['load'])}"]
    lines.append("not measured" if found is None else found.text)
    lines.append(f"{cell['pairs']} pairs")
    if cell["acceptance_rate"] is not None:
        lines.append(f"{percent_text(cell['acceptance_rate'])} of drafted tokens accepted")
    if cell["dropped"]:
        lines.append(f"dropped after rung {cell['dropped']['rung'] + 1}: {safe(cell['dropped']['reason'])}")
    return "<br>".join(lines)


def _cell_table(levels: Sequence[Level]) -> Table:
    columns = ("Load", "Draft length", "Speed-up", "Interval", "Pairs", "Tokens/s", "Tokens/s per user", "Accepted", "")
    rows = tuple(
        (
            text_cell(level["load"]), text_cell(cell["candidate"]), *_interval_cells(cell["speedup"]),
            text_cell(cell["pairs"]), _rate(cell["output_tokens_per_second"]), _rate(cell["user_tokens_per_second"]),
            _share(cell["acceptance_rate"]), text_cell(_fate(cell, level)),
        )
        for level in levels
        for cell in level["cells"]
    )  # fmt: skip
    return Table(columns, rows, frozenset({1, 3, 8}))


def _fate(cell: Mapping[str, Any], level: Level) -> str:
    if cell["candidate"] == level["winner"]:
        return "won"
    return f"dropped after rung {cell['dropped']['rung'] + 1}" if cell["dropped"] else ""


def _interval_cells(row: Any) -> tuple[Cell, Cell]:
    found = interval_of(row)
    if found is None:
        return Cell("–", reason="not measured"), text_cell("")
    return text_cell(ratio_text(found.estimate)), text_cell(found.range_text)


def _rate(row: Mapping[str, Any]) -> Cell:
    if row["estimate"] is None:
        return Cell("–", reason=str(row.get("reason") or "not measured"))
    return text_cell(number_text(row["estimate"]))


def _share(value: float | None) -> Cell:
    return Cell("–", reason="the server does not count drafts") if value is None else text_cell(percent_text(value))


@dataclass(frozen=True)
class Point:
    """A candidate at a load: output tokens per second of one request, and of all together."""

    candidate: str
    load: str
    user: float
    total: float
    won: bool = False


def frontier(points: Iterable[Point]) -> list[Point]:
    """Those that no other point beats in both rates, the fastest for one user last."""
    found: list[Point] = []
    for point in sorted(points, key=lambda one: (-one.user, -one.total)):
        if not found or point.total > found[-1].total:
            found.append(point)
    return found[::-1]


def pareto_chart(data: Mapping[str, Any]) -> Chart:
    """Tokens per second of one user against those of all, for every cell and the baseline."""
    title = "Speed for one user against speed for all"
    levels: Sequence[Level] = data["levels"]
    baseline = [point for level in levels if (point := _point("baseline", level, level["baseline"]))]
    cells = [
        point
        for level in levels
        for cell in level["cells"]
        if (point := _point(cell["candidate"], level, cell, won=cell["candidate"] == level["winner"]))
    ]
    if not baseline or not cells:
        return absent("pareto", title, "The servers count no tokens.")
    winners = [point for point in cells if point.won]
    traces = [
        _marks([point for point in cells if not point.won], "other lengths"),
        _frontier_line(frontier([*baseline, *cells])),
        _line(baseline, "baseline", "baseline"),
        *([_line(winners, "speculative", "best length")] if winners else []),
    ]
    caption = (
        "Up and to the right is better. Each line goes from few concurrent requests (right) to many (left); numbers "
        "are draft lengths. The dotted line joins what nothing beats in both."
    )
    shown = figure(
        traces, 380, showlegend=True, hovermode="closest",
        xaxis=axis("output tokens/s of one request", rangemode="tozero"),
        yaxis=axis("output tokens/s of all requests", rangemode="tozero"),
    )  # fmt: skip
    return Chart("pareto", title, caption, {"": shown}, table=_pareto_table([*baseline, *cells]), height=380)


def _point(candidate: str, level: Level, row: Mapping[str, Any], *, won: bool = False) -> Point | None:
    user, total = row["user_tokens_per_second"]["estimate"], row["output_tokens_per_second"]["estimate"]
    if user is None or total is None:
        return None
    return Point(candidate, level["load"], float(user), float(total), won)


def _places(points: Sequence[Point]) -> dict[str, Any]:
    hover = [
        f"<b>{'' if p.candidate == 'baseline' else 'draft length '}{safe(p.candidate)}</b>, {safe(p.load)}<br>"
        f"{number_text(p.user)} tokens/s for one, {number_text(p.total)} for all"
        for p in points
    ]
    return {"x": [p.user for p in points], "y": [p.total for p in points], "hovertext": hover, "hoverinfo": "text"}


def _marks(points: Sequence[Point], name: str) -> Figure:
    marker = {"size": 7, "color": "@speculative", "opacity": 0.35}
    return {"type": "scatter", "mode": "markers", "name": name, "marker": marker, **_places(points)}


def _line(points: Sequence[Point], arm: str, name: str) -> Figure:
    style, labelled = ARM_STYLE[arm], arm != "baseline"
    return {
        "type": "scatter", "mode": "lines+markers+text" if labelled else "lines+markers", "name": name,
        "cliponaxis": False, "text": [safe(p.candidate) if labelled else "" for p in points],
        "textposition": "top center", "textfont": {"color": "@ink", "size": 13},
        "line": {"color": style["color"], "width": 2.5, "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 10, "color": style["color"]}, **_places(points),
    }  # fmt: skip


def _frontier_line(points: Sequence[Point]) -> Figure:
    line = {"color": "@ink", "width": 1.2, "dash": "dot"}
    place = {"x": [p.user for p in points], "y": [p.total for p in points]}
    return {"type": "scatter", "mode": "lines", "name": "not beaten", "line": line, "hoverinfo": "skip", **place}


def _pareto_table(points: Sequence[Point]) -> Table:
    best = set(map(id, frontier(points)))
    rows = tuple(
        (
            text_cell(p.candidate), text_cell(p.load), text_cell(number_text(p.user)), text_cell(number_text(p.total)),
            text_cell("yes" if id(p) in best else ""),
        )
        for p in points
    )  # fmt: skip
    return Table(("Draft length", "Load", "Tokens/s per user", "Tokens/s", "Not beaten"), rows, frozenset({1, 4}))


def confirmation_chart(data: Mapping[str, Any]) -> Chart:
    """The winners on prompts that the race never saw: the gain to count on."""
    title = "The winners on fresh prompts"
    rows = [(level, level["confirmed"]) for level in data["levels"] if level["confirmed"] is not None]
    known = [(level, row, found) for level, row in rows if (found := interval_of(row["speedup"])) is not None]
    if not known:
        reason = "no length was faster than the baseline" if data["finished"] else "the search has not come to that"
        return absent("confirmed", title, f"Nothing was measured again: {reason}.")
    height = 120 + _ROW * len(known)
    trace = {
        "type": "scatter", "mode": "markers", "cliponaxis": False,
        "y": [f"{level['load']}: length {safe(row['candidate'])}" for level, row, _ in known],
        "x": [found.estimate for _, _, found in known],
        "marker": {"size": 11, "color": "@speculative"},
        "error_x": {
            "type": "data", "symmetric": False, "color": "@speculative", "thickness": 1.8, "width": 6,
            "array": [found.ends[1] - found.estimate for _, _, found in known],
            "arrayminus": [found.estimate - found.ends[0] for _, _, found in known],
        },
        "hovertext": [f"<b>{safe(level['load'])}</b><br>{found.text}<br>{row['pairs']} pairs"
                      for level, row, found in known],
        "hoverinfo": "text",
    }  # fmt: skip
    shown = figure(
        [trace], height, shapes=[unity("x")], xaxis=axis("speed-up (1 = no difference)", tickformat=".2~f"),
        yaxis=axis("", type="category", autorange="reversed"),
    )  # fmt: skip
    table = Table(
        ("Load", "Draft length", "Speed-up", "Interval", "Pairs"),
        tuple(
            (text_cell(level["load"]), text_cell(row["candidate"]), text_cell(ratio_text(found.estimate)),
             text_cell(found.range_text), text_cell(row["pairs"]))
            for level, row, found in known
        ),
        frozenset({1, 3}),
    )  # fmt: skip
    caption = (
        "Who wins a race was lucky too, so its gain in the race is too high on average. These are the winners alone "
        "against the baseline, on prompts kept for this."
    )
    return Chart("confirmed", title, caption, {"": shown}, table=table, height=height)
