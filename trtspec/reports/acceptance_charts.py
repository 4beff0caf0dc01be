"""Acceptance by draft position, tokens per round, and acceptance against speed-up of single prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtspec.reports.charts import Chart, Choice, Control, Figure, absent, axis, figure, safe, share_axis, short, unity
from trtspec.reports.data import Pair, ReportData
from trtspec.reports.formats import Table, percent_text, ratio_text, text_cell

__all__ = ["NO_COUNTERS", "position_chart", "rounds_chart", "scatter_chart"]

NO_COUNTERS = "The server sent no counters of drafted and accepted tokens, so acceptance is unknown, not zero."
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")


def position_chart(data: ReportData) -> Chart:
    """Share of tokens accepted at each position of the draft."""
    title = "Acceptance by draft position"
    shares = [share for share in data.acceptance.get("per_position") or () if share is not None]
    if not shares:
        return absent("position", title, NO_COUNTERS)
    positions = list(range(1, len(shares) + 1))
    trace = _bars([str(p) for p in positions], [100 * share for share in shares])
    trace["hovertext"] = [f"position {p}: {percent_text(s)} accepted" for p, s in zip(positions, shares, strict=True)]
    chart = figure(
        [trace], 300, xaxis=axis("position in the draft", type="category"),
        yaxis=share_axis("accepted", range=[0, 110]), bargap=0.35,
    )  # fmt: skip
    rows = tuple((text_cell(p), text_cell(percent_text(s))) for p, s in zip(positions, shares, strict=True))
    caption = (
        "Share of rounds whose token at this position was accepted; a token counts only if all before it were. "
        "Where the bars get short, a longer draft buys nothing."
    )
    return Chart("position", title, caption, {"": chart}, table=Table(("Position", "Accepted"), rows), height=300)


def rounds_chart(data: ReportData) -> Chart:
    """How many tokens a round yields: the histogram of accepted tokens, plus the target's own."""
    title = "Tokens per round"
    histogram = [int(count) for count in data.acceptance.get("acceptance_histogram") or ()]
    total = sum(histogram)
    if not total:
        return absent("rounds", title, NO_COUNTERS)
    yields = [str(accepted + 1) for accepted in range(len(histogram))]
    trace = _bars(yields, [100 * count / total for count in histogram])
    trace["hovertext"] = [
        f"{tokens} tokens ({accepted} accepted): {count} of {total} rounds"
        for accepted, (tokens, count) in enumerate(zip(yields, histogram, strict=True))
    ]
    top = max(100 * count / total for count in histogram)
    chart = figure(
        [trace], 300, xaxis=axis("tokens from one round", type="category"),
        yaxis=axis("rounds", range=[0, top * 1.15], ticksuffix=" %"), bargap=0.35,
    )  # fmt: skip
    rows = tuple(
        (text_cell(tokens), text_cell(count), text_cell(percent_text(count / total)))
        for tokens, count in zip(yields, histogram, strict=True)
    )
    caption = (
        "What a round (one draft, one pass of the target) yields, the target's own token included. "
        "Plain decoding is always 1."
    )
    return Chart(
        "rounds", title, caption, {"": chart}, table=Table(("Tokens", "Rounds", "Share"), rows), height=300
    )  # fmt: skip


def _bars(names: Sequence[str], heights: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "bar", "x": list(names), "y": list(heights), "hoverinfo": "text",
        "marker": {"color": "@speculative", "cornerradius": 3},
        "text": [percent_text(height / 100) for height in heights],
        "textposition": "outside", "cliponaxis": False, "textfont": {"color": "@ink", "size": 12},
    }  # fmt: skip


def scatter_chart(data: ReportData) -> Chart:
    """Each prompt's acceptance against its own speed-up, one variant a concurrency."""
    title = "Does acceptance explain the speed-up?"
    pairs = [pair for pair in data.pairs if pair.speedup is not None and _acceptance(pair) is not None]
    if not pairs:
        reason = NO_COUNTERS if any(pair.complete for pair in data.pairs) else "No prompt was answered by both arms."
        return absent("scatter", title, reason)
    levels = sorted({pair.concurrency for pair in pairs})
    categories = sorted({pair.category for pair in pairs})
    marks = {category: _SYMBOLS[index % len(_SYMBOLS)] for index, category in enumerate(categories)}
    variants = {str(level): _points([p for p in pairs if p.concurrency == level], marks) for level in levels}
    controls = (Control("level", "Concurrency", tuple(Choice(str(level), str(level)) for level in levels)),)
    caption = (
        "One mark a prompt. Marks that fall off the trend are prompts whose speed-up has another cause: length, load, "
        "noise."
    )
    return Chart("scatter", title, caption, variants, controls, _scatter_table(pairs), height=400, wide=True)


def _acceptance(pair: Pair) -> float | None:
    return None if pair.speculative is None else pair.speculative.acceptance


def _points(pairs: Sequence[Pair], marks: Mapping[str, str]) -> Figure:
    traces = []
    for category, symbol in marks.items():
        members = [pair for pair in pairs if pair.category == category]
        traces.append({
            "type": "scatter", "mode": "markers", "name": safe(short(category)),
            "x": [100 * (_acceptance(pair) or 0.0) for pair in members], "y": [pair.speedup for pair in members],
            "marker": {
                "symbol": symbol, "size": 10, "color": "@speculative", "opacity": 0.78,
                "line": {"color": "@card", "width": 1},
            },
            "hovertext": [_hover(pair) for pair in members], "hoverinfo": "text",
        })  # fmt: skip
    return figure(
        traces, 400, showlegend=True, shapes=[unity("y")], hovermode="closest",
        xaxis=axis("acceptance rate of the prompt", ticksuffix=" %", rangemode="tozero"),
        yaxis=axis("speed-up of the prompt", tickformat=".2~f"),
    )  # fmt: skip


def _hover(pair: Pair) -> str:
    row = pair.speculative
    assert row is not None
    counts = f"{row.accepted} of {row.drafted} drafted tokens accepted"
    head = f"<b>{safe(pair.prompt_id)}</b> · {safe(pair.category)}"
    return f"{head}<br>{counts}<br>speed-up {ratio_text(pair.speedup or 0.0)}"


def _scatter_table(pairs: Sequence[Pair]) -> Table:
    ordered = sorted(pairs, key=lambda pair: (pair.concurrency, -(_acceptance(pair) or 0.0), pair.prompt_id))
    rows = tuple(
        (
            text_cell(pair.prompt_id), text_cell(pair.category), text_cell(pair.concurrency),
            text_cell(percent_text(_acceptance(pair) or 0.0)), text_cell(ratio_text(pair.speedup or 0.0)),
        )
        for pair in ordered
    )  # fmt: skip
    return Table(("Prompt", "Category", "Concurrency", "Acceptance", "Speed-up"), rows, frozenset({1}))
