"""The samples of a run as tables: speeds, where the speed-up goes, categories, concurrency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.speculation.samples import Passes, Sample, pooled
from benchmarks.speculation.through_triton import Throughput

__all__ = ["Costs", "costs", "report"]

BASELINES = {
    "in process": "in process, baseline",
    "through Triton": "through Triton, baseline",
    "transformers, assisted": "transformers",
    "transformers, assisted (defaults)": "transformers",
}


@dataclass(frozen=True)
class Costs:
    """Measured inside the networks, in process: a step of the baseline, a verification, the drafts of a round (s)."""

    tokens_per_round: float
    step: float
    verify: float
    draft: float

    @property
    def growth(self) -> float:
        """**Formula:** verification of a draft / step of one token."""
        return self.verify / self.step

    @property
    def ideal(self) -> float:
        """**Formula:** tokens per round x step / (verify + draft): the speed-up if nothing else took time."""
        return self.tokens_per_round * self.step / (self.verify + self.draft)


def costs(samples: Sequence[Sample]) -> Costs:
    """From the two arms in process, after each answer's first text."""
    plain, speculative = (
        [s for s in samples if s.contender == name] for name in ("in process, baseline", "in process")
    )
    base, spec = _passes(plain), _passes(speculative)
    return Costs(
        pooled(speculative, "decode_tokens") / spec.target,
        base.target_seconds / base.target,
        spec.target_seconds / spec.target,
        spec.draft_seconds / spec.target,
    )


def report(samples: Sequence[Sample], levels: Sequence[Throughput]) -> str:
    """Markdown."""
    parts = [_speeds(samples)]
    if _of(samples, "in process") and _of(samples, "in process, baseline"):
        parts.append(_ladder(samples))
    parts.append(_categories(samples))
    if levels:
        parts.append(_levels(levels))
    return "\n\n".join(parts)


def _passes(samples: Iterable[Sample]) -> Passes:
    total = Passes()
    for sample in samples:
        total = total.plus(sample.passes or Passes())
    return total


def _of(samples: Sequence[Sample], contender: str) -> list[Sample]:
    return [sample for sample in samples if sample.contender == contender]


def _rate(samples: Sequence[Sample]) -> float:
    return pooled(samples, "tokens") / pooled(samples, "seconds")


def _step(samples: Sequence[Sample]) -> float:
    return pooled(samples, "decode") / max(pooled(samples, "decode_tokens"), 1)


def _speedup(samples: Sequence[Sample], contender: str) -> float | None:
    """Of decoding, over the contender's own baseline."""
    plain = _of(samples, BASELINES.get(contender, ""))
    return _step(plain) / _step(_of(samples, contender)) if plain else None


def _speeds(samples: Sequence[Sample]) -> str:
    names = list(dict.fromkeys(sample.contender for sample in samples))
    truth = {sample.prompt: sample.text for sample in _of(samples, "transformers")}
    assisted = _of(samples, "transformers, assisted")
    rows = []
    for name in names:
        own = _of(samples, name)
        drafted, rounds = pooled(own, "drafted"), pooled(own, "rounds")
        same = sum(truth.get(sample.prompt) == sample.text for sample in own) if truth else None
        rows.append(
            [
                name,
                f"{_rate(own):.1f}",
                f"{1 / _step(own):.1f}",
                _times(_speedup(samples, name)),
                _times(_rate(own) / _rate(assisted) if assisted else None),
                f"{pooled(own, 'accepted') / drafted:.0%}" if drafted else "–",
                f"{pooled(own, 'decode_tokens') / rounds:.2f}" if rounds else "–",
                "–" if same is None else f"{same} of {len(own)}",
            ]
        )
    head = ["", "tokens/s", "decoding only", "decoding, over its baseline", "tokens/s over assisted", "accepted",
            "tokens a round", "same as transformers"]  # fmt: skip
    return table(head, rows)


def _ladder(samples: Sequence[Sample]) -> str:
    """From free drafts and free verification down to what a client sees, a factor at a time."""
    found = costs(samples)
    within, outside = _speedup(samples, "in process"), _speedup(samples, "through Triton")
    at = found.tokens_per_round
    rows = [["tokens a round (drafts and verification free)", "", f"{at:.2f}"]]
    steps: list[tuple[str, float | None]] = [
        (f"verification: {1e3 * found.verify:.1f} ms, a step {1e3 * found.step:.1f} ms", 1 / found.growth),
        (f"drafts: {1e3 * found.draft:.1f} ms a round", found.verify / (found.verify + found.draft)),
        ("**ideal**", None),
        ("the loop and the engines around the passes", within / found.ideal if within else None),
        ("**achieved in process**", None),
        ("the server: inner requests, tensors, streams", outside / within if outside and within else None),
        ("**achieved through Triton**", None),
    ]
    for name, factor in steps:
        at *= factor or 1.0
        rows.append([name, "" if factor is None else f"× {factor:.2f}", f"{at:.2f}"])
    shares = ", ".join(
        f"{name} {value / found.ideal:.2f}"
        for name, value in (("in process", within), ("through Triton", outside))
        if value
    )
    return f"{table(['where the speed-up of decoding goes', '', ''], rows)}\n\nAchieved ÷ ideal: {shares}."


def _categories(samples: Sequence[Sample]) -> str:
    names = [name for name in ("in process", "through Triton", "transformers, assisted") if _of(samples, name)]
    rows = []
    for category in dict.fromkeys(sample.category for sample in samples):
        own = [sample for sample in samples if sample.category == category]
        rates = [_whole_speedup(own, name) for name in names]
        drafting = _of(own, "through Triton") or _of(own, "in process")
        rounds = pooled(drafting, "rounds")
        length = pooled(drafting, "decode_tokens") / rounds if rounds else None
        rows.append([category, *map(_times, rates), "–" if length is None else f"{length:.2f}"])
    return table(["speed-up by category (tokens/s)", *names, "tokens a round"], rows)


def _whole_speedup(samples: Sequence[Sample], contender: str) -> float | None:
    plain, own = _of(samples, BASELINES[contender]), _of(samples, contender)
    return _rate(own) / _rate(plain) if plain and own else None


def _levels(levels: Sequence[Throughput]) -> str:
    rows = []
    for level in dict.fromkeys(found.concurrency for found in levels):
        rates = {}
        for arm in ("baseline", "speculative"):
            own = [found for found in levels if (found.arm, found.concurrency) == (arm, level)]
            rates[arm] = sum(found.tokens for found in own) / sum(found.seconds for found in own)
        speedup = rates["speculative"] / rates["baseline"]
        rows.append([str(level), f"{rates['baseline']:.1f}", f"{rates['speculative']:.1f}", _times(speedup)])
    return table(["streams at once, through Triton", "baseline tokens/s", "speculative tokens/s", "speed-up"], rows)


def _times(value: float | None) -> str:
    return "–" if value is None else f"× {value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
