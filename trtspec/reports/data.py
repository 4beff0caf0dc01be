"""What a report shows, computed from the raw file: one row a request, pairs, and summaries of parts of the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.reports.reading import Part
from trtspec.reports.source import RunSource
from trtspec.spec.names import Arm
from trtspec.wire.messages import Counters

if TYPE_CHECKING:
    from trtspec.loadtest.records import Record

__all__ = ["Pair", "ReportData", "Request", "load_report", "report_data"]


@dataclass(frozen=True)
class Request:
    """One request, flat.

    `start` is in seconds since the run's first request; `times` are metric → seconds, None where not measured.
    """

    arm: str
    prompt_id: str
    category: str
    concurrency: int
    start: float
    error: str | None
    cancelled: bool
    excluded: str | None
    pair_id: str | None
    text: str
    chunks: int
    times: Mapping[str, float | None]
    output_tokens: int | None
    input_tokens: int | None
    rounds: int | None
    drafted: int | None
    accepted: int | None

    @property
    def ok(self) -> bool:
        """True when the request is measured: inside the window, and its whole answer arrived."""
        return self.error is None and not self.cancelled and self.excluded is None

    @property
    def status(self) -> str:
        """`ok`, `failed`, `cancelled` or `excluded`."""
        if self.excluded is not None:
            return "excluded"
        return "failed" if self.error is not None else "cancelled" if self.cancelled else "ok"

    @property
    def latency(self) -> float | None:
        """The request's latency in seconds."""
        return self.times["request_latency"]

    @property
    def acceptance(self) -> float | None:
        """Accepted share of the drafted tokens, None without counters."""
        return None if not self.drafted or self.accepted is None else self.accepted / self.drafted


@dataclass(frozen=True)
class Pair:
    """The two arms' requests of one prompt at one concurrency; either may be missing."""

    prompt_id: str
    category: str
    concurrency: int
    baseline: Request | None
    speculative: Request | None

    @property
    def complete(self) -> bool:
        """True when both arms answered."""
        return self.baseline is not None and self.speculative is not None and self.baseline.ok and self.speculative.ok

    @property
    def identical(self) -> bool | None:
        """Whether both arms gave the same text, None unless both answered."""
        if self.baseline is None or self.speculative is None or not self.complete:
            return None
        return self.baseline.text == self.speculative.text

    @property
    def speedup(self) -> float | None:
        """Baseline latency ÷ speculative latency, None unless both answered."""
        if self.baseline is None or self.speculative is None or not self.complete:
            return None
        if not self.baseline.latency or not self.speculative.latency:
            return None
        return self.baseline.latency / self.speculative.latency


@dataclass(frozen=True)
class ReportData:
    """Everything the renderers need."""

    name: str
    requests: tuple[Request, ...]
    pairs: tuple[Pair, ...]
    summary: Mapping[str, Any]
    provenance: Mapping[str, Any] | None

    @property
    def comparison(self) -> Mapping[str, Any]:
        """The comparison section of the summary."""
        section: Mapping[str, Any] = self.summary["comparison"]
        return section

    @property
    def acceptance(self) -> Mapping[str, Any]:
        """The acceptance section of the summary."""
        section: Mapping[str, Any] = self.summary["acceptance"]
        return section

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that sent requests, baseline first."""
        order: tuple[Arm, ...] = ("baseline", "speculative")
        return tuple(arm for arm in order if arm in self.summary["arms"])

    @property
    def headline(self) -> str:
        """The metric that the verdict rests on; request latency where the server counts no tokens."""
        name = str(self.comparison["headline"])
        return name if self.whole.estimate(name) is not None else "request_latency"

    @property
    def whole(self) -> Part:
        """The whole run."""
        return Part(self.summary["arms"], self.comparison["speedup"])

    @property
    def by_level(self) -> dict[int, Part]:
        """Concurrency → that part of the run, ascending."""
        levels = sorted({int(level) for arm in self.summary["arms"].values() for level in arm["by_concurrency"]})
        return {level: self._level(str(level)) for level in levels}

    def _level(self, level: str) -> Part:
        arms = {arm: rows["by_concurrency"].get(level) or {} for arm, rows in self.summary["arms"].items()}
        return Part(arms, self.comparison["by_concurrency"].get(level, {}).get("speedup", {}))

    @property
    def by_category(self) -> dict[str, Part]:
        """Category → the speed-ups of its pairs."""
        return {name: Part({}, row["speedup"]) for name, row in self.comparison["by_category"].items()}


def load_report(source: RunSource) -> ReportData:
    """Read the raw file and compute everything anew; RecordsError names a broken line."""
    from trtspec.loadtest.run_folder import read_run, summarise_run

    run = read_run(source.path)
    return report_data(source.name, run.records, summarise_run(run), run.provenance or None)


def report_data(
    name: str, records: Sequence[Record], summary: Mapping[str, Any], provenance: Mapping[str, Any] | None = None
) -> ReportData:
    """The report's data for `records` (there may be none) and their summary."""
    from trtspec.loadtest.selection import group_records

    origin = min((record.start_ns for record in records), default=0)
    grouped = [record for group in group_records(records).values() for record in group.records]
    requests = tuple(request_row(record, origin) for record in sorted(grouped, key=lambda record: record.start_ns))
    return ReportData(name, requests, pair_up(requests), summary, provenance)


def request_row(record: Record, origin: int) -> Request:
    """One record flattened; `origin` is the start of the run in nanoseconds."""
    from trtspec.loadtest import metrics
    from trtspec.loadtest.timeline import output_tokens, timeline

    line = timeline(record)
    times = {name: None if line is None else _first(getattr(metrics, name)(line)) for name in _TIMES}
    server = record.server or Counters()
    return Request(
        arm=record.arm,
        prompt_id=record.prompt_id,
        category=record.category,
        concurrency=record.concurrency,
        error=record.error,
        cancelled=record.cancelled,
        excluded=record.excluded,
        pair_id=record.pair_id,
        text=record.text,
        start=(record.start_ns - origin) / 1e9,
        chunks=len(record.chunks),
        times=times,
        output_tokens=output_tokens(record),
        input_tokens=server.num_input_tokens,
        rounds=server.num_spec_steps,
        drafted=server.num_draft_tokens,
        accepted=server.num_accepted_tokens,
    )


_TIMES = ("time_to_first_token", "time_per_output_token", "request_latency", "max_stall")


def _first(values: Sequence[float]) -> float | None:
    return values[0] if values else None


def pair_up(requests: Sequence[Request]) -> tuple[Pair, ...]:
    """Pairs within the window by prompt and concurrency, also those that only one arm answered.

    As in `trtspec.loadtest.pairing`: by `pair_id`, else by prompt, the first sending in one arm with the first in the
    other.
    """
    times: Counter[tuple[str, int, str]] = Counter()
    sides: dict[tuple[int, str, int], dict[str, Request]] = defaultdict(dict)
    for request in requests:
        if request.excluded is not None:
            continue
        key = request.pair_id or request.prompt_id
        times[request.arm, request.concurrency, key] += 1
        number = times[request.arm, request.concurrency, key]
        sides[request.concurrency, key, number][request.arm] = request
    return tuple(_pair(level, arms) for (level, _, _), arms in sides.items())


def _pair(level: int, arms: Mapping[str, Request]) -> Pair:
    first = next(iter(arms.values()))
    return Pair(first.prompt_id, first.category, level, arms.get("baseline"), arms.get("speculative"))
