"""What a verification was asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, run_options
from trtspec.spec import SpecFile

__all__ = ["VerifyOptions", "verify_options"]

GREEDY_PROMPTS = 48
SAMPLED_PROMPTS = 8
CONCURRENCY = (4,)


@dataclass(frozen=True)
class VerifyOptions:
    """All values of one verification; `load` says where the arms are and what is sent.

    `samples` of each prompt and arm are drawn at a temperature, of `tokens` tokens each. `significance` is the chance
    of an alarm where there is no difference. `strict`: whatever is not shown to be harmless fails.
    """

    load: RunOptions = field(default_factory=RunOptions)
    samples: int = 200
    tokens: int = 4
    significance: float = 0.01
    tasks: Path | None = None
    strict: bool = False

    @property
    def sampled(self) -> bool:
        """True where distributions are compared, not single answers."""
        return self.load.temperature > 0 and self.tasks is None

    def as_json(self) -> dict[str, Any]:
        """For provenance."""
        own = {name: getattr(self, name) for name in ("samples", "tokens", "significance", "strict")}
        return {**self.load.as_json(), **own, "tasks": None if self.tasks is None else str(self.tasks)}


def verify_options(spec_file: SpecFile | None, given: dict[str, Any], **arms: Any) -> VerifyOptions:
    """The spec's load-test values with those of `arms` (for `run_options`) and `given` that are not None.

    How much is sent, and how, is a verification's own: nothing of the spec's load levels, and greedy by default.
    """
    own = {name: value for name, value in given.items() if value is not None}
    load = run_options(spec_file, **{name: value for name, value in arms.items() if name not in _SIZES})
    sizes = {name: arms.get(name) for name in _SIZES}
    temperature = sizes["temperature"] or 0.0
    sampled = temperature > 0 and "tasks" not in own
    load = replace(
        load,
        temperature=temperature,
        concurrency=sizes["concurrency"] or CONCURRENCY,
        requests=sizes["requests"] or (SAMPLED_PROMPTS if sampled else GREEDY_PROMPTS),
        **_NO_LOAD,
    )
    options = VerifyOptions(load, **own)
    _check(options, sampled=sampled, given=own)
    return options


_SIZES = ("temperature", "concurrency", "requests")
_NO_LOAD: dict[str, Any] = {
    "rate": (), "profile": None, "trace": None, "duration": None, "until": None, "disconnect": 0.0, "counted": True,
    "unique_prefixes": False, "aa": False, "calibration": None, "workers": 1, "warmup": 0,
}  # fmt: skip


def _check(options: VerifyOptions, *, sampled: bool, given: dict[str, Any]) -> None:
    needless = sorted({"samples", "tokens"} & set(given))
    if needless and not sampled:
        raise UsageError(f"--{needless[0]} is for a test of distributions", fix="--temperature 0.7, without --tasks")
    if sampled and options.load.max_tokens is not None:
        raise UsageError("--max-tokens is for greedy answers", fix=f"--tokens {options.tokens}: length of a sample")
    if sampled and len(options.load.concurrency) > 1:
        raise UsageError("a test of distributions has one concurrency", fix="--concurrency 4")
