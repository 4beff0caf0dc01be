"""Dotted paths into a summary: `comparison.speedup.request_latency.low`.

A name that is no plain word stands in quotes: `by_load.'poisson 5/s'.speedup`. A number picks an item of a list,
counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from trtspec.errors import UsageError

__all__ = ["find", "join_path", "locate", "numbers_below", "split_path"]

_WORD = re.compile(r"[\w+-]+")
_SEGMENT = re.compile(r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<word>[\w+-]+))(?P<rest>\.|$)""")
# sections that a path may leave out: what people mean by `speedup` is the comparison's
_IMPLIED: tuple[tuple[str, ...], ...] = ((), ("comparison",))
_LISTED = 12


def split_path(path: str) -> tuple[str, ...]:
    """The names of a dotted path; UsageError when it is none."""
    names, at = [], 0
    while at < len(path):
        found = _SEGMENT.match(path, at)
        if found is None or (found["rest"] == "." and found.end() == len(path)):
            fix = "names are joined by dots; one with spaces or slashes stands in quotes: by_load.'poisson 5/s'"
            raise UsageError(f"{path!r} is no path into a summary", fix=fix)
        names.append(next(part for part in (found["single"], found["double"], found["word"]) if part is not None))
        at = found.end()
    if not names:
        raise UsageError("an empty path into a summary", fix="e.g. speedup.output_tokens_per_second.low")
    return tuple(names)


def join_path(*names: str) -> str:
    """The dotted path of names, quoted where they are no plain words."""
    return ".".join(name if _WORD.fullmatch(name) else f"'{name}'" for name in names)


def find(summary: Mapping[str, Any], path: str) -> Any:
    """The value at `path`; UsageError names what is there when it does not exist."""
    return locate(summary, path)[1]


def locate(summary: Mapping[str, Any], path: str) -> tuple[Any, Any]:
    """What holds the value at `path`, and the value; UsageError as with `find`."""
    names = split_path(path)
    places = [(prefix, _walk(summary, (*prefix, *names))) for prefix in _IMPLIED]
    for prefix, (value, missing) in places:
        if missing is None:
            return _walk(summary, (*prefix, *names[:-1]))[0], value
    # the place that led farthest tells best what was meant
    prefix, (_, missing) = max(places, key=lambda place: (place[1][1] or 0) - len(place[0]))
    raise _absent(summary, path, (*prefix, *names), missing or 0)


def _walk(value: Any, names: Sequence[str]) -> tuple[Any, int | None]:
    """The value, and the index of the first name that is not there."""
    for index, name in enumerate(names):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None, index
    return value, None


def _absent(summary: Mapping[str, Any], path: str, names: Sequence[str], missing: int) -> UsageError:
    place, _ = _walk(summary, names[:missing])
    where = join_path(*names[:missing])
    if not isinstance(place, (Mapping, list)):
        return UsageError(f"{path}: {where} is a value and has no {names[missing]!r}", fix=f"use {where}")
    keys = list(place) if isinstance(place, Mapping) else [str(index) for index in range(len(place))]
    near = get_close_matches(names[missing], keys, n=1)
    shown = ", ".join(join_path(key) for key in keys[:_LISTED]) + (", …" if len(keys) > _LISTED else "")
    fix = f"did you mean {join_path(*names[:missing], near[0])}?" if near else f"there are: {shown or 'no names'}"
    return UsageError(f"{path}: no {names[missing]!r} in {where or 'the summary'}", fix=fix)


def numbers_below(value: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, float]]:
    """Every number below `value` with its path, in the summary's order; lists are left out."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [(join_path(*prefix), float(value))]
    if not isinstance(value, Mapping):
        return []
    return [found for name, item in value.items() for found in numbers_below(item, (*prefix, str(name)))]
