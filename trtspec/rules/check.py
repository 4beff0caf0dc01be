"""`check_pair`: run all rules over a spec's checkpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from trtspec.errors import PairError
from trtspec.hardware.catalogue import Gpu
from trtspec.rules.facts import Facts, ModelRole, gather_facts
from trtspec.rules.registry import LEVELS, Finding, Level, run_rules
from trtspec.rules.sizes import model_parameters
from trtspec.spec import SpecFile

__all__ = ["RULE_MODULES", "CheckResult", "check_pair", "require_pair"]

SCHEMA = 1
# importing them fills the registry, in this order: what cannot be read first, then models, pair, spec
_TOPICS = (
    "reading", "architecture", "model", "size", "tokenizer", "text", "length", "quantization", "dtype", "kv",
    "toolchain", "parallel", "build", "flag", "load",
)  # fmt: skip
RULE_MODULES = tuple(import_module(f"trtspec.rules.{topic}_rules") for topic in _TOPICS)


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
        what = "pair" if "draft" in self.facts.roles else "target"
        if not self.ok and {finding.id for finding in self.of_level("error")} == {"weights-missing"}:
            return f"the {what} would fit, but weights are missing: {found}"
        return f"the {what} {'fits' if self.ok else 'cannot be served'}: {found}"

    def to_json(self) -> dict[str, Any]:
        """The result as `check --output json` prints it."""
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "verdict": self.verdict,
            "findings": [finding.to_json() for finding in self.findings],
            "draft_method": self.facts.spec.draft.method,
            "pair": self.facts.pair.to_json() if "draft" in self.facts.roles else None,
            "toolchain": _toolchain_summary(self.facts),
            "gpu": _gpu_summary(self.facts),
            "checkpoints": {role: checkpoint_summary(self.facts, role) for role in self.facts.roles},
        }


def _count(number: int, level: Level) -> str:
    return f"{number} {level}{'' if number == 1 else 's'}"


def _toolchain_summary(facts: Facts) -> dict[str, Any] | None:
    """Which TensorRT-LLM the spec means; None for a runtime without it, or where that is not clear."""
    toolchain = facts.toolchain
    if toolchain is None:
        return None
    return {"version": toolchain.version, "origin": toolchain.origin, "image": toolchain.image}


def _gpu_summary(facts: Facts) -> dict[str, Any] | None:
    """The GPU of the spec's hardware section; None without one, or for a name that is not known."""
    gpu, hardware = facts.gpu, facts.spec.hardware
    if gpu is None or hardware is None:
        return None
    return {"name": gpu.name, "sm": gpu.sm, "memory_bytes": gpu.memory_bytes, "count": hardware.count}


def checkpoint_summary(facts: Facts, role: ModelRole) -> dict[str, Any]:
    """The facts of one checkpoint that a person compares; None for what could not be read."""
    survey = facts.surveys[role]
    config, weights, tokenizer = survey.config, survey.weights, survey.tokenizer
    return {
        "folder": str(survey.folder),
        "architecture": config.architecture if config else None,
        "parameters": model_parameters(facts, role),
        "layers": config.layers if config else None,
        "hidden_size": config.hidden if config else None,
        "attention_heads": config.heads if config else None,
        "kv_heads": config.kv_heads if config else None,
        "vocab_size": survey.vocab_size,
        "token_ids": tokenizer.width if tokenizer else None,
        "positions": config.usable_positions if config else None,
        "dtypes": weights.bytes_by_dtype if weights else None,
        "size_bytes": weights.size if weights else survey.index.total_size if survey.index else None,
        "format": weights.format if weights else None,
        "quantization": config.quant.algo or config.quant.method if config and config.quant else None,
        "end_ids": list(survey.end_ids),
        "chat_template": survey.chat_template is not None if tokenizer else None,
    }


def check_pair(spec_file: SpecFile, *, weights: bool = True, gpu: Gpu | None = None) -> CheckResult:
    """Read both checkpoints of a spec and run every rule about pairs; faults of the checkpoints become findings.

    `weights=False`: weight files that are not there (yet) are no error. `gpu` is this machine's, for a spec that names
    none.
    """
    facts = gather_facts(spec_file, weights=weights, gpu=gpu)
    return CheckResult(facts, run_rules(facts))


def require_pair(spec_file: SpecFile, *, weights: bool = True, gpu: Gpu | None = None) -> CheckResult:
    """`check_pair`, but PairError with all errors when the pair cannot be served."""
    result = check_pair(spec_file, weights=weights, gpu=gpu)
    errors = result.of_level("error")
    if errors:
        lines = "".join(f"\n  {finding.role}: {finding.message}" for finding in errors)
        pair = "draft" in result.facts.roles
        what = "target and draft cannot be served together" if pair else "the target cannot be served"
        raise PairError(f"{what}:{lines}", errors, fix=errors[0].fix)
    return result
