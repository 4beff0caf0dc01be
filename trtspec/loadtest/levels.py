"""Load levels by their labels: "concurrency 4" is a closed loop, "poisson 5/s" an open one."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["CLOSED", "LoadLevel", "parse_level"]

CLOSED = "concurrency"


@dataclass(frozen=True)
class LoadLevel:
    """A label's parts: the kind of load, and the connections (closed loop) or requests/s (open loop; None: varies)."""

    label: str
    kind: str
    value: float | None

    @property
    def closed(self) -> bool:
        """True for a closed loop: a new request is sent when one has been answered."""
        return self.kind == CLOSED

    @property
    def alone(self) -> bool:
        """True when requests do not share the server, so that each is a unit of its own."""
        return self.closed and self.value == 1

    @property
    def order(self) -> tuple[bool, str, float, str]:
        """Sorts closed loops before open ones and small loads before large ones."""
        return (not self.closed, self.kind, self.value or 0.0, self.label)


def parse_level(label: str) -> LoadLevel:
    """The level of a label; one without a number keeps its label as kind."""
    kind, _, rest = label.rpartition(" ")
    try:
        value = float(rest.removesuffix("/s"))
    except ValueError:
        return LoadLevel(label, label, None)
    if not math.isfinite(value):
        return LoadLevel(label, label, None)
    return LoadLevel(label, kind or label, value)
