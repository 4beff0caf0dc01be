"""The terms behind a plan: every item of memory, every part of a step, assumptions, placement, values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape

from trtspec.planning.forecast import ADVICE, Forecast
from trtspec.planning.items import ArmMemory
from trtspec.planning.memory import MemoryPlan
from trtspec.planning.plan import Plan
from trtspec.reports.formats import number_text
from trtspec.reports.plan_memory import launch_text
from trtspec.reports.plan_text import plain_table, say
from trtspec.units import bytes_text, ms_text

__all__ = ["print_detail"]

_FORMULAS = (
    "E = (1 − α^(γ+1)) / (1 − α) tokens a round (arXiv 2211.17192, equation 1); γ drafted tokens",
    "acceptance rate = accepted / drafted = α(1 − α^γ) / ((1 − α)γ), solved for α",
    "pass = max(weight bytes / bandwidth, operations / compute) + the same for attention + links + overheads",
    "round = γ × draft pass + verify pass of γ + 1 tokens + 2 calls; never less than the frontend's own time",
    "speed-up = latency of the baseline / latency of speculation, prompt and answer together, in a closed loop",
)


def print_detail(console: Console, plan: Plan) -> None:
    """All terms, in tables."""
    if plan.memory is not None:
        _print_memory(console, plan.memory)
    if plan.forecast is not None:
        _print_steps(console, plan.forecast)
        _print_assumptions(console, plan.forecast)
    _print_values(console, plan.values)


def _print_memory(console: Console, memory: MemoryPlan) -> None:
    for title, arm in (("speculative arm", memory.speculative), ("baseline arm", memory.baseline)):
        _print_arm(console, title, arm)
    for role, cache in memory.kv_cache.items():
        say(console, f"[dim]{role}: {bytes_text(cache.bytes_per_token)} of keys and values a token = "
                     f"{escape(cache.formula)}[/]")  # fmt: skip
    placement = memory.placement
    console.print("\n[bold]placement[/]")
    for role, placed in placement.roles.items():
        ids = placement.gpu_device_ids[role] or "no GPU"
        say(console, f"  {role}: GPU {ids} (tp {placed.tp}, pp {placed.pp})")
    for name, launch in placement.launches.items():
        say(console, f"  {name}: {launch_text(launch)}: {escape(launch.why)}")
    say(console, f"  {escape(placement.why)}")
    for remedy in memory.remedies:
        needs = f" (needs {escape(remedy.needs)})" if remedy.needs else ""
        say(console, f"  [yellow]change[/] {escape(remedy.text)}: frees {bytes_text(remedy.frees)}{needs}")


def _print_arm(console: Console, title: str, arm: ArmMemory) -> None:
    gpu = max(arm.per_gpu, key=lambda item: item.used)
    console.print(f"\n[bold]memory of the fullest GPU, {title}[/]")
    table = plain_table()
    table.add_column("role", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("formula (~: an estimate)", overflow="fold")
    for item in gpu.items:
        mark = "~ " if item.estimate else ""
        table.add_row(item.role, item.kind, bytes_text(item.bytes), escape(f"{mark}{item.name}: {item.formula}"))
    say(console, table)


def _print_steps(console: Console, forecast: Forecast) -> None:
    model, chosen = forecast.model, forecast.grid.chosen
    console.print(f"\n[bold]one pass on {escape(model.machine.gpu.name)}[/] [dim](ms)[/]")
    table = plain_table(gap=1)
    table.add_column("pass", no_wrap=True)
    for label in ("at once", "matrices", "attention", "links", "overhead", "total", "limit"):
        table.add_column(label, justify="right", no_wrap=True)
    grid = forecast.grid.concurrencies
    for concurrency in dict.fromkeys((grid[0], grid[len(grid) // 2], grid[-1])):
        passes = {
            "target, 1 token": model.baseline_pass(concurrency),
            f"target, {chosen + 1} tokens": model.verify_pass(concurrency, chosen),
        }
        if model.draft is not None:
            passes["draft, 1 token"] = model.draft_pass(concurrency)
        for name, time in passes.items():
            terms = (time.matrices, time.attention, time.communication, time.overhead, time.seconds)
            shown = [number_text(1000 * value) for value in terms]
            table.add_row(name, str(concurrency), *shown, "memory" if time.memory_bound else "compute")
    say(console, table)
    _print_rounds(console, forecast)
    console.print("[bold]formulas[/]")
    for formula in _FORMULAS:
        say(console, f"  [dim]{escape(formula)}[/]")
    say(console, f"[bold]advice[/]  {escape(ADVICE)}")


def _print_rounds(console: Console, forecast: Forecast) -> None:
    chosen = forecast.grid.chosen
    table = plain_table(f"one round of {chosen} drafted tokens")
    for label in ("at once", "drafting", "verifying", "calls", "frontend", "total", "cost ratio"):
        table.add_column(label, justify="right", no_wrap=True)
    for concurrency in forecast.grid.concurrencies:
        cost = forecast.model.round_time(concurrency, chosen)
        shown = [ms_text(value) for value in (cost.draft, cost.verify, cost.calls, cost.wait, cost.seconds)]
        table.add_row(str(concurrency), *shown, f"{forecast.model.cost_ratio(concurrency):.3f}")
    say(console, table)


def _print_assumptions(console: Console, forecast: Forecast) -> None:
    console.print("\n[bold]assumptions[/] [dim]change one with --assume NAME=VALUE[/]")
    table = plain_table()
    table.add_column("name", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("origin", no_wrap=True)
    table.add_column("what", overflow="fold")
    for name, row in forecast.model.machine.assumptions.to_json().items():
        table.add_row(name, f"{row['value']:g} {row['unit']}", row["origin"], escape(row["why"]))
    say(console, table)


_AS_ORIGIN = ("in the spec", "not in the spec")  # what "given" and "default" say already


def _print_values(console: Console, values: Mapping[str, Mapping[str, Any]]) -> None:
    """By section, as in the spec; what is not in the spec and has no value is left out."""
    console.print("\n[bold]values[/]")
    table = plain_table()
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("origin", no_wrap=True)
    table.add_column("why", overflow="fold")
    shown = ((key, row) for key, row in values.items() if row["origin"] != "default" or row["value"] is not None)
    for section, rows in groupby(shown, key=lambda item: item[0].rpartition(".")[0]):
        if section:
            table.add_row(f"[bold]{section}[/]")
        for key, row in rows:
            why = "" if row.get("why") in _AS_ORIGIN else str(row.get("why") or "")
            name = ("  " if section else "") + key.rpartition(".")[2]
            table.add_row(name, escape(str(row["value"])), row["origin"], escape(why))
    say(console, table)
