"""Warnings placed beside the numbers that they concern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Warnings", "sort_warnings"]

# words of a warning → section; the first row that matches decides
_PLACES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("general", ("failed", "interrupted", "stopped", "synthetic", "others used", "load generator", "left out")),
    ("metrics", ("in one piece",)),
    ("speed", ("per token, not per request", "few pairs", "few blocks", "repeated a prompt")),
    ("load", ("more than one concurrency", "not steady")),
    ("outputs", ("temperature",)),
    ("acceptance", ("acceptance", "counters")),
)


@dataclass(frozen=True)
class Warnings:
    """Warnings by section; `general` are those that concern the whole run, or nothing that is known here."""

    general: tuple[str, ...] = ()
    speed: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def sort_warnings(comparison: Mapping[str, Any]) -> Warnings:
    """The summary's warnings as sentences, each beside what it is about."""
    places: dict[str, list[str]] = {}
    for text in comparison.get("warnings") or ():
        places.setdefault(_place(str(text)), []).append(_sentence(str(text)))
    return Warnings(**{place: tuple(texts) for place, texts in places.items()})


def _place(text: str) -> str:
    return next((place for place, words in _PLACES if any(word in text for word in words)), "general")


def _sentence(text: str) -> str:
    capital = text[:1].upper() + text[1:]
    return capital if capital.endswith((".", "!", "?")) else f"{capital}."
