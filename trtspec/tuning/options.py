"""What a search for the draft length was asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, run_options
from trtspec.loadtest.options import options_from_json
from trtspec.spec import SpecFile

__all__ = ["BASELINE", "TuneOptions", "candidate_name", "draft_length_of", "options_of_json", "tune_options"]

BASELINE = "baseline"
_USUAL_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
_WITHOUT_SPEC = 8
_USUAL_LEVELS = (1, 4, 16)


@dataclass(frozen=True)
class TuneOptions:
    """All values of one search; `load` says where the arms are and what is sent.

    `policy` names the deployment's own policy where that is no fixed length: it is a candidate too, asked for by naming
    no length. `budget` is in seconds of measuring. Two candidates within `tolerance` of each other are as good.
    """

    load: RunOptions = field(default_factory=RunOptions)
    lengths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8)
    policy: str | None = None
    budget: float = 1200.0
    tolerance: float = 0.02

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of all candidates: lengths in ascending order, then the policy."""
        return (*map(candidate_name, self.lengths), *([self.policy] if self.policy else []))

    def as_json(self) -> dict[str, Any]:
        """For provenance; `options_of_json` reads it back."""
        own = {"lengths": list(self.lengths), "policy": self.policy, "budget": self.budget, "tolerance": self.tolerance}
        return {**self.load.as_json(), **own}


def candidate_name(length: int) -> str:
    """A fixed draft length as a candidate."""
    return str(length)


def draft_length_of(candidate: str) -> int | None:
    """The length that requests of a candidate ask for; None: they leave it to the deployment's policy."""
    return int(candidate) if candidate.isdecimal() else None


def options_of_json(data: Mapping[str, Any]) -> TuneOptions:
    """The options that a search was started with."""
    own = {name: data[name] for name in ("policy", "budget", "tolerance")}
    return TuneOptions(options_from_json(data), tuple(data["lengths"]), **own)


def tune_options(spec_file: SpecFile | None, given: dict[str, Any], **arms: Any) -> TuneOptions:
    """The spec's load-test values with those of `arms` (for `run_options`) and `given` that are not None."""
    own = {name: value for name, value in given.items() if value is not None}
    load = run_options(spec_file, **arms)
    levels = load.concurrency if arms.get("concurrency") or spec_file is not None else _USUAL_LEVELS
    load = replace(load, concurrency=tuple(sorted(levels or _USUAL_LEVELS)), **_NO_LOAD)
    limit = _WITHOUT_SPEC if spec_file is None else spec_file.spec.speculation.engine_draft_length
    lengths = own.pop("lengths", None) or tuple(sorted({*(n for n in _USUAL_LENGTHS if n <= limit), limit}))
    longest = max(lengths)
    if spec_file is not None and longest > limit:
        fix = "shorter --lengths, or a larger speculation.max_draft_length and a new build"
        raise UsageError(f"draft length {longest} is more than the engine's {limit}", fix=fix)
    policy = None if spec_file is None else spec_file.spec.speculation.policy
    return TuneOptions(load, tuple(sorted(set(lengths))), None if policy in {None, "fixed"} else policy, **own)


_NO_LOAD: dict[str, Any] = {
    "rate": (), "profile": None, "trace": None, "duration": None, "until": None, "disconnect": 0.0, "counted": False,
    "unique_prefixes": True, "aa": False, "calibration": None, "workers": 1, "draft_length": None,
}  # fmt: skip
