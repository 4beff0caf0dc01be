"""Cells that the console's and the Markdown summary's tables of levels share."""

from __future__ import annotations

from trtspec.reports.formats import number_text
from trtspec.reports.reading import Part

__all__ = ["TIMES", "median_cells", "rate_cell"]

# metric → its column's head; cells are in ms
TIMES = (("time_to_first_token", "TTFT"), ("time_per_output_token", "TPOT"), ("request_latency", "latency"))
_ABSENT = "–"


def median_cells(part: Part, arm: str) -> list[str]:
    """The medians of TIMES in ms."""
    values = [part.metric(arm, name).get("p50") for name, _ in TIMES]
    return [_ABSENT if value is None else number_text(1000 * value) for value in values]


def rate_cell(part: Part, arm: str) -> str:
    """Tokens per second in total."""
    value = part.throughput(arm)
    return _ABSENT if value is None else number_text(value)
