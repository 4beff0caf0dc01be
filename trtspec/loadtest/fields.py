"""Typed access to a JSON object from a file that people may have written: every mistake names its field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["FieldError", "Fields", "is_unicode"]

Choice = TypeVar("Choice", bound=str)
_MISSING: Any = object()
_LARGEST = 2**63 - 1


def is_unicode(text: str) -> bool:
    """False for text with half a surrogate pair, which JSON can hold and no file or request can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class FieldError(ValueError):
    """What is wrong with one JSON object."""


class Fields:
    """The fields of one JSON object; each getter returns the typed value or raises FieldError."""

    def __init__(self, data: Mapping[str, Any], path: str = "") -> None:
        self._data = data
        self._path = path

    @classmethod
    def parse(cls, line: str) -> Fields:
        """The object in one line of JSON."""
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise FieldError(f"not valid JSON: {error.msg} (column {error.colno})") from None
        except (ValueError, RecursionError):
            raise FieldError("a number with too many digits, or too deep nesting") from None
        if not isinstance(data, dict):
            raise FieldError("a JSON object is expected")
        return cls(data)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def _name(self, key: str) -> str:
        return f"{self._path}{key}"

    def _wrong(self, key: str, expected: str) -> FieldError:
        return FieldError(f"'{self._name(key)}' must be {expected}, not {json.dumps(self._data[key])[:40]}")

    def _get(self, key: str, default: Any = _MISSING) -> Any:
        value = self._data.get(key)
        if value is None:
            if default is _MISSING:
                raise FieldError(f"'{self._name(key)}' is missing")
            return default
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(key, _MISSING if default is None else default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        if not is_unicode(value):
            raise self._wrong(key, "valid Unicode text")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string or None."""
        return None if self._data.get(key) is None else self.text(key)

    def choice(self, key: str, choices: Sequence[Choice]) -> Choice:
        """One of `choices`."""
        value = self.text(key)
        for choice in choices:
            if value == choice:
                return choice
        raise self._wrong(key, " or ".join(repr(choice) for choice in choices))

    def optional_choice(self, key: str, choices: Sequence[Choice]) -> Choice | None:
        """One of `choices` or None."""
        return None if self._data.get(key) is None else self.choice(key, choices)

    def integer(self, key: str) -> int:
        """A whole number (also written as 12.0)."""
        value = self._get(key)
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole:
            raise self._wrong(key, "a whole number")
        if abs(value) > _LARGEST:
            raise self._wrong(key, "a number of 64 bits")
        return int(value)

    def optional_integer(self, key: str) -> int | None:
        """A whole number or None."""
        return None if self._data.get(key) is None else self.integer(key)

    def optional_count(self, key: str) -> int | None:
        """A whole number of at least 0, or None."""
        value = self.optional_integer(key)
        if value is not None and value < 0:
            raise self._wrong(key, "0 or more")
        return value

    def optional_counts(self, key: str) -> tuple[int, ...] | None:
        """A list of whole numbers of at least 0, or None."""
        value = self._get(key, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is int and 0 <= item <= _LARGEST for item in value):
            raise self._wrong(key, "a list of counts")
        return tuple(value)

    def value(self, key: str) -> Any:
        """Whatever is below `key`."""
        return self._get(key)

    def items(self, key: str) -> list[Any]:
        """A list of anything."""
        value = self._get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def scalar(self, key: str) -> str | int:
        """A string or a whole number."""
        return self.text(key) if isinstance(self._get(key), str) else self.integer(key)

    def one_text(self, key: str) -> str:
        """A string, or a list with one."""
        value = self._get(key)
        if isinstance(value, list) and len(value) == 1:
            return Fields({key: value[0]}, self._path).text(key)
        return self.text(key)

    def flag(self, key: str) -> bool:
        """True or False; absent is False."""
        value = self._get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def optional_object(self, key: str) -> Fields | None:
        """The object below `key`, or None."""
        value = self._get(key, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Fields(value, f"{self._name(key)}.")

    def objects(self, key: str) -> list[Fields]:
        """The list of objects below `key`."""
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, "a list of objects")
        return [Fields(item, f"{self._name(key)}[{index}].") for index, item in enumerate(value)]
