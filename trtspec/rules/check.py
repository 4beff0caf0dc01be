"""`check_pair`: run all rules over a spec's checkpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from trtspec.checkpoints import Survey
from trtspec.errors import PairError
from trtspec.rules import length_rules, model_rules, reading_rules, tokenizer_rules
from trtspec.rules.facts import MODEL_ROLES, Facts, gather_facts
from trtspec.rules.registry import LEVELS, Finding, Level, run_rules
from trtspec.spec import SpecFile

__all__ = ["CheckResult", "check_pair", "require_pair"]

SCHEMA = 1
# importing them fills the registry, in this order
RULE_MODULES = (reading_rules, model_rules, tokenizer_rules, length_rules)


@dataclass(frozen=True)
class CheckResult:
    """What was read and what the rules found; `ok` when no finding is an error."""

    facts: Facts
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing forbids building the pair."""
        return not self.of_level("error")

    def of_level(self, level: Level) -> tuple[Finding, ...]:
        """The findings of one level."""
        return tuple(finding for finding in self.findings if finding.level == level)

    @property
    def verdict(self) -> str:
        """One line: whether the pair can be served, and how many findings of each level there are."""
        counts = Counter(finding.level for finding in self.findings)
        parts = [_count(counts[level], level) for level in LEVELS if counts[level]]
        found = ", ".join(parts) if parts else "nothing found"
        return f"the pair {'fits' if self.ok else 'cannot be served'}: {found}"

    def to_json(self) -> dict[str, Any]:
        """The result as `check --output json` prints it."""
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "pair": self.facts.pair.to_json(),
            "checkpoints": {role: checkpoint_summary(self.facts.surveys[role]) for role in MODEL_ROLES},
        }


def _count(number: int, level: Level) -> str:
    return f"{number} {level}{'' if number == 1 else 's'}"


def checkpoint_summary(survey: Survey) -> dict[str, Any]:
    """The facts of one checkpoint that a person compares; None for what could not be read."""
    config, weights, tokenizer = survey.config, survey.weights, survey.tokenizer
    return {
        "folder": str(survey.folder),
        "architecture": config.architecture if config else None,
        "parameters": weights.parameters if weights else None,
        "layers": config.layers if config else None,
        "hidden_size": config.hidden if config else None,
        "attention_heads": config.heads if config else None,
        "kv_heads": config.kv_heads if config else None,
        "vocab_size": survey.vocab_size,
        "token_ids": tokenizer.width if tokenizer else None,
        "positions": config.usable_positions if config else None,
        "dtypes": weights.bytes_by_dtype if weights else None,
        "size_bytes": weights.size if weights else None,
        "format": weights.format if weights else None,
        "end_ids": list(survey.end_ids),
        "chat_template": survey.chat_template is not None if tokenizer else None,
    }


def check_pair(spec_file: SpecFile) -> CheckResult:
    """Read both checkpoints of a spec and run every rule; faults of the checkpoints become findings."""
    facts = gather_facts(spec_file)
    return CheckResult(facts, run_rules(facts))


def require_pair(spec_file: SpecFile) -> CheckResult:
    """`check_pair`, but PairError with all errors when the pair cannot be served."""
    result = check_pair(spec_file)
    errors = result.of_level("error")
    if errors:
        lines = "".join(f"\n  {finding.role}: {finding.message}" for finding in errors)
        raise PairError(f"target and draft cannot be served together:{lines}", errors, fix=errors[0].fix)
    return result
