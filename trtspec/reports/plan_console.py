"""A plan on one screen of a terminal: verdict, memory, speed-up, cost, a measured run."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from trtspec.planning.plan import Plan
from trtspec.reports.plan_cost import print_cost, print_measured
from trtspec.reports.plan_memory import print_memory
from trtspec.reports.plan_speed import print_speed
from trtspec.reports.plan_text import say

__all__ = ["print_plan"]


def print_plan(console: Console, plan: Plan) -> None:
    """Everything but the findings and the terms (`plan_detail`)."""
    style = "bold green" if plan.ok else "bold red"
    say(console, f"[{style}]{escape(plan.verdict)}[/]")
    if plan.memory is not None:
        print_memory(console, plan.memory)
    if plan.forecast is not None and plan.ok:
        print_speed(console, plan.forecast)
    elif plan.ok and plan.memory is not None and plan.run is None:
        say(console, f"\n[bold]speed-up[/]  {escape(plan.reasons['speedup'])}")
    if plan.ok:
        print_cost(console, plan)
    print_measured(console, plan)
