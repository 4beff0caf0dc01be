"""Gates: conditions on a summary under which a pipeline must fail, `speedup.output_tokens_per_second.low < 1.0`.

The language is a path, one comparison and one number; nothing is evaluated, so an expression from anywhere is safe.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.errors import ThresholdFailed, UsageError
from trtspec.reports.paths import locate, split_path

__all__ = ["Gate", "GateResult", "check_gates", "parse_gates", "require_gates"]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_EXPRESSION = re.compile(r"\s*(?P<path>.+?)\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<number>[^<>=!]+?)\s*")
# what is no result where the verdict is withheld
_COMPARED = frozenset({"speedup", "headline", "break_even_concurrency", "break_even_interval", "ratio"})
_EXAMPLE = "e.g. 'speedup.output_tokens_per_second.low < 1.0'"


@dataclass(frozen=True)
class Gate:
    """One condition under which to fail."""

    text: str
    path: str
    operator: str
    number: float

    def fails(self, value: float) -> bool:
        """True when `value` meets the condition."""
        return _OPERATORS[self.operator](value, self.number)


@dataclass(frozen=True)
class GateResult:
    """A gate with what it met: `value` is None where nothing was measured, and `reason` says why.

    What was not measured fails the gate: a pipeline must not go green because a figure is absent. So does a comparison
    that the run gives no verdict on, whatever its number: a server that refuses requests looks fast.
    """

    gate: Gate
    value: float | None
    failed: bool
    reason: str = ""

    @property
    def text(self) -> str:
        """E.g. `speedup.request_latency.low < 1.0: it is 0.93`."""
        if self.value is None:
            return f"{self.gate.text}: not measured ({self.reason})"
        return f"{self.gate.text}: it is {self.value:.6g}" + (f", but {self.reason}" if self.reason else "")


def parse_gates(expressions: Iterable[str]) -> tuple[Gate, ...]:
    """The gates of expressions; UsageError names the first that is none. Call it before a long measurement."""
    return tuple(_parse(text) for text in expressions)


def check_gates(summary: Mapping[str, Any], expressions: Iterable[str | Gate]) -> tuple[GateResult, ...]:
    """Every gate held against a summary, in their order.

    UsageError for an expression that is none, for a path that the summary has not, and for one that leads to
    something that is no number.
    """
    gates = [text if isinstance(text, Gate) else _parse(text) for text in expressions]
    return tuple(_check(summary, gate) for gate in gates)


def require_gates(results: Iterable[GateResult]) -> None:
    """ThresholdFailed (exit code 7) naming every gate that failed; nothing when none did."""
    failed = [result for result in results if result.failed]
    if not failed:
        return
    count = "a gate" if len(failed) == 1 else f"{len(failed)} gates"
    raise ThresholdFailed(f"{count} failed: {'; '.join(result.text for result in failed)}")


def _parse(text: str) -> Gate:
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no gate: a path, one of < <= > >= == !=, a number", fix=_EXAMPLE)
    try:
        number = float(found["number"])
    except ValueError:
        raise UsageError(f"{text!r}: {found['number']!r} is no number", fix=_EXAMPLE) from None
    if not math.isfinite(number):
        raise UsageError(f"{text!r}: compare with a finite number", fix=_EXAMPLE)
    split_path(found["path"])
    return Gate(text.strip(), found["path"], found["operator"], number)


def _check(summary: Mapping[str, Any], gate: Gate) -> GateResult:
    section, value = locate(summary, gate.path)
    if value is None:
        return GateResult(gate, None, failed=True, reason=_reason(section, split_path(gate.path)[-1]))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = "a section" if isinstance(value, Mapping) else f"{value!r}"
        fix = f"go on to a number in it: {', '.join(map(str, value))}" if isinstance(value, Mapping) else _EXAMPLE
        raise UsageError(f"{gate.path} is {kind}, no number", fix=fix)
    withheld = (summary.get("comparison") or {}).get("withheld")
    if withheld and _COMPARED & set(split_path(gate.path)):
        return GateResult(gate, float(value), failed=True, reason=f"no verdict is given: {withheld}")
    return GateResult(gate, float(value), failed=gate.fails(float(value)))


def _reason(section: Any, name: str) -> str:
    """Why `name` is absent, as the section that holds it says: `reason`, or `break_even_reason` of that name."""
    told = section if isinstance(section, Mapping) else {}
    own = [key for key in told if key.endswith("_reason") and name.startswith(key.removesuffix("_reason"))]
    reasons = [told[key] for key in (*own, "reason") if told.get(key)]
    return str(reasons[0]) if reasons else "the run does not carry this figure"
