"""Speculation against the baseline: speed-ups with intervals, equality, break-even, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from trtspec.loadtest.break_even import BreakEven, break_even
from trtspec.loadtest.calibration import aa_sentence, detectable_effect, is_aa, noise_floor
from trtspec.loadtest.capacity import SHARE, attained, capacity_section
from trtspec.loadtest.caveats import caveats, withheld
from trtspec.loadtest.client_bound import LIMIT
from trtspec.loadtest.correlation import correlations
from trtspec.loadtest.costs import HEADLINE
from trtspec.loadtest.economy import cost_section
from trtspec.loadtest.equality import equality
from trtspec.loadtest.evidence import Evidence, answers_in_one_piece
from trtspec.loadtest.goodput import service_levels
from trtspec.loadtest.intervals import Interval, row
from trtspec.loadtest.level_result import level_results
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.positions import acceptance_by_position
from trtspec.loadtest.speedups import closed_throughput, headline, pair_speedups
from trtspec.loadtest.steady_state import steady_state
from trtspec.loadtest.throughput import measure_load
from trtspec.loadtest.units import Units, units_of
from trtspec.loadtest.verdict import AA, INCONCLUSIVE, Level, overall_code, subject_of, verdict_sentence
from trtspec.spec.names import ARMS, SPECULATIVE

__all__ = ["METHOD", "compare"]

METHOD = (
    "Pairs are the same prompt in both arms at the same load. A speed-up is the baseline's total time over its "
    "total work, divided by the same of the speculative arm: work is tokens for latency_per_token, "
    "time_per_output_token and output_tokens_per_second, requests for request_latency and time_to_first_token. Above 1 "
    "speculation is faster. Intervals are 95 % intervals for prompts like these: a delete-one jackknife of the "
    "logarithm with Student's t, over pairs at concurrency 1 and over blocks of requests that ran together otherwise. "
    f"The verdict rests on {HEADLINE}: request latency divided by tokens, so that answers of different length compare."
)


def compare(evidence: Evidence, examined: Iterable[Mapping[str, Any]] = (), *, seed: int = 1) -> dict[str, Any]:
    """The comparison section of a summary; docs/statistics.md says what each part means."""
    comparison = _Comparison(evidence, seed)
    found = caveats(evidence)
    return {
        **comparison.speed(),
        "equality": equality(evidence.pairs, examined),
        **comparison.verdict(),
        **comparison.explanations(),
        "warnings": [caveat.text for caveat in found],
        "caveats": [caveat.to_json() for caveat in found],
        "method": METHOD,
    }


class _Comparison:
    def __init__(self, evidence: Evidence, seed: int) -> None:
        self._evidence = evidence
        self._seed = seed
        self._pairs = evidence.pairs
        client = evidence.measurement.get("client") or {}
        self._results = level_results(self._pairs, client, one_piece=self._one_piece)
        self._withheld = withheld(evidence)

    @cached_property
    def _one_piece(self) -> bool:
        evidence = self._evidence
        return any(answers_in_one_piece(evidence.table, evidence.arm(arm).measured) for arm in ARMS)

    @cached_property
    def _units(self) -> Units:
        return units_of(self._pairs)

    @cached_property
    def _headline(self) -> Interval:
        """Over all levels."""
        return headline(self._pairs, self._units)

    @cached_property
    def _noise(self) -> dict[str, Any]:
        evidence = self._evidence
        return noise_floor(self._headline, evidence.provenance, evidence.measurement)

    @cached_property
    def _levels(self) -> list[Level]:
        floor = self._noise["value"] if self._noise["source"] == "an A/A run before" else None
        return [result.level(floor) for result in self._results]

    def speed(self) -> dict[str, Any]:
        """Speed-ups: overall, by level and by category."""
        overall = pair_speedups(self._pairs, one_piece=self._one_piece, units=self._units)
        overall["output_tokens_per_second"] = closed_throughput(self._pairs)
        by_load = {
            result.load.label: {
                **result.to_json(INCONCLUSIVE if self._withheld else level.code),
                "by_category": self._by_category(result.pairs),
            }
            for result, level in zip(self._results, self._levels, strict=True)
        }
        return {
            "speedup": {name: row(interval) for name, interval in overall.items()},
            "headline": HEADLINE,
            "by_concurrency": {
                f"{entry['value']:g}": {key: entry[key] for key in ("pairs", "verdict", "speedup")}
                for result, entry in zip(self._results, by_load.values(), strict=True)
                if result.load.closed and result.load.value is not None
            },
            "by_load": by_load,
            "by_category": self._by_category(self._pairs),
        }

    def _by_category(self, pairs: Pairs) -> dict[str, Any]:
        import numpy as np

        names = self._evidence.table.names
        codes = sorted(np.unique(pairs.category).tolist(), key=names.__getitem__)
        parts = {names[code]: pairs.select(pairs.category == code) for code in codes}
        return {name: {"pairs": len(part), "speedup": self._rows(part)} for name, part in parts.items()}

    def _rows(self, pairs: Pairs) -> dict[str, Any]:
        return {name: row(interval) for name, interval in pair_speedups(pairs, one_piece=self._one_piece).items()}

    def verdict(self) -> dict[str, Any]:
        """Break-even, what could have been seen, and the verdict."""
        found = self._break_even()
        code, sentence = self._judgement()
        return {
            "break_even_concurrency": found.at,
            "break_even_reason": found.reason,
            "break_even_interval": found.interval_json(),
            "detectable_effect": detectable_effect(self._headline),
            "noise_floor": self._noise,
            "client_bound": {
                "bound": any(result.client.reason for result in self._results),
                "share": LIMIT,
                "by_load": {result.load.label: result.client.to_json() for result in self._results},
            },
            "verdict": sentence,
            "verdict_code": code,
            "withheld": self._withheld,
        }

    def _judgement(self) -> tuple[str, str]:
        if self._withheld:
            return INCONCLUSIVE, f"No verdict: {self._withheld}."
        if is_aa(self._evidence.provenance) and self._levels:
            return AA, aa_sentence(self._headline)
        labels = self._evidence.options.get("labels")
        subject = subject_of(labels if isinstance(labels, Mapping) else {})
        return overall_code(self._levels), verdict_sentence(self._levels, subject)

    def _break_even(self) -> BreakEven:
        if self._withheld:
            reason = f"no verdict: {self._withheld}"
            return BreakEven(None, reason, interval_reason=reason)
        at = [index for index, r in enumerate(self._results) if r.load.closed and r.load.value]
        points = [(self._results[index].load.value or 1.0, self._results[index].headline) for index in at]
        alike = self._units.strata.likeness.tolist()
        return break_even(points, [[alike[k][m] for m in at] for k in at], seed=self._seed)

    def explanations(self) -> dict[str, Any]:
        """Why it is so, and what it means for capacity and cost."""
        temperature = self._evidence.options.get("temperature")
        rows = self._evidence.arm(SPECULATIVE).measured
        return {
            "correlation": correlations(self._pairs, temperature if isinstance(temperature, (int, float)) else None),
            "acceptance_by_position": acceptance_by_position(self._evidence.table, rows),
            "predicted": {"by_load": {r.load.label: r.efficiency.to_json() for r in self._results}},
            "capacity": self._capacity(),
            "cost": self._cost(),
            "steady_state": {"by_load": {r.load.label: steady_state(r.pairs) for r in self._results}},
        }

    def _capacity(self) -> dict[str, Any]:
        levels = service_levels(self._evidence.options)
        wanted = self._evidence.options.get("slo_share")
        found = {
            arm: [
                attained(label, group, levels, _requests_per_second(group))
                for (name, label), group in self._evidence.groups.items()
                if name == arm and levels
            ]
            for arm in ARMS
        }
        return capacity_section(found, levels, wanted if isinstance(wanted, float) else SHARE)

    def _cost(self) -> dict[str, Any]:
        closed = [result for result in self._results if result.load.closed]
        rates = {result.load.label: {arm: result.rate(arm) for arm in ARMS} for result in closed}
        gains = {result.load.label: result.speedups["output_tokens_per_second"] for result in closed}
        return cost_section(rates, gains, self._evidence.provenance)


def _requests_per_second(group: Any) -> float | None:
    return measure_load(group.table, group.measured, group.others, group.failed).requests_per_second
