"""Rotary positions from config.json: base, share of a head that turns, and how positions are scaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

__all__ = ["RopeFacts", "RopeScaling", "read_rope"]

_SECTIONS = ("rope_parameters", "rope_scaling")  # transformers 5, and until 4
_OLD_KINDS = {"su": "longrope"}
_PLAIN = {"rope_theta", "partial_rotary_factor"}  # a section with nothing else scales nothing
_THETA = ("rope_theta", "rotary_emb_base", "rotary_base", "rope_base")
_SHARE = ("partial_rotary_factor", "rotary_pct", "rope_pct")
_MALFORMED = Callable[[str, Any, str], Exception]


@dataclass(frozen=True)
class RopeScaling:
    """How rotary positions are scaled: kind (None: not given), its fields, and where they stand in config.json."""

    kind: str | None
    fields: Mapping[str, Any]
    where: str


@dataclass(frozen=True, kw_only=True)
class RopeFacts:
    """Scalings in use, the base frequency (of the layers that see all tokens), and of windowed layers if another.

    `partial_rotary_factor` is the share of a head's width that turns; None where config.json does not say it.
    """

    rope: tuple[RopeScaling, ...]
    rope_theta: float | None
    rope_local_theta: float | None
    partial_rotary_factor: float | None


def read_rope(data: Mapping[str, Any], head_dim: int | None, malformed: _MALFORMED) -> RopeFacts:
    """The rope facts in the language part of a config.json; `malformed` makes the error for a value of a wrong type."""
    parts = _parts(data, malformed)
    scalings = tuple(_scaling(where, part, data) for where, part in parts.items())
    places = [data, *(part for where, part in parts.items() if "sliding" not in where)]
    local = [part for where, part in parts.items() if "sliding" in where]
    return RopeFacts(
        rope=tuple(scaling for scaling in scalings if scaling.kind != "default"),
        rope_theta=_first(places, _THETA),
        rope_local_theta=_first([data], ("rope_local_base_freq",)) or _first(local, _THETA),
        partial_rotary_factor=_first(places, _SHARE) or _share_of(data.get("rotary_dim"), head_dim),
    )


def _parts(data: Mapping[str, Any], malformed: _MALFORMED) -> dict[str, Mapping[str, Any]]:
    """Place → section; one per kind of layer where they are nested."""
    for key in _SECTIONS:
        section = data.get(key)
        if section is None or section == {}:
            continue
        if not isinstance(section, dict):
            raise malformed(key, section, "an object")
        nested = {name: part for name, part in section.items() if isinstance(part, dict)}
        if nested and len(nested) == len(section):
            return {f"{key}.{name}": part for name, part in nested.items()}
        return {key: section}  # a file that carries both was written for old and new readers: they say the same
    return {}


def _scaling(where: str, part: Mapping[str, Any], config: Mapping[str, Any]) -> RopeScaling:
    kind = part.get("rope_type", part.get("type"))
    if kind == "default" and "mrope_section" in part:
        kind = "mrope"
    if kind is None and where.startswith("rope_parameters") and not part.keys() - _PLAIN:
        kind = "default"
    fields = {key: value for key, value in part.items() if key not in ("rope_type", "type")}
    # Phi-3 keeps this one beside the section
    if "original_max_position_embeddings" not in fields and "original_max_position_embeddings" in config:
        fields["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    name = kind if isinstance(kind, str) and kind else None
    return RopeScaling(_OLD_KINDS.get(name, name) if name else None, fields, where)


def _first(places: list[Mapping[str, Any]], keys: tuple[str, ...]) -> float | None:
    values = (place.get(key) for place in places for key in keys)
    return next((float(value) for value in values if _positive(value)), None)


def _positive(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e18


def _share_of(width: Any, head_dim: int | None) -> float | None:
    """GPT-J gives the width that turns, not its share."""
    return width / head_dim if type(width) is int and width > 0 and head_dim else None
