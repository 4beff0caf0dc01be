"""What a load test was asked to do: the spec's values and what the command line puts over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.loadtest.plan import Shape
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS, Arm

__all__ = ["RunOptions", "run_options"]


@dataclass(frozen=True)
class RunOptions:
    """All values of one run, none left open.

    `urls` are gRPC addresses of servers that run already; empty: both arms' servers are started and stopped. `out` is
    the run's folder; None: a new one below `runs/<name>/`. `draft_length` None: the server's own.
    """

    prompts: str = "builtin"
    concurrency: tuple[int, ...] = (1, 4)
    requests: int = 60
    warmup: int = 4
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 1
    timeout: float = 120.0
    chat_template: str = "auto"
    draft_length: int | None = None
    urls: Mapping[Arm, str] = field(default_factory=dict)
    out: Path | None = None

    @property
    def shape(self) -> Shape:
        """What the plan of requests is made from."""
        return Shape(self.concurrency, self.requests, self.warmup, self.seed, self.max_tokens)

    def as_json(self) -> dict[str, Any]:
        """For provenance."""
        return {**asdict(self), "out": None if self.out is None else str(self.out)}


def run_options(spec_file: SpecFile, **overrides: Any) -> RunOptions:
    """The spec's load-test values with those of `overrides` that are not None; UsageError for values that cannot be."""
    given = {name: value for name, value in overrides.items() if value is not None}
    section = spec_file.spec.loadtest
    values = {name: getattr(section, name) for name in type(section).model_fields}
    options = RunOptions(**{**values, "concurrency": tuple(section.concurrency), **given})
    _check(options, spec_file)
    return options


def _check(options: RunOptions, spec_file: SpecFile) -> None:
    if len(set(options.concurrency)) < len(options.concurrency):
        raise UsageError(f"concurrency {', '.join(map(str, options.concurrency))}: one is given twice")
    if options.urls and set(options.urls) != set(ARMS):
        missing = next(arm for arm in ARMS if arm not in options.urls)
        raise UsageError(f"no address for the {missing} arm", fix=f"--arm-url {missing}=HOST:PORT")
    limit = spec_file.spec.speculation.engine_draft_length
    if options.draft_length is not None and options.draft_length > limit:
        fix = "a shorter --draft-length, or a larger speculation.max_draft_length and a new build"
        raise UsageError(f"draft length {options.draft_length} is more than the engine's {limit}", fix=fix)
