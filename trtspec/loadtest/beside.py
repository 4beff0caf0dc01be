"""The JSON files beside a run's records, which an earlier version, or a person, may have written in another shape."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["read_beside"]

_NUMBER: tuple[type, ...] = (int, float, type(None))
_TEXT: tuple[type, ...] = (str, type(None))
_FLAG: tuple[type, ...] = (bool, type(None))
_ANY = ""
_LAG = {"p50": _NUMBER, "p99": _NUMBER, "max": _NUMBER, "count": _NUMBER}
_PLACE = {"arm": _TEXT, "load": _TEXT, "concurrency": _NUMBER}

# What is used of them. A type stands for values of it, a list for a list of such, a dict for an object with such
# values below these keys ("": below any), None everywhere for what is not there.
_SHAPES: dict[str, Any] = {
    "calibration": {},
    "client": {"loop_lag": _LAG, "send_lag": _LAG, "cpu_share": _NUMBER, "processes": [{}]},
    "cold_start": {_ANY: {"launch_to_ready": _NUMBER, "first_answer": (dict, int, float, type(None)), "reason": _TEXT}},
    "divergences": [{}],
    "engines": {},
    "labels": {_ANY: _TEXT},
    "machine": {},
    "name": _TEXT,
    "options": {
        "aa": _FLAG, "concurrency": [_NUMBER], "disconnect": _NUMBER, "draft_length": _NUMBER, "duration": _NUMBER,
        "kind": _TEXT, "labels": {_ANY: _TEXT}, "max_in_flight": _NUMBER, "max_tokens": _NUMBER, "prompts": _TEXT,
        "rate": [_NUMBER], "reading_speed": _NUMBER, "requests": _NUMBER, "seed": _NUMBER, "slo": {_ANY: _NUMBER},
        "temperature": _NUMBER, "timeout": _NUMBER, "until": _NUMBER, "urls": {_ANY: _TEXT},
    },
    "packages": {},
    "placement": {"shared": _FLAG, "reason": _TEXT},
    "prompts": {"count": _NUMBER, "sha256": _TEXT, "selected_sha256": _TEXT, "synthetic": _FLAG, "categories": {}},
    "servers": [{**_PLACE, "frontend_requests": _NUMBER, "target_requests": _NUMBER}],
    "spec": {},
    "stopped": _TEXT,
    "targets": {_ANY: {"url": _TEXT, "kind": _TEXT, "protocol": _TEXT, "model": _TEXT, "one_piece": _TEXT,
                       "server": {}, "configuration": {}}},
    "telemetry": [{**_PLACE, "growth": [(list,)], "reason": _TEXT, "gpus": (str, list, type(None))}],
}  # fmt: skip


def read_beside(path: Path, warn: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The JSON object at `path`, as far as it can be used; what cannot is told to `warn`. Empty when it is not there.

    Numbers that JSON has not (NaN, Infinity) are None.
    """
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None, parse_float=_finite)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        warn(f"{path.name}: cannot be read and was left out ({reason})")
        return {}
    if not isinstance(data, dict):
        warn(f"{path.name}: holds no JSON object and was left out")
        return {}
    misshapen = [key for key, value in data.items() if key in _SHAPES and not _fits(value, _SHAPES[key])]
    if misshapen:
        warn(f"{path.name}: {', '.join(misshapen)} cannot be used and was left out")
    return {key: value for key, value in data.items() if key not in misshapen}


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _fits(value: Any, shape: Any, *, outermost: bool = True) -> bool:
    if isinstance(shape, tuple):
        return type(value) in shape
    if value is None:
        return not outermost
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if not isinstance(value, dict):
        return False
    known = ((item, shape.get(key, shape.get(_ANY))) for key, item in value.items())
    return all(of is None or _fits(item, of, outermost=False) for item, of in known)
