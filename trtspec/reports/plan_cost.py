"""A plan's cost, and a measured run beside its prediction, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.markup import escape

from trtspec.planning.cost import ArmCost, cheapest
from trtspec.planning.plan import Plan
from trtspec.reports.formats import number_text, percent_text
from trtspec.reports.plan_text import plain_table, say, thinned
from trtspec.units import count_text

__all__ = ["print_cost", "print_measured"]

_ROWS = 6
Read = Callable[[ArmCost], "float | None"]


def print_cost(console: Console, plan: Plan) -> None:
    """Cost of tokens and GPUs for the load, where the user gave a price or a load; nothing else."""
    prices, rows = plan.prices, plan.cost_rows
    if not rows or (prices.gpu_hour is None and prices.requests_per_second is None):
        return
    by_arm = {arm: {row.concurrency: row for row in rows if row.arm == arm} for arm in ("baseline", "speculative")}
    table = plain_table()
    table.add_column("concurrency", justify="right", no_wrap=True)
    columns = _columns(plan)
    for label, _ in columns:
        table.add_column(label, justify="right", no_wrap=True)
    for concurrency in thinned(list(by_arm["baseline"]), _ROWS):
        table.add_row(str(concurrency), *(_both(by_arm, concurrency, read) for _, read in columns))
    console.print("\n[bold]cost[/]")
    say(console, table)
    if found := _cheapest(plan):
        say(console, found)
    say(console, f"[dim]{_caption(plan)}[/]")


def _columns(plan: Plan) -> list[tuple[str, Read]]:
    columns: list[tuple[str, Read]] = []
    priced, load = plan.prices.gpu_hour is not None, plan.prices.requests_per_second is not None
    if priced:
        columns.append(("a million output", lambda row: row.per_million_output))
        columns.append(("of all tokens", lambda row: row.per_million_blended))
    if load:
        columns.append(("GPUs for load", lambda row: row.fleet_gpus))
    if priced and load:
        columns.append(("a month", lambda row: row.per_month))
    if not priced:
        columns.append(("tokens/s a GPU", lambda row: row.tokens_per_second_per_gpu))
    return columns


def _both(by_arm: Mapping[str, Mapping[int, ArmCost]], concurrency: int, read: Read) -> str:
    """`baseline → speculative`, in brackets where so many sequences do not fit."""
    parts = []
    for rows in by_arm.values():
        row = rows.get(concurrency)
        value = None if row is None else read(row)
        if row is not None and value is not None:
            text = number_text(value) if isinstance(value, float) else count_text(value)
            parts.append(text if row.fits else f"({text})")
    return " → ".join(parts) or "–"


def _caption(plan: Plan) -> str:
    baseline, speculative = plan.deployments
    parts = [
        f"GPUs: {baseline.gpus} baseline, {speculative.gpus} speculative",
        f"sequences at once: {_known(baseline.max_concurrency)} and {_known(speculative.max_concurrency)}",
    ]
    if plan.forecast is not None and plan.forecast.acceptance is not None:
        parts.insert(0, "baseline → speculative")
    if plan.draft_share is not None:
        parts.append(f"the draft takes {percent_text(plan.draft_share)} of their memory")
    if plan.prices.gpu_hour is not None:
        parts.append(f"{plan.prices.gpu_hour:g} a GPU and hour in your currency")
    if plan.prices.requests_per_second is not None:
        parts.append(f"load {plan.prices.requests_per_second:g} requests/s")
    return "; ".join(parts)


def _known(count: int | None) -> str:
    return "?" if count is None else str(count)


def _cheapest(plan: Plan) -> str | None:
    """Both arms at the concurrency that uses their GPUs best, of those that fit."""
    if plan.prices.gpu_hour is None:
        return None
    parts = []
    for arm in ("baseline", "speculative"):
        row = cheapest(plan.cost_rows, arm)
        if row is not None and row.per_million_output is not None:
            parts.append(f"{arm} {number_text(row.per_million_output)} at concurrency {row.concurrency}")
    return f"cheapest million output tokens: {', '.join(parts)}" if parts else None


def print_measured(console: Console, plan: Plan) -> None:
    """The run's acceptance, each concurrency beside its prediction, and what a round cost."""
    run = plan.run
    if run is None:
        return
    console.print(f"\n[bold]measured[/]  {escape(str(run.path))}")
    if run.acceptance is None:
        say(console, f"acceptance unknown: {escape(run.reason or '')}")
    else:
        length = run.acceptance.draft_length
        tokens = run.acceptance.tokens_per_round(length)
        rate = percent_text(run.acceptance.rate)
        ideal = f"ideal by acceptance alone ×{tokens:.2f} (drafting and verifying free)"
        say(console, f"{rate} of {length} drafted tokens accepted, {tokens:.2f} tokens a round: {ideal}")
    table = plain_table()
    for label in ("concurrency", "speed-up", "predicted", "error", "cost ratio", "round costs", "break-even"):
        table.add_column(label, justify="right", no_wrap=True)
    for row in plan.comparisons():
        table.add_row(*_cells(row))
    say(console, table)
    say(console, f"[dim]{_MEANING}[/]")
    if plan.forecast is None and "speedup" in plan.reasons:
        say(console, f"[dim]no prediction: {escape(plan.reasons['speedup'])}[/]")
    for warning in plan.run_warnings:
        say(console, f"[yellow]note[/]  {escape(warning)}")


_MEANING = (
    "error: predicted / measured - 1; cost ratio: a drafted token in target steps, all overheads included; round "
    "costs: in target steps; break-even: the acceptance rate that this cost needs"
)


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    measured, predicted = _part(row, "measured"), _part(row, "predicted")
    errors, implied = _part(row, "error"), _part(row, "implied")
    speedup = measured.get("speedup")
    style = "red" if speedup is not None and speedup < 1 else "green"
    return (
        str(row["concurrency"]),
        "–" if speedup is None else f"[{style}]×{speedup:.2f}[/]",
        _shown(predicted.get("speedup"), "×{:.2f}"),
        _shown(errors.get("speedup"), "{:+.0%}"),
        _shown(implied.get("cost_ratio"), "{:.2f}"),
        _shown(implied.get("round_in_target_steps"), "{:.2f}"),
        _shown(implied.get("break_even_acceptance_rate"), "{:.0%}"),
    )


def _part(row: Mapping[str, object], name: str) -> Mapping[str, float | None]:
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
