"""Waiting for the requests in work after new ones are refused."""

from __future__ import annotations

import time
from collections.abc import Callable

from trtspec.serving.control import ControlFailed, ModelControl
from trtspec.serving.metrics import read_metrics, running_requests
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["drained"]

_POLL = 0.2
# the frontend hands its gauge over about once a second: one reading may be older than the last request
_QUIET = 2.5


def drained(
    control: ModelControl, metrics_host: str, metrics_port: int, limit: float, gone: Callable[[], bool]
) -> bool:
    """True once the unloading frontend has no request left, or the server is `gone`; False after `limit` seconds.

    Triton counts a request until its client closes the stream, so an idle open stream would hold it; where the
    frontend's own gauge is exported, that decides too.
    """
    deadline = time.monotonic() + limit
    quiet_since: float | None = None
    while time.monotonic() < deadline:
        if gone() or _unloaded(control):
            return True
        running = running_requests(read_metrics(metrics_host, metrics_port) or ())
        if running != 0:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= _QUIET:
            return True
        time.sleep(_POLL)
    return False


def _unloaded(control: ModelControl) -> bool:
    try:
        return control.states().get(FRONTEND_MODEL, "UNAVAILABLE") == "UNAVAILABLE"
    except ControlFailed:
        return False
