"""What a report shows, computed from the raw file: all requests as columns, answers of some, and the summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trtspec.reports.levels import Level, levels_of
from trtspec.reports.reading import Part
from trtspec.reports.rows import shown_rows
from trtspec.reports.source import RunSource
from trtspec.spec.names import Arm

if TYPE_CHECKING:
    from trtspec.loadtest.pairing import Pairs
    from trtspec.loadtest.records import Record
    from trtspec.loadtest.table import Table
    from trtspec.loadtest.telemetry.samples import Samples

__all__ = ["ReportData", "load_report", "report_data"]


@dataclass(frozen=True)
class ReportData:
    """Everything the renderers need: all requests (`table`), the summary, and what lay beside them."""

    name: str
    table: Table
    summary: Mapping[str, Any]
    provenance: Mapping[str, Any] | None = None
    measurement: Mapping[str, Any] = field(default_factory=dict)
    samples: Samples | None = None

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
        return Part(self.summary["arms"], self.comparison["speedup"], compared=self.comparison)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The load levels in reading order."""
        return levels_of(self.summary)

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs of complete answers."""
        from trtspec.loadtest.pairing import pair_rows

        return pair_rows(self.table)

    @cached_property
    def shown(self) -> list[Record]:
        """The requests whose answers the page shows, whole; each prompt with all of its requests."""
        return self.table.records(shown_rows(self.table, self.pairs))

    def since_start(self, t_ns: int) -> float:
        """Seconds since the run's first request."""
        return (t_ns - self._origin_ns) / 1e9

    @cached_property
    def _origin_ns(self) -> int:
        return int(self.table.start_ns.min()) if len(self.table) else 0

    def categories(self, level: Level | None = None) -> dict[str, Part]:
        """Category → the speed-ups of its pairs, of the whole run or of one level (empty where it does not tell)."""
        part, path = (self.whole, ()) if level is None else (level.part, ("by_load", level.label))
        rows: Mapping[str, Any] = part.compared.get("by_category") or {}
        return {name: Part({}, row["speedup"], (*path, "by_category", name), row) for name, row in rows.items()}


def load_report(source: RunSource) -> ReportData:
    """Read the raw file and compute everything anew; RecordsError names a broken line."""
    from trtspec.loadtest.run_folder import read_run, summarise_run

    run = read_run(source.path)
    data = report_data(source.name, run.table, summarise_run(run), run.provenance or None, run.measurement)
    return replace(data, samples=run.samples)


def report_data(
    name: str,
    records: Table | Iterable[Record],
    summary: Mapping[str, Any],
    provenance: Mapping[str, Any] | None = None,
    measurement: Mapping[str, Any] | None = None,
) -> ReportData:
    """The report's data for records (there may be none) and their summary."""
    from trtspec.loadtest.selection import mark_start_bursts
    from trtspec.loadtest.table import Table, table_of

    table = records if isinstance(records, Table) else table_of(records)
    return ReportData(name, mark_start_bursts(table), summary, provenance, measurement or {})
