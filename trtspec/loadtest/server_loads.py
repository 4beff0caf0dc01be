"""What the `server` section of a summary needs to know of the requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trtspec.loadtest.evidence import Evidence
from trtspec.loadtest.selection import Group
from trtspec.loadtest.table import NEVER
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.telemetry.section import ArmLoad, server_section
from trtspec.loadtest.throughput import active_intervals, measure_load
from trtspec.wire.messages import ServerStamps

__all__ = ["server"]


def server(evidence: Evidence, samples: Samples | None) -> dict[str, Any] | None:
    """The `server` section; None for a run in which nobody asked the servers and they stamped nothing."""
    telemetry = evidence.measurement.get("telemetry") or []
    found = samples or Samples()
    if not telemetry and not found.gauges and not found.gpus and not len(evidence.table.perf_rows):
        return None
    return dict(server_section(_loads(evidence), telemetry, found))


def _loads(evidence: Evidence) -> Iterator[ArmLoad]:
    for (arm, label), group in evidence.groups.items():
        starts, ends = active_intervals(group.table, group.measured)
        yield ArmLoad(
            arm=arm,
            load=label,
            spans=list(zip(starts.tolist(), ends.tolist(), strict=True)),
            tokens=measure_load(group.table, group.measured, group.others).tokens,
            sent=len(group.rows),
            first=list(_stamped(group)),
        )


def _stamped(group: Group) -> Iterator[tuple[int, ServerStamps]]:
    """Time to first token in ns and the server's stamps of each measured request that has them."""
    import numpy as np

    table = group.table
    mine = np.isin(table.perf_rows, group.measured)
    for row, stamps in zip(table.perf_rows[mine].tolist(), table.perf_ns[mine].tolist(), strict=True):
        known = (None if stamp == NEVER else stamp for stamp in stamps)
        yield int(table.first_ns[row] - table.origin_ns[row]), ServerStamps(*known)
