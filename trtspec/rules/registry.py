"""Rules: what is checked, how bad it is, where it is known from; and findings: what a rule says of given facts.

A rule is a pure function over facts that yields a `Hit` for each thing it finds. `@rule` enters it in `RULES`, from
which `check`, `plan`, the inspection of engines, `trtspec rules` and the documentation read. Its subject says which
facts it takes: those of a pair (`trtspec.rules.facts.Facts`), or those of the package that registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

__all__ = [
    "LEVELS",
    "RULES",
    "SEVERITIES",
    "SUBJECTS",
    "Finding",
    "Hit",
    "Level",
    "Role",
    "Rule",
    "Severity",
    "Subject",
    "rule",
    "rules_of",
    "run_rules",
]

Severity = Literal["CRASH", "OOM", "SILENT", "PERF", "INFO"]
Level = Literal["error", "warning", "note"]
Subject = Literal["pair", "plan", "engine", "repository"]
Role = Literal["baseline", "target", "draft", "pair", "spec", "repository"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
SUBJECTS: tuple[Subject, ...] = ("pair", "plan", "engine", "repository")
# severity → what happens when the rule is ignored
SEVERITIES: dict[Severity, str] = {
    "CRASH": "a build, the server or a request stops with an error",
    "OOM": "a GPU runs out of memory",
    "SILENT": "it runs, and something is wrong or missing without a word",
    "PERF": "it works, and speculation gives less or costs more",
    "INFO": "nothing; it is worth knowing",
}


@dataclass(frozen=True)
class Hit:
    """One thing that a rule found: whose it is, what with its numbers, the way out, and the numbers as data.

    `level` and `severity` override the rule's own where one rule grades what it finds: the same difference may stop a
    build in one spec and be worth a note in another.
    """

    role: Role
    message: str
    fix: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    level: Level | None = None
    severity: Severity | None = None


Condition = Callable[[Any], Iterable[Hit]]
Registered = TypeVar("Registered", bound=Condition)


@dataclass(frozen=True)
class Rule:
    """One check. severity: what happens when it is ignored; source: where the fault is known from.

    `subject` says which facts `condition` takes; `explanation` why it matters, `fix` what to do in general (a finding
    says it with the numbers), `example` a spec or a file that the rule speaks about.
    """

    id: str
    severity: Severity
    level: Level
    title: str
    source: str
    condition: Condition = field(repr=False)
    subject: Subject = "pair"
    explanation: str = ""
    fix: str = ""
    example: str = ""

    def to_json(self) -> dict[str, Any]:
        """The rule as `rules --output json` prints it."""
        names = ("id", "subject", "severity", "level", "title", "explanation", "fix", "source", "example")
        return {name: getattr(self, name) for name in names} | {"ignored": SEVERITIES[self.severity]}


@dataclass(frozen=True)
class Finding:
    """What a rule says about a pair, a plan, an engine or a repository."""

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


def rule(  # noqa: PLR0913 - every field of a rule, by name
    rule_id: str,
    severity: Severity,
    level: Level,
    *,
    title: str,
    source: str,
    subject: Subject = "pair",
    explanation: str = "",
    fix: str = "",
    example: str = "",
) -> Callable[[Registered], Registered]:
    """Enter a condition in the registry under `rule_id`, which must be new."""

    def register(condition: Registered) -> Registered:
        assert rule_id not in RULES, f"two rules are called {rule_id}"
        RULES[rule_id] = Rule(
            rule_id, severity, level, title, source, condition, subject, explanation, fix, example
        )  # fmt: skip
        return condition

    return register


def rules_of(subject: Subject) -> tuple[Rule, ...]:
    """The registered rules about one subject, in the order of registration."""
    return tuple(item for item in RULES.values() if item.subject == subject)


def run_rules(facts: Any, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """What the rules (default: those about pairs) find, errors first, else in the order of the registry."""
    chosen = rules_of("pair") if rules is None else rules
    found = [_finding(item, hit) for item in chosen for hit in item.condition(facts)]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def _finding(item: Rule, hit: Hit) -> Finding:
    level, severity = hit.level or item.level, hit.severity or item.severity
    return Finding(item.id, level, severity, hit.role, hit.message, hit.fix, hit.data)
