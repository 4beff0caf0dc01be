"""Values of many requests to columns, only where the careful reader would take each of them the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

__all__ = ["LATEST", "NEVER", "NotPlain", "counts", "instants", "integers", "only", "small"]

NEVER = -(2**63)
"""a time that never came"""
LATEST = 2**61
"""no time is beyond it in either direction (73 years), so that any difference fits 64 bits"""
_NOTHING = frozenset({type(None)})
_INTEGERS = frozenset({int})
_OPTIONAL_INTEGERS = _INTEGERS | _NOTHING
_SMALL = 2**31 - 1


class NotPlain(ValueError):
    """A line that needs the careful reader: unusual, or wrong."""


def only(kinds: Iterable[type], values: Iterable[Any]) -> None:
    """NotPlain unless every value is of one of these kinds."""
    if not set(map(type, values)) <= set(kinds):
        raise NotPlain


def integers(values: Sequence[Any], *, missing: int = -1, absent: bool = True) -> Column:
    """64-bit integers, None as `missing`; NotPlain for anything else, and for None unless `absent`."""
    import numpy as np

    kinds = set(map(type, values))
    if kinds <= _INTEGERS:
        return _given(np.array(values, dtype=np.int64))
    if not absent or not kinds <= _OPTIONAL_INTEGERS:
        raise NotPlain
    if kinds == _NOTHING:
        return np.full(len(values), missing, dtype=np.int64)
    _given(np.array([value for value in values if value is not None], dtype=np.int64))
    return np.array([missing if value is None else value for value in values], dtype=np.int64)


def _given(column: Column) -> Column:
    """`column`; NotPlain where a given value is what stands for one that is not there."""
    if len(column) and column.min() == NEVER:
        raise NotPlain
    return column


def instants(values: Sequence[Any], *, absent: bool = True) -> Column:
    """`integers` that are times in ns, None as NEVER; NotPlain beyond LATEST."""
    column = integers(values, missing=NEVER, absent=absent)
    beyond = (column > LATEST) | (column < -LATEST)
    if int(beyond.sum()) != (values.count(None) if absent else 0):
        raise NotPlain
    return column


def small(column: Column) -> Column:
    """`column` in 32 bits where its values fit: most do, and a million requests have many columns."""
    if len(column) and (column.max() > _SMALL or column.min() < -_SMALL):
        return column
    return column.astype("int32")


def counts(values: Sequence[Any], *, absent: bool = True) -> Column:
    """`_integers` of 0 or more, None as -1."""
    column = integers(values, absent=absent)
    if int((column < 0).sum()) != values.count(None):
        raise NotPlain
    return small(column)
