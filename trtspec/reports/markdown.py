"""The report as a Markdown summary, made for a pull request or a job's summary page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trtspec.reports.data import ReportData
from trtspec.reports.drafters import drafter_lines, drafter_table, told_by_drafter
from trtspec.reports.formats import acceptance_text, percent_text, plain, ratio_text
from trtspec.reports.gates import GateResult
from trtspec.reports.level_cells import TIMES, median_cells, rate_cell
from trtspec.reports.names import metric_name
from trtspec.reports.reading import Part
from trtspec.reports.view import break_even_text, equality_text
from trtspec.units import bounds_text

__all__ = ["gate_lines", "markdown_table", "markdown_text", "render_markdown"]

_MARKS = {"FASTER": "🟢", "SLOWER": "🔴", "NO DIFFERENCE": "⚪", "MIXED": "🟡"}
_CATEGORIES = 12


def render_markdown(data: ReportData, gates: Sequence[GateResult] = ()) -> str:
    """Verdict, gates, both arms at each load, acceptance, warnings; the rest is in the page."""
    parts = [
        _head(data),
        gate_lines(gates),
        _levels(data),
        _facts(data),
        _categories(data),
        _drafters(data),
        _warnings(data),
        _foot(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_text(text: object) -> str:
    """`text` on one line that neither breaks a table nor is read as markup."""
    words = escape(" ".join(str(text).split()), quote=False)
    for sign in "\\`*_{}[]|#~":
        words = words.replace(sign, f"\\{sign}")
    return words


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose cells are Markdown already; the first `left` columns are aligned left."""
    marks = [":---" if index < left else "---:" for index in range(len(columns))]
    lines = [columns, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(data: ReportData) -> str:
    code = str(data.comparison.get("verdict_code"))
    mark = _MARKS.get(code, "🟡")
    return f"### {mark} trtspec: {markdown_text(data.name)}\n\n**{markdown_text(data.comparison['verdict'])}**"


def gate_lines(results: Sequence[GateResult]) -> str:
    """A line a gate, with what it met."""
    lines = [
        f"- {'❌' if result.failed else '✅'} fail if `{_code(result.gate.text)}`: {_met(result)}" for result in results
    ]
    return "\n".join(lines)


def _code(text: str) -> str:
    return text.replace("`", "'")


def _met(result: GateResult) -> str:
    return f"not measured ({markdown_text(result.reason)})" if result.value is None else f"it is {result.value:.4g}"


def _levels(data: ReportData) -> str:
    if not data.levels:
        return ""
    columns = ("load", "arm", "ok", "failed", *(f"{label}, ms" for _, label in TIMES), "tokens/s", "speed-up")
    rows = []
    for level in data.levels:
        for index, arm in enumerate(data.arms):
            speedup = _speedup(level.part, data.headline) if arm == "speculative" else ""
            head = markdown_text(level.label) if index == 0 else ""
            rows.append(
                (
                    head,
                    arm,
                    *_counts(level.part, arm),
                    *median_cells(level.part, arm),
                    rate_cell(level.part, arm),
                    speedup,
                )
            )
    note = f"Medians; speed-up in {metric_name(data.headline).lower()} with its 95 % interval."
    return f"{markdown_table(columns, rows, left=2)}\n\n<sub>{note}</sub>"


def _counts(part: Part, arm: str) -> tuple[str, str]:
    counts = part.counts(arm)
    return str(counts.get("ok") or 0), str(counts.get("failed") or 0)


def _speedup(part: Part, name: str) -> str:
    found = part.speedup(name)
    if found is None:
        return "–"
    bounds = "" if found.low is None or found.high is None else f" ({bounds_text(found.low, found.high)})"
    return f"**{ratio_text(found.estimate)}**{bounds}"


def _facts(data: ReportData) -> str:
    acceptance = data.acceptance
    rate, length = acceptance.get("acceptance_rate"), acceptance.get("mean_acceptance_length")
    if length is None and rate is None:
        told = f"unknown: {markdown_text(plain(acceptance.get('reason') or 'no counters'))}"
    else:
        told = acceptance_text(rate, length)
    lines = [
        f"- **acceptance**: {told}",
        *(f"- **drafted by** {markdown_text(line)}" for line in drafter_lines(told_by_drafter(acceptance))),
        f"- **answers**: {markdown_text(equality_text(data.comparison))}",
        f"- **break-even**: {markdown_text(break_even_text(data))}",
    ]
    return "\n".join(lines)


def _categories(data: ReportData) -> str:
    told = data.acceptance.get("by_category") or {}
    rows = []
    for name, part in data.categories().items():
        rate = (told.get(name) or {}).get("acceptance_rate")
        accepted = "–" if rate is None else percent_text(rate)
        rows.append((markdown_text(name), accepted, _speedup(part, data.headline), part.estimate(data.headline) or 0.0))
    if len(rows) < 2:
        return ""
    best = sorted(rows, key=lambda row: -row[3])
    left = f"\n\n{len(best) - _CATEGORIES} more are in the report." if len(best) > _CATEGORIES else ""
    table = markdown_table(("category", "accepted", "speed-up"), [row[:3] for row in best[:_CATEGORIES]])
    return f"<details><summary>By category</summary>\n\n{table}{left}\n\n</details>"


def _drafters(data: ReportData) -> str:
    """Who drafted in each category; what it comes to over all is among the facts."""
    table = drafter_table(data)
    rows = [[markdown_text(cell.text) for cell in row] for row in table.rows if row[0].text != "all"]
    if not rows:
        return ""
    shown = markdown_table(table.columns, rows, left=2)
    return f"<details><summary>Who drafted, by category</summary>\n\n{shown}\n\n</details>"


def _warnings(data: ReportData) -> str:
    warnings = [markdown_text(text) for text in data.comparison.get("warnings") or ()]
    if not warnings:
        return ""
    lines = "\n".join(f"- ⚠️ {text}" for text in warnings)
    return (
        lines if len(warnings) <= 3 else f"<details><summary>⚠️ {len(warnings)} notes</summary>\n\n{lines}\n\n</details>"
    )


def _foot(data: ReportData) -> str:
    given = data.provenance or {}
    parts = [f"{len(data.table)} requests", *(str(given[key]) for key in ("created", "platform") if given.get(key))]
    if given.get("trtspec"):
        parts.append(f"trtspec {given['trtspec']}")
    return f"<sub>{markdown_text(' · '.join(parts))}</sub>"
