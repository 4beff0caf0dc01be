"""Everything that is computed once for each load level of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trtspec.loadtest.calibration import detectable_effect, pairs_needed
from trtspec.loadtest.client_bound import ClientCheck, check_client
from trtspec.loadtest.efficiency import Efficiency, efficiency
from trtspec.loadtest.intervals import RATE_SIGNS, Interval, ratio_interval, row, unknown
from trtspec.loadtest.levels import LoadLevel
from trtspec.loadtest.pairing import Pairs
from trtspec.loadtest.speedups import SCHEDULED, headline, pair_speedups, throughput_speedup
from trtspec.loadtest.unit_loads import unit_loads
from trtspec.loadtest.units import Units, levels_of, units_of
from trtspec.loadtest.verdict import FASTER, NEGLIGIBLE, NO_DIFFERENCE, SLOWER, Level, level_code
from trtspec.spec.names import ARMS, Arm

__all__ = ["LevelResult", "level_results"]


@dataclass(frozen=True)
class LevelResult:
    """One load level: its pairs and what follows from them. `one_piece`: an arm does not stream."""

    load: LoadLevel
    pairs: Pairs
    client_facts: Mapping[str, Any]
    one_piece: bool

    @cached_property
    def units(self) -> Units:
        """What varies independently."""
        return units_of(self.pairs)

    @cached_property
    def speedups(self) -> dict[str, Interval]:
        """By metric."""
        found = pair_speedups(self.pairs, one_piece=self.one_piece, units=self.units)
        whole = throughput_speedup(self.pairs, self.units) if self.load.closed else unknown(SCHEDULED)
        return {**found, "output_tokens_per_second": whole}

    @cached_property
    def headline(self) -> Interval:
        """The speed-up that the verdict rests on."""
        return headline(self.pairs, self.units)

    @cached_property
    def client(self) -> ClientCheck:
        """Whether the load generator's error is small enough."""
        return check_client(self.pairs, self.client_facts)

    @cached_property
    def efficiency(self) -> Efficiency:
        """Where the speed-up comes from."""
        return efficiency(self.pairs, self.headline)

    def level(self, floor: float | None) -> Level:
        """For the verdict; `floor` is the noise of an A/A run, below which nothing is a difference."""
        return Level(self.load, self.headline, self.client.reason, self._why(), _below(self.headline, floor))

    def rate(self, arm: Arm) -> Interval:
        """Output tokens per second of an arm."""
        import numpy as np

        sums = unit_loads(self.pairs, self.units, arm)[:, ::-1] / [1.0, 1e9]
        known = ~np.isnan(sums).any(axis=1)
        if not known.any():
            return unknown("the server counts no tokens")
        strata, word = self.units.strata.select(known), self.units.word
        return ratio_interval(sums[known], RATE_SIGNS, strata=strata, count=len(self.pairs), unit=word)

    def to_json(self, code: str) -> dict[str, Any]:
        """For `by_load`."""
        return {
            "kind": self.load.kind,
            "value": self.load.value,
            "pairs": len(self.pairs),
            "units": len(self.units),
            "unit": self.units.word,
            "verdict": code,
            "why": self.client.reason or self._why(),
            "headline": row(self.headline),
            "speedup": {name: row(interval) for name, interval in self.speedups.items()},
            "output_tokens_per_second": {arm: row(self.rate(arm)) for arm in ARMS},
            "detectable_effect": detectable_effect(self.headline),
        }

    def _why(self) -> str | None:
        code = level_code(self.headline)
        if code in {FASTER, SLOWER}:
            return self.efficiency.sentence(self.headline.estimate)
        seen = detectable_effect(self.headline)["value"]
        if seen is None:
            return None
        if code == NO_DIFFERENCE:
            return f"a difference of {seen:.1%} would have been found"
        if seen > 1:
            return f"the {len(self.pairs)} pairs scatter too much to tell even a factor of two"
        needed = pairs_needed(self.headline, NEGLIGIBLE / 2, len(self.pairs))
        more = "" if needed is None else f"; about {needed} pairs would tell ±{NEGLIGIBLE / 2:.1%}"
        return (
            f"with {len(self.pairs)} pairs only a difference of {seen:.0%} or more would be found in 9 of 10 runs{more}"
        )


def _below(speedup: Interval, floor: float | None) -> str | None:
    if not floor or not speedup.estimate or max(speedup.estimate, 1 / speedup.estimate) >= 1 + floor:
        return None
    return f"the difference is smaller than what the same server shows against itself ({floor:.1%} in the A/A run)"


def level_results(pairs: Pairs, client: Mapping[str, Any], *, one_piece: bool) -> list[LevelResult]:
    """Every load level, small loads first."""
    return [LevelResult(load, pairs.select(chosen), client, one_piece) for load, chosen in levels_of(pairs)]
