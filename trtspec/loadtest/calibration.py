"""How small a difference this run could have seen, and what an A/A run says about the setup.

In an A/A run both arms are the same server: whatever difference it shows is the setup's noise or bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trtspec.loadtest.intervals import Interval, row, student_quantile

__all__ = ["POWER", "aa_sentence", "detectable_effect", "is_aa", "noise_floor", "pairs_needed"]

POWER = 0.90


def detectable_effect(speedup: Interval) -> dict[str, Any]:
    """The smallest speed-up that a run like this one would find in 9 of 10 repetitions, as a share (0.03: 3 %).

    **Formula:** exp((t(0.975) + t(0.9)) x standard error of the speed-up's logarithm) - 1, with the interval's degrees
    of freedom.
    """
    if speedup.spread is None or speedup.degrees is None:
        return {"value": None, "power": POWER, "reason": speedup.reason or "no interval"}
    reach = student_quantile(speedup.degrees) + student_quantile(speedup.degrees, POWER)
    return {"value": _share(reach * speedup.spread), "power": POWER, "reason": None}


def noise_floor(speedup: Interval, provenance: Mapping[str, Any], measurement: Mapping[str, Any]) -> dict[str, Any]:
    """The difference that noise alone makes in 1 of 20 runs, as a share.

    From an A/A run: this one, or an earlier one whose `noise_floor` the run carries in `measurement["calibration"]`;
    else from the run's own scatter, which cannot see a bias of the setup. **Formula:** exp(t(0.975) x standard error)
    - 1; for an A/A run at least the difference that it showed.
    """
    if is_aa(provenance):
        return {
            **_floor(speedup, bias=True),
            "source": "this A/A run",
            "speedup": row(speedup),
            "biased": _biased(speedup),
        }
    earlier = measurement.get("calibration")
    if isinstance(earlier, Mapping) and isinstance(earlier.get("value"), (int, float)):
        return {**earlier, "source": "an A/A run before"}
    return {**_floor(speedup, bias=False), "source": "this run's scatter", "speedup": None, "biased": None}


def _floor(speedup: Interval, *, bias: bool) -> dict[str, Any]:
    if speedup.spread is None or speedup.degrees is None or not speedup.estimate:
        return {"value": None, "reason": speedup.reason or "no interval"}
    reach = student_quantile(speedup.degrees) * speedup.spread
    shown = abs(math.log(speedup.estimate)) if bias and _biased(speedup) else 0.0
    return {"value": _share(max(reach, shown)), "reason": None}


def _biased(speedup: Interval) -> bool | None:
    return None if speedup.low is None else not speedup.holds_one


def _share(log_ratio: float) -> float | None:
    return math.expm1(log_ratio) if log_ratio < 50 else None


def is_aa(provenance: Mapping[str, Any]) -> bool:
    """True for a run that compared a server with itself."""
    return bool((provenance.get("options") or {}).get("aa"))


def aa_sentence(speedup: Interval) -> str:
    """What an A/A run says."""
    if speedup.low is None or speedup.high is None or speedup.estimate is None:
        return "A/A: too few pairs to say how much noise there is."
    floor, interval = _floor(speedup, bias=True)["value"], f"95 % interval {speedup.low:.3f}–{speedup.high:.3f}"
    shown = f"{speedup.estimate:.3f} times, {interval}"
    if speedup.holds_one:
        return (
            f"A/A: the same server against itself shows no difference ({shown}); below {floor:.1%} all is noise here."
        )
    bias = f"A/A: the same server against itself shows a difference ({shown})"
    return f"{bias}; chance does this in 1 of 20 runs: repeat it, and if it stays, the setup favours one arm."


def pairs_needed(speedup: Interval, wanted: float, have: int) -> int | None:
    """About how many pairs would make the interval's half-width `wanted` (a share); None without an interval."""
    if speedup.spread is None or not math.isfinite(speedup.spread):
        return None
    needed = (1.96 * speedup.spread / math.log1p(wanted)) ** 2 * have
    return max(have, 10 * math.ceil(needed / 10)) if needed < 1e9 else None
