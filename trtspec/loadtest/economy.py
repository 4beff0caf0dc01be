"""What a million output tokens cost in each arm, the draft's GPUs included. Every price is the user's.

**Formula:** GPUs x price per hour x 10⁶ / (3600 x output tokens per second).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.loadtest.intervals import Interval, row, unknown
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm

__all__ = ["cost_section", "gpus_per_arm", "price_per_hour"]

NO_PRICE = "no price: set hardware.price_per_hour"
NO_GPUS = "the run does not say how many GPUs each arm takes"
_PER_MILLION = 1e6 / 3600


def cost_section(
    rates: Mapping[str, Mapping[Arm, Interval]], gains: Mapping[str, Interval], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """The `cost` section: per load level the cost of both arms and their ratio.

    `rates`: output tokens per second by level and arm; `gains`: their speed-ups. `ratio` is the speculative arm's cost
    over the baseline's and needs no price; below 1 speculation saves money.
    """
    gpus, price = gpus_per_arm(provenance), price_per_hour(provenance)
    reason = NO_GPUS if gpus is None else NO_PRICE if price is None else None
    return {
        "price_per_gpu_hour": price,
        "gpus": gpus,
        "unit": "per million output tokens, in the price's currency",
        "reason": reason,
        "by_load": {
            label: {
                **{arm: row(_cost(of.get(arm), gpus, price, arm)) for arm in ARMS},
                "ratio": row(_ratio(gains.get(label), gpus)),
            }
            for label, of in rates.items()
        },
    }


def _cost(rate: Interval | None, gpus: Mapping[Arm, int] | None, price: float | None, arm: Arm) -> Interval:
    if gpus is None or price is None:
        return unknown(NO_GPUS if gpus is None else NO_PRICE)
    return _turned(rate, gpus[arm] * price * _PER_MILLION)


def _ratio(gain: Interval | None, gpus: Mapping[Arm, int] | None) -> Interval:
    if gpus is None:
        return unknown(NO_GPUS)
    return _turned(gain, gpus[SPECULATIVE] / gpus[BASELINE_ARM])


def _turned(interval: Interval | None, factor: float) -> Interval:
    """`factor` over the interval: what is produced faster costs less."""
    if interval is None or not interval.estimate:
        return unknown("the server counts no tokens") if interval is None else unknown(interval.reason or "no tokens")
    low = None if not interval.high else factor / interval.high
    high = None if not interval.low else factor / interval.low
    return Interval(factor / interval.estimate, low, high, interval.count, interval.reason, interval.units)


def price_per_hour(provenance: Mapping[str, Any]) -> float | None:
    """Price of a GPU hour: the run's option, else the spec's `hardware.price_per_hour`."""
    given = _section(provenance, "options").get("price_per_hour")
    found = _section(_section(provenance, "spec"), "hardware").get("price_per_hour") if given is None else given
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0 else None


def gpus_per_arm(provenance: Mapping[str, Any]) -> dict[Arm, int] | None:
    """GPUs that each arm occupies: as the run says (`deployment`), else by the spec; None when neither tells.

    By the spec: the baseline takes the target's GPUs; the speculative arm those and the draft's own, which lies beside
    the target unless `draft.gpus` says otherwise (the rule of `trtspec plan`).
    """
    said = {arm: _section(_section(provenance, "deployment"), arm).get("gpus") for arm in ARMS}
    if all(isinstance(count, int) and count > 0 for count in said.values()):
        return {arm: int(count) for arm, count in said.items() if count is not None}
    spec = _section(provenance, "spec")
    hardware, target, draft = (_section(spec, name) for name in ("hardware", "target", "draft"))
    if not hardware or not target:
        return None
    if spec.get("runtime") == "torch":
        return {BASELINE_ARM: 1, SPECULATIVE: 1}
    of_target, of_draft = _ranks(target), _ranks(draft)
    own = set(draft.get("gpus") or ())
    if not own:
        return {BASELINE_ARM: of_target, SPECULATIVE: max(of_target, of_draft)}
    named = target.get("gpus")
    count = max(int(hardware.get("count") or 1), of_target)
    both = len(own | set(named)) if named else min(count, of_target + len(own))
    return {BASELINE_ARM: of_target, SPECULATIVE: both}


def _ranks(model: Mapping[str, Any]) -> int:
    return int(model.get("tp") or 1) * int(model.get("pp") or 1)


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}
