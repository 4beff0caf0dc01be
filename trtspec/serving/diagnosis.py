"""Why a server did not start: its last lines without the noise, and the likely cause."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.serving.causes import CAUSES
from trtspec.units import cut_text, plain_text

__all__ = ["Diagnosis", "diagnose", "is_hopeless", "log_tail"]

_READ = 1 << 18
_LINES = 20  # that are shown
_SEARCHED = 400  # that a cause is looked for in
_LINE = 2000  # characters of a line that are looked at: patterns need the square of that in steps
_SHOWN = 500  # characters of a line that are shown


@dataclass(frozen=True)
class Diagnosis:
    """The end of a log and, where a known pattern occurs in it, cause and fix."""

    tail: tuple[str, ...]
    cause: str | None
    fix: str | None


_NOISE = re.compile(
    r"^[+|]|^$|<frozen importlib|^\S+ \S+ \d+ (?:pinned_memory_manager|cuda_memory_manager|metrics|tritonserver)\.cc"
    r"|server\.cc:\d+\] *(?:$|Waiting for|Timeout|All models are)|CudaDriverHelper|Failed to initialize NVML"
)
_ENTRY = re.compile(r'^([A-Z]\d{4} [\d:.]+ \d+ \S+\] )"(.*)"$')


def log_tail(log: Path, lines: int = _LINES) -> list[str]:
    """The last informative lines of a server's log, long ones cut; reads only its end, however long it is."""
    return [cut_text(line, _SHOWN) for line in _informative(log)[-lines:]]


def _informative(log: Path) -> list[str]:
    """Lines without noise and control characters; of one that was drawn over (a progress bar) the last state."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _READ))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    parts = (part.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") for part in _unfold(line))
    plain = (plain_text(cut_text(part, _LINE)).rstrip() for part in parts)
    return [line for line in plain if not _NOISE.search(line)]


def _unfold(line: str) -> list[str]:
    """Triton quotes a message of several lines into one."""
    match = _ENTRY.match(line)
    if match is None:
        return [line]
    return (match[1] + match[2].replace("\\n", "\n").replace('\\"', '"')).split("\n")


def diagnose(log: Path, exit_code: int | None = None) -> Diagnosis:
    """Tail, cause and fix for a server that ended with `exit_code` (negative: a signal; None: it still runs)."""
    lines = _informative(log)
    cause, fix = _cause("\n".join(lines[-_SEARCHED:]), exit_code)
    return Diagnosis(tuple(cut_text(line, _SHOWN) for line in lines[-_LINES:]), cause, fix)


def is_hopeless(log: Path) -> bool:
    """True when a model process could not even be executed; Triton would wait its whole stub timeout for it."""
    return "error while loading shared libraries" in "\n".join(log_tail(log))


def _cause(text: str, exit_code: int | None) -> tuple[str | None, str | None]:
    if exit_code == -9:
        return "the system killed the server (signal 9), most likely for want of memory", "free memory and try again"
    for known in CAUSES:
        if match := re.search(known.pattern, text):
            return _filled(known.cause, match), known.fix
    if exit_code == -signal.SIGSEGV:
        return "Triton crashed (signal 11); up to 26.04 a client's deeply nested JSON over HTTP does that", None
    if exit_code is not None and exit_code < 0:
        return f"the server ended by signal {-exit_code}", None
    return None, None


def _filled(template: str, match: re.Match[str]) -> str:
    groups: Sequence[str] = [value for value in match.groups() if value]
    names = re.findall(r"{(\w+)}", template)
    values = {name: match.groupdict().get(name) or (groups[0] if groups else "?") for name in names}
    return template.format(**values)
