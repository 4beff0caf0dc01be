"""Whether two lists of sampled answers come from the same distribution, prompt by prompt and together. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm
from trtspec.verification.answers import Sample
from trtspec.verification.cells import Cell, count_cells
from trtspec.verification.statistics import (
    POWER,
    ChiSquare,
    Noise,
    chi_square,
    detectable_distance,
    holm,
    total_variation,
    variation_noise,
)

__all__ = ["Drawn", "distribution_section"]

_SHOWN_CELLS = 5


@dataclass(frozen=True)
class Drawn:
    """The samples of one prompt in both arms."""

    prompt_id: str
    category: str
    baseline: Sequence[Sample]
    speculative: Sequence[Sample]

    @property
    def by_tokens(self) -> bool:
        """True when both arms tell token ids; else texts are compared, character by character."""
        return all(sample.ids is not None for sample in (*self.baseline, *self.speculative))

    def cells(self) -> list[Cell]:
        """Its samples, counted."""
        return count_cells(*(self._sequences(samples) for samples in (self.baseline, self.speculative)))

    def _sequences(self, samples: Sequence[Sample]) -> list[Sequence[Hashable]]:
        return [sample.ids if self.by_tokens and sample.ids is not None else tuple(sample.text) for sample in samples]


def distribution_section(drawn: Sequence[Drawn], significance: float, seed: int) -> dict[str, Any]:
    """The tests, prompt by prompt and over all prompts, and whether they reject that both arms are alike.

    The pooled test and those of the prompts are corrected together (Holm), so that `significance` is the chance of any
    false alarm.
    """
    cells = [one.cells() for one in drawn]
    tests = [chi_square(one) for one in cells]
    together = reduce(add, tests, ChiSquare(0.0, 0))
    corrected = holm([together.p, *(test.p for test in tests)])
    noises, common = variation_noise(cells, seed)
    strictest = significance / (len(drawn) + 1)
    sizes = [(len(one.baseline), len(one.speculative)) for one in drawn]
    prompts = [
        {
            **_prompt(one, found),
            **_test(test, adjusted, noise),
            "total_variation": total_variation(found),
            "detectable": detectable_distance([size], test.degrees, strictest),
            "rejected": adjusted <= significance,
        }
        for one, found, test, adjusted, noise, size in zip(
            drawn, cells, tests, corrected[1:], noises, sizes, strict=True
        )
    ]
    distances = [prompt["total_variation"] for prompt in prompts if prompt["total_variation"] is not None]
    return {
        "unit": "tokens" if all(one.by_tokens for one in drawn) else "characters",
        "samples": sum(map(sum, sizes)),
        "significance": significance,
        "power": POWER,
        "pooled": {
            **_test(together, corrected[0], common),
            "total_variation": sum(distances) / len(distances) if distances else None,
            "detectable": detectable_distance(sizes, together.degrees, strictest),
            "rejected": corrected[0] <= significance,
        },
        "prompts": prompts,
        "rejected": min(corrected) <= significance,
    }


def _test(test: ChiSquare, adjusted: float, noise: Noise | None) -> dict[str, Any]:
    return {
        "statistic": test.statistic,
        "degrees": test.degrees,
        "p": test.p,
        "p_adjusted": adjusted,
        "noise": None if noise is None else {"mean": noise.mean, "p95": noise.p95},
    }


def _prompt(one: Drawn, cells: Sequence[Cell]) -> dict[str, Any]:
    sizes: dict[Arm, int] = {BASELINE_ARM: len(one.baseline), SPECULATIVE: len(one.speculative)}
    texts = _texts(one)
    # where the arms differ most, in words
    apart = sorted(cells, key=lambda cell: -_pull(cell, sizes))[:_SHOWN_CELLS]
    return {
        "prompt_id": one.prompt_id,
        "category": one.category,
        "samples": sizes,
        "cells": len(cells),
        "largest_differences": [
            {
                "begins": None if cell.pooled and not cell.prefix else _begin(cell, texts),
                "pooled": cell.pooled,
                BASELINE_ARM: cell.baseline,
                SPECULATIVE: cell.speculative,
            }
            for cell in apart
        ],
    }


def _pull(cell: Cell, sizes: Mapping[Arm, int]) -> float:
    first, second = sizes[BASELINE_ARM], sizes[SPECULATIVE]
    return abs(cell.baseline / first - cell.speculative / second) if first and second else 0.0


def _texts(one: Drawn) -> dict[tuple[Hashable, ...], str]:
    """Whole answers by their symbols, to name a cell that is one answer."""
    if not one.by_tokens:
        return {}
    return {tuple(sample.ids or ()): sample.text for sample in (*one.baseline, *one.speculative)}


def _begin(cell: Cell, texts: Mapping[tuple[Hashable, ...], str]) -> str:
    if all(isinstance(symbol, str) for symbol in cell.prefix):
        return "".join(map(str, cell.prefix))
    return texts.get(cell.prefix) or " ".join(map(str, cell.prefix))
