"""Rules: what is checked, how bad it is, where it is known from; and findings: what a rule says of given facts.

A rule is a pure function over `Facts` that yields a `Hit` for each thing it finds. `@rule` enters it in `RULES`, from
which `check`, the documentation and later commands read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trtspec.rules.facts import Facts

__all__ = ["LEVELS", "RULES", "Finding", "Hit", "Level", "Rule", "Severity", "rule", "run_rules"]

Severity = Literal["CRASH", "OOM", "SILENT", "PERF", "INFO"]
Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
Role = Literal["target", "draft", "pair", "spec"]


@dataclass(frozen=True)
class Hit:
    """One thing that a rule found: whose it is, what with its numbers, the way out, and the numbers as data.

    `level` overrides the rule's own where one rule grades what it finds.
    """

    role: Role
    message: str
    fix: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    level: Level | None = None


Condition = Callable[[Facts], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One check. severity: what happens when it is ignored; source: where the fault is known from."""

    id: str
    severity: Severity
    level: Level
    title: str
    source: str
    condition: Condition = field(repr=False)


@dataclass(frozen=True)
class Finding:
    """What a rule says about a pair."""

    id: str
    level: Level
    severity: Severity
    role: Role
    message: str
    fix: str | None
    data: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The finding as `check --output json` prints it."""
        return {
            "id": self.id,
            "level": self.level,
            "severity": self.severity,
            "role": self.role,
            "message": self.message,
            "fix": self.fix,
            "data": dict(self.data),
        }


RULES: dict[str, Rule] = {}


def rule(
    rule_id: str, severity: Severity, level: Level, *, title: str, source: str
) -> Callable[[Condition], Condition]:
    """Enter a condition in the registry under `rule_id`, which must be new."""

    def register(condition: Condition) -> Condition:
        assert rule_id not in RULES, f"two rules are called {rule_id}"
        RULES[rule_id] = Rule(rule_id, severity, level, title, source, condition)
        return condition

    return register


def run_rules(facts: Facts, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """What the rules (default: all) find, errors first, else in the order of the registry."""
    chosen = RULES.values() if rules is None else rules
    found = [_finding(item, hit) for item in chosen for hit in item.condition(facts)]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def _finding(item: Rule, hit: Hit) -> Finding:
    return Finding(item.id, hit.level or item.level, item.severity, hit.role, hit.message, hit.fix, hit.data)
