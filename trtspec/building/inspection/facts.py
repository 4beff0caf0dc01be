"""What the rules about engines look at, and how they are entered in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trtspec.building.built import read_manifest
from trtspec.building.inspection.engine_config import EngineConfig, load_engine_config
from trtspec.building.inspection.expectation import Expectation
from trtspec.errors import Problem
from trtspec.hardware.catalogue import known_gpu
from trtspec.rules.registry import Hit, Level, Severity, rule
from trtspec.spec.names import Role

__all__ = ["BOTH_RUNTIMES", "EngineFacts", "InspectedEngine", "engine_rule", "examine", "rebuild"]

BOTH_RUNTIMES = ("tensorrt_llm", "torch")


@dataclass(frozen=True)
class InspectedEngine:
    """One engine folder as it lies on disk, beside what it must be.

    config: None when it cannot be read, `problems` then say why. files: name → bytes. manifest: empty when there is
    none.
    """

    folder: Path
    expectation: Expectation
    config: EngineConfig | None
    problems: tuple[Problem, ...]
    files: Mapping[str, int]
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def role(self) -> Role:
        """What the engine is for."""
        return self.expectation.role

    @property
    def sm(self) -> int | None:
        """Compute capability that it was built on (89 is 8.9); None: not recorded.

        As its manifest says, else that of the GPU which versions before 1.2 name in config.json.
        """
        value = self.manifest.get("sm")
        if type(value) is int:
            return value
        gpu = known_gpu(self.config.built_on) if self.config is not None and self.config.built_on else None
        return None if gpu is None else gpu.sm


@dataclass(frozen=True)
class EngineFacts:
    """The engines that are inspected together: one, or all of a pair."""

    engines: tuple[InspectedEngine, ...]
    acceptance: Literal["tokens", "logits"] = "tokens"

    def of(self, role: Role) -> EngineConfig | None:
        """The readable configuration of a role's engine."""
        return next((engine.config for engine in self.engines if engine.role == role), None)

    def expected(self, role: Role) -> Expectation | None:
        """What is asked of a role's engine."""
        return next((engine.expectation for engine in self.engines if engine.role == role), None)


def examine(folder: Path, expectation: Expectation) -> InspectedEngine:
    """Read an engine folder; whatever is wrong with it becomes a problem, never an exception."""
    config, problems = load_engine_config(folder)
    return InspectedEngine(folder, expectation, config, problems, _files(folder), read_manifest(folder))


def _files(folder: Path) -> dict[str, int]:
    try:
        return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    except OSError:
        return {}


EngineCondition = Callable[[InspectedEngine, EngineConfig], Iterable[Hit]]


def engine_rule(  # noqa: PLR0913 - every field of a rule, by name
    rule_id: str,
    severity: Severity,
    level: Level,
    *,
    title: str,
    source: str,
    explanation: str = "",
    fix: str = "",
    example: str = "",
    runtimes: tuple[str, ...] = ("tensorrt_llm",),
) -> Callable[[EngineCondition], EngineCondition]:
    """Register a condition that is asked of every engine whose config.json can be read, of the `runtimes` given."""

    def register(condition: EngineCondition) -> EngineCondition:
        def over_all(facts: EngineFacts) -> Iterator[Hit]:
            for engine in facts.engines:
                if engine.config is not None and engine.config.runtime in runtimes:
                    yield from condition(engine, engine.config)

        entered = rule(
            rule_id, severity, level, title=title, source=source, subject="engine", explanation=explanation, fix=fix,
            example=example,
        )  # fmt: skip
        entered(over_all)
        return condition

    return register


def rebuild(engine: InspectedEngine, flags: str = "") -> str:
    """What to do about an engine that is not what it must be; `flags`: those that it should have been built with."""
    role = engine.role
    if engine.expectation.given:
        how = f"build it again with {flags}" if flags else "give another engine"
        return f"{how}, or remove {role}.engine from the spec and let trtspec build one"
    return f"trtspec build SPEC --role {role} --force; if it comes out the same, report it with build.log"
