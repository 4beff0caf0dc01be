"""`lint_repository`: read a repository and run all rules about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.repository.lint import repository_rules
from trtspec.repository.lint.facts import RepositoryFacts, gather
from trtspec.repository.lint.listeners import Listener
from trtspec.repository.lint.paths import RootMap
from trtspec.rules.registry import LEVELS, Finding, rules_of, run_rules

__all__ = ["LintResult", "lint_repository"]

assert repository_rules.MODULES  # they are in the registry


@dataclass(frozen=True)
class LintResult:
    """What was read of a repository and what the rules found; `ok` when no finding is an error."""

    facts: RepositoryFacts
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True when nothing forbids serving the repository."""
        return not any(finding.level == "error" for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One line: whether it can be served, and how many findings of each level there are."""
        counts = Counter(finding.level for finding in self.findings)
        parts = [f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in LEVELS if counts[level]]
        found = ", ".join(parts) if parts else "nothing found"
        return f"the repository {'can' if self.ok else 'cannot'} be served: {found}"

    def to_json(self) -> dict[str, Any]:
        """The result as `repo --lint --output json` prints it, for one repository."""
        return {
            "folder": str(self.facts.folder),
            "ok": self.ok,
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "models": [self._model(model.name) for model in self.facts.models],
        }

    def _model(self, name: str) -> dict[str, Any]:
        model = next(model for model in self.facts.models if model.name == name)
        view = self.facts.engines.get(name)
        return {
            "name": name,
            "kind": model.kind if model.config is not None else None,
            "backend": model.backend or None,
            "versions": list(model.versions),
            "decoupled": model.decoupled if model.config is not None else None,
            "engine": view.seen if view else None,
            "engine_folder": str(view.host) if view and view.host else None,
            "tensorrt_llm": self.facts.version(model) if model.cpp else None,
        }


def lint_repository(
    folder: Path,
    *,
    roots: RootMap | None = None,
    image: str | None = None,
    listeners: tuple[Listener, ...] = (),
) -> LintResult:
    """What is wrong with the repository in `folder`, errors first; never raises for what it finds in it.

    `roots`: where the server's paths lie here; `image`: what will serve it; `listeners`: the ports of its server, last,
    after those of servers that run beside it. UsageError when there is no such folder.
    """
    facts = gather(folder, roots or RootMap(), image, listeners)
    return LintResult(facts, run_rules(facts, rules_of("repository")))
