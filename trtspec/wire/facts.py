"""What is known of a server under test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["TargetFacts"]


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
        """All of it, for measurement.json."""
        return {**asdict(self), "models": list(self.models)}
