"""Warnings placed beside the numbers that they concern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Warnings", "sort_warnings"]


@dataclass(frozen=True)
class Warnings:
    """Warnings by section; `general` are those that concern the whole run, or a section that is unknown here."""

    general: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


_SECTIONS = frozenset(field.name for field in fields(Warnings))


def sort_warnings(comparison: Mapping[str, Any]) -> Warnings:
    """The summary's warnings as sentences, each in the section that its caveat names.

    `caveats` are `{"code", "text", "section"}`; a warning that has none (it is of a file beside the run, or of a
    summary of an older release) is general.
    """
    told = [caveat for caveat in comparison.get("caveats") or () if isinstance(caveat, Mapping)]
    sections = {str(caveat.get("text")): str(caveat.get("section")) for caveat in told}
    places: dict[str, list[str]] = {}
    for text in map(str, comparison.get("warnings") or ()):
        section = sections.get(text, "general")
        places.setdefault(section if section in _SECTIONS else "general", []).append(_sentence(text))
    return Warnings(**{place: tuple(texts) for place, texts in places.items()})


def _sentence(text: str) -> str:
    capital = text[:1].upper() + text[1:]
    return capital if capital.endswith((".", "!", "?")) else f"{capital}."
