"""Running the steps: what cannot run is skipped with the reason, what fails does not stop the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from trtspec.acceptance.context import Context, Outcome, Skip, Status, StepFailure
from trtspec.acceptance.steps import Step

__all__ = ["known_commands", "run_steps"]


def run_steps(
    context: Context, steps: Sequence[Step], commands: frozenset[str], tell: Callable[[Outcome], None]
) -> bool:
    """Run all steps; True when none failed. `tell` hears of each that ended; Ctrl-C marks the rest as interrupted."""
    interrupted = False
    for step in steps:
        started = time.monotonic()
        try:
            status, reason = ("interrupted", None) if interrupted else _run(context, step, commands)
        except KeyboardInterrupt:
            interrupted, status, reason = True, "interrupted", None
        outcome = Outcome(step.id, step.title, status, reason, time.monotonic() - started)
        context.outcomes[step.id] = outcome
        tell(outcome)
    return all(outcome.status in {"passed", "skipped"} for outcome in context.outcomes.values())


def _run(context: Context, step: Step, commands: frozenset[str]) -> tuple[Status, str | None]:
    if step.command is not None and step.command not in commands:
        return "skipped", f"this version of trtspec has no command {step.command!r}"
    for need in step.needs:
        before = context.outcomes[need]
        if before.status != "passed":
            return "skipped", before.reason if before.status == "skipped" else f"{need} {before.status}"
    try:
        step.action(context)
    except Skip as reason:
        return "skipped", str(reason)
    except StepFailure as reason:
        return "failed", str(reason)
    except Exception as error:  # noqa: BLE001 - whatever a step meets on a strange machine belongs in the summary
        return "failed", f"{type(error).__name__}: {error}"
    return "passed", None


def known_commands(context: Context) -> frozenset[str]:
    """The commands that the installed trtspec has, as its help lists them."""
    done = context.run("trtspec-help", (*context.trtspec, "--help"), timeout=120.0)
    listed = done.stdout.partition("Commands:")[2]
    return frozenset(re.findall(r"^  ([a-z][\w-]*)\s", listed, re.MULTILINE))
