"""What is known of a server under test."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

__all__ = ["TargetFacts"]

_DEEPEST = 20


@dataclass(frozen=True)
class TargetFacts:
    """What answers at an address; stored with a run.

    `one_piece` says why figures of streaming mean nothing there, None when it streams as far as can be known.
    `counts_tokens`: whether every chunk comes with the server's count of tokens. `server` has at least its name where
    it tells one, `configuration` what it tells of the model's.
    """

    url: str
    kind: str
    protocol: str
    model: str
    models: tuple[str, ...] = ()
    one_piece: str | None = None
    counts_tokens: bool = False
    server: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """All of it, for measurement.json; what JSON cannot hold (NaN) or is nested without end, as text."""
        server, configuration = (_plain(dict(part)) for part in (self.server, self.configuration))
        rest = replace(self, server={}, configuration={})
        return {**asdict(rest), "models": list(self.models), "server": server, "configuration": configuration}


def _plain(value: Any, depth: int = 0) -> Any:
    """A document of a server, as far as it is plain JSON of a sensible depth."""
    if isinstance(value, dict) and depth < _DEEPEST:
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and depth < _DEEPEST:
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, type(None))) else "…"
