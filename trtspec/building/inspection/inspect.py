"""Holding finished engines against what was asked for, before anything is served with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from trtspec.building.inspection import engine_rules
from trtspec.building.inspection.expectation import Expectation
from trtspec.building.inspection.facts import EngineFacts, examine
from trtspec.errors import EngineRejected
from trtspec.rules.registry import Finding, rules_of, run_rules

__all__ = ["errors_of", "inspect_engine", "inspect_engines", "refuse"]

assert engine_rules.MODULES  # they are in the registry


def inspect_engine(folder: Path, expectation: Expectation) -> tuple[Finding, ...]:
    """What is wrong with one engine, errors first; never raises for what it finds in the folder."""
    return _run(EngineFacts((examine(folder, expectation),)))


def inspect_engines(
    engines: Sequence[tuple[Path, Expectation]], *, acceptance: Literal["tokens", "logits"] = "tokens"
) -> tuple[Finding, ...]:
    """What is wrong with the engines of a pair, each by itself and all together, errors first."""
    return _run(EngineFacts(tuple(examine(folder, expectation) for folder, expectation in engines), acceptance))


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that forbid serving the engine."""
    return tuple(finding for finding in findings if finding.level == "error")


def refuse(folder: Path, findings: Iterable[Finding]) -> None:
    """EngineRejected with every error among the findings; nothing when there is none."""
    errors = errors_of(findings)
    if errors:
        lines = "".join(f"\n  {finding.message}" for finding in errors)
        message = f"the engine is not what was asked for:{lines}"
        raise EngineRejected(message, errors, where=str(folder), fix=errors[0].fix)


def _run(facts: EngineFacts) -> tuple[Finding, ...]:
    return run_rules(facts, rules_of("engine"))
