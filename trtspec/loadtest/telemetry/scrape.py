"""One look at a server's Prometheus page, and what grew between two of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trtspec.loadtest.telemetry.families import PREFIXES, Family
from trtspec.loadtest.telemetry.page import PageError, read_page

__all__ = ["Growth", "Scrape", "fetch", "from_rows", "growth", "is_number", "parse", "to_rows", "value"]

Key = tuple[str, tuple[tuple[str, str], ...]]
_BUCKET = "_bucket"
_OK = 200
_MOST = 1e300


@dataclass(frozen=True)
class Scrape:
    """Values by (series, sorted labels) at `t_ns` (perf_counter_ns); `reason` says why there are none."""

    t_ns: int
    values: Mapping[Key, float] = field(default_factory=dict)
    reason: str | None = None

    @property
    def families(self) -> list[str]:
        """Names of the series that are there."""
        return sorted({name for name, _ in self.values})


def to_rows(values: Mapping[Key, float]) -> list[list[Any]]:
    """`values` for a file; read back by `from_rows`."""
    return [[name, dict(labels), number] for (name, labels), number in sorted(values.items())]


def from_rows(rows: Any) -> dict[Key, float]:
    """The values in `rows`; rows of another shape are left out."""
    return {
        (str(row[0]), _labels(row[1])): float(row[2])
        for row in rows or []
        if isinstance(row, list) and len(row) == 3 and isinstance(row[1], dict) and is_number(row[2])
    }


def is_number(value: Any) -> bool:
    """True for what a file's JSON holds as a number that can be reckoned with."""
    return type(value) in {int, float} and -_MOST < value < _MOST


def fetch(url: str | None, *, timeout: float = 2.0) -> Scrape:
    """What `url` (http://HOST:PORT/metrics) exports now; an empty scrape with the reason when it does not answer.

    Whatever is there, it takes little more than `timeout` seconds. Proxies of the environment are not asked.
    """
    if url is None:
        return Scrape(time.perf_counter_ns(), reason="no address of metrics is known")
    if not url.startswith(("http://", "https://")):
        return Scrape(time.perf_counter_ns(), reason=f"{url} is no http address")
    try:
        status, page = read_page(url, timeout)
    except PageError as error:
        return Scrape(time.perf_counter_ns(), reason=f"{url} does not answer ({error})")
    if status != _OK:
        return Scrape(time.perf_counter_ns(), reason=f"{url} answers {status}")
    return Scrape(time.perf_counter_ns(), *parse(page.decode("utf-8", errors="replace")))


def parse(text: str) -> tuple[dict[Key, float], str | None]:
    """(values of known servers' series without histogram buckets, None), or ({}, why the page cannot be read)."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[Key, float] = {}
    written = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines()}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                # the parser puts _total behind the names of counters that end otherwise
                name = sample.name if sample.name in written else sample.name.removesuffix("_total")
                number = float(sample.value)
                # NaN is how some say that there is nothing
                if name.startswith(PREFIXES) and not name.endswith(_BUCKET) and math.isfinite(number):
                    values[name, _labels(sample.labels)] = number
    except (ValueError, KeyError, IndexError) as error:
        return {}, f"the page of metrics cannot be read: {error}"
    return values, None if values else "no known metric is on the page"


def _labels(labels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((str(name), str(text)) for name, text in labels.items()))


def value(scrape: Scrape, family: Family, model: str | None = None) -> float | None:
    """The sum over the series of `family` (of `model`, where series carry one); None when there is none."""
    found = [number for labels, number in _series(scrape.values, family.name) if _fits(labels, family, model)]
    return sum(found) * family.scale if found else None


def _series(values: Mapping[Key, float], name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    for (series, labels), number in values.items():
        if series == name:
            yield dict(labels), number


def _fits(labels: Mapping[str, str], family: Family, model: str | None) -> bool:
    if any(labels.get(key) != text for key, text in family.labels.items()):
        return False
    return model is None or labels.get("model", model) == model


@dataclass(frozen=True)
class Growth:
    """What counters grew by between two scrapes; `reset` when one of them fell, as after a restart."""

    values: Mapping[Key, float]
    reset: bool

    def of(self, family: Family, model: str | None = None) -> float | None:
        """As `value`, of the growth; None too when counters were reset in between."""
        return None if self.reset else value(Scrape(0, self.values), family, model)


def growth(before: Scrape, after: Scrape) -> Growth:
    """The growth of every series that is in both; a series that is new began at 0."""
    grown = {key: number - before.values.get(key, 0.0) for key, number in after.values.items()}
    return Growth(grown, any(_counts(key[0]) and amount < 0 for key, amount in grown.items()))


def _counts(name: str) -> bool:
    """Whether the series is a counter; gauges may fall."""
    ends = ("_total", "_count", "_sum", "_success", "_failure", "_duration_us", "nv_energy_consumption")
    return name.endswith(ends)
