"""Reading a JSON document that somebody else wrote: typed values, and every problem with the key it stands at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trtspec.errors import Problem

__all__ = ["MOST", "Fields"]

MOST = 1 << 31  # sizes of an engine are 32-bit numbers
_WORDS = {"enable": True, "enabled": True, "true": True, "disable": False, "disabled": False, "false": False}


@dataclass(frozen=True)
class Fields:
    """One object of a JSON document. Getters give None for what is absent or null, or has the wrong type.

    A wrong type, and an absent value that is `required`, is entered in `problems`, which all sections share.
    """

    data: Mapping[str, Any]
    path: str = ""
    problems: list[Problem] = field(default_factory=list)

    def section(self, key: str, *, required: bool = False) -> Fields:
        """The object at `key`, empty when it is not there."""
        value = self._value(key, "an object", required=required, fits=lambda item: isinstance(item, dict))
        return Fields(value or {}, self._at(key), self.problems)

    def whole(self, key: str, *, required: bool = False, least: int = 0, most: int = MOST) -> int | None:
        """The whole number at `key`; one below `least` or above `most` is a problem."""
        expected = f"a whole number of at least {least}" if least else "a whole number"
        if type(self.data.get(key)) is int and self.data[key] > most:
            expected = f"at most {most}"
        value = self._value(
            key, expected, required=required, fits=lambda item: type(item) is int and least <= item <= most
        )
        return None if value is None else int(value)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """The text at `key`."""
        value = self._value(key, "a text", required=required, fits=lambda item: isinstance(item, str) and item != "")
        return None if value is None else str(value)

    def flag(self, key: str) -> bool | None:
        """The boolean at `key`, which older versions write as 0 and 1 or as enable and disable."""
        value = self._value(key, "true or false", required=False, fits=_is_flag)
        return _WORDS[value.lower()] if isinstance(value, str) else None if value is None else bool(value)

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """The object at `key` as it is."""
        value = self._value(key, "an object", required=False, fits=lambda item: isinstance(item, dict))
        return None if value is None else dict(value)

    def problem(self, key: str, message: str) -> None:
        """Enter a problem with the value at `key`."""
        self.problems.append(Problem(self._at(key), message))

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _value(self, key: str, expected: str, *, required: bool, fits: Any) -> Any:
        value = self.data.get(key)
        if value is None:
            if required:
                self.problem(key, f"is missing, {expected} is expected")
            return None
        if fits(value):
            return value
        shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
        self.problem(key, f"is {shown}, {expected} is expected")
        return None


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or value in (0, 1, 2) if not isinstance(value, str) else value.lower() in _WORDS
