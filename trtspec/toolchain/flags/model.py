"""A command-line flag as data, and a program's flags as a table that can be asked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["MINORS", "Flag", "FlagTable", "Kind", "parse_flags"]

MINORS = ("1.0", "1.1", "1.2")
Kind = Literal["text", "texts", "int", "float", "presence"]
Value = str | int | float | bool


@dataclass(frozen=True)
class Flag:
    """One flag: how it is spelt, what it takes, and which minor releases have it.

    A `presence` flag takes no value. `default` is None for a flag that does nothing unless it is given.
    """

    name: str
    kind: Kind
    aliases: tuple[str, ...] = ()
    default: str | None = None
    choices: tuple[str, ...] = ()
    note: str = ""
    versions: tuple[str, ...] = MINORS

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling, the usual one first."""
        return (self.name, *self.aliases)

    @property
    def switch(self) -> bool:
        """True for a flag that takes enable or disable."""
        return self.choices == ("enable", "disable")

    def problem(self, value: Value) -> str | None:
        """Why `value` is not one that the program takes; None when it is."""
        if self.kind == "presence":
            return None if isinstance(value, bool) else "takes no value: write true or false"
        if isinstance(value, bool):
            return None if self.switch else f"takes a value{self._choices_text}"
        words = str(value).split() if self.kind == "texts" else [str(value)]
        if not words:
            return f"takes at least one word{self._choices_text}"
        if wrong := [word for word in words if self.choices and word not in self.choices]:
            return f"{wrong[0]!r} is not one of {', '.join(self.choices)}"
        return _number_problem(words[0], self.kind) if self.kind in ("int", "float") else None

    @property
    def _choices_text(self) -> str:
        return f": {', '.join(self.choices)}" if self.choices else ""

    def argv(self, value: Value) -> tuple[str, ...]:
        """The flag on a command line with `value`; empty for a presence flag that is off."""
        if self.kind == "presence":
            return (self.name,) if value else ()
        if isinstance(value, bool):
            return (self.name, "enable" if value else "disable")
        parts = str(value).split() if self.kind == "texts" else [str(value)]
        return (self.name, *parts)


def _number_problem(text: str, kind: Kind) -> str | None:
    try:
        int(text) if kind == "int" else float(text)
    except ValueError:
        return f"{text!r} is not {'a whole number' if kind == 'int' else 'a number'}"
    return None


@dataclass(frozen=True)
class FlagTable:
    """The flags of one program; `source` is the text they were read from, `note` says what is not known."""

    program: str
    flags: tuple[Flag, ...]
    source: str
    note: str = ""
    _by_name: Mapping[str, Flag] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {name: flag for flag in self.flags for name in flag.names}
        object.__setattr__(self, "_by_name", by_name)

    def find(self, name: str) -> Flag | None:
        """The flag spelt `name`, with or without the dashes; None when the program has none."""
        return self._by_name.get(name) or self._by_name.get(f"--{name.lstrip('-')}")

    def nearest(self, name: str) -> str | None:
        """The flag that looks most like `name`; None when none does."""
        close = difflib.get_close_matches(f"--{name.lstrip('-')}", self._by_name, n=1, cutoff=0.6)
        return close[0] if close else None


def parse_flags(text: str) -> tuple[Flag, ...]:
    """Flags from a table in text, a line each: `names | kind | default | choices | note`; later fields may be left out.

    `switch` as kind stands for text with the choices enable and disable. A line that begins with blanks goes on with
    the one before.
    """
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith(" ") and lines:
            lines[-1] = f"{lines[-1]} {line.strip()}"
        elif line.strip():
            lines.append(line)
    return tuple(_parse_line(line) for line in lines)


def _parse_line(line: str) -> Flag:
    cells = [cell.strip() for cell in line.split("|", 4)] + [""] * 4
    name, *aliases = cells[0].split()
    kind = cells[1]
    choices = ("enable", "disable") if kind == "switch" else tuple(cells[3].split())
    kinds: dict[str, Kind] = {
        "text": "text", "switch": "text", "texts": "texts", "int": "int", "float": "float", "presence": "presence",
    }  # fmt: skip
    return Flag(name, kinds[kind], tuple(aliases), cells[2] or None, choices, cells[4])
