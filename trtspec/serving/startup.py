"""How long a server may take to start: its weights have to be read."""

from __future__ import annotations

from trtspec.spec import SpecFile
from trtspec.units import bytes_text, duration_text

__all__ = ["ready_timeout"]

# what a network disk gives; a local NVMe is ten times faster
_READ_SPEED = 0.5e9
_BASE = 120.0  # processes, imports, allocating the KV cache


def ready_timeout(spec_file: SpecFile, weights: int, given: float | None = None) -> tuple[float, str | None]:
    """Seconds until the server must be ready, and a note where the default was not enough for `weights` bytes.

    A timeout that was given (an option, or serving.ready_timeout in the spec) is kept.
    """
    serving = spec_file.spec.serving
    if given is not None:
        return given, None
    needed = _BASE + weights / _READ_SPEED
    if "ready_timeout" in serving.model_fields_set or needed <= serving.ready_timeout:
        return serving.ready_timeout, None
    speed = bytes_text(round(_READ_SPEED))
    note = f"{bytes_text(weights)} of weights: waiting up to {duration_text(needed)} (read at {speed}/s or more)"
    return needed, note
