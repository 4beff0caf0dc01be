"""Answers of another shape than they have to have: a failed request each, never the end of a whole load test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trtspec.errors import RequestFailed

__all__ = ["count", "readable"]

_MOST = 2**63 - 1
# what taking apart a JSON document raises where a number stands for a list, a text for an object, and so on
_MISSHAPEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@contextmanager
def readable() -> Iterator[None]:
    """RequestFailed "bad_response" where the block finds an answer of another shape than it knows."""
    try:
        yield
    except _MISSHAPEN as error:
        raise RequestFailed(f"the answer cannot be read: {error}", code="bad_response") from None


def count(value: Any) -> int | None:
    """A count as a server gives it, None for none; ValueError for what counts nothing (-1, 2.5, "7", true)."""
    if value is None:
        return None
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole or not 0 <= value <= _MOST:
        raise ValueError(f"{str(value)[:40]!r} is no count")
    return int(value)
