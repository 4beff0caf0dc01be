"""Why a server did not start: its last lines without the noise, and the likely cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.serving.causes import CAUSES

__all__ = ["Diagnosis", "diagnose", "is_hopeless", "log_tail"]

_READ = 1 << 18
_LINES = 20


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
    """The last informative lines of a server's log; reads only its end, however long it is."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _READ))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    plain = [part for line in text.splitlines() for part in _unfold(line)]
    return [line.rstrip() for line in plain if not _NOISE.search(line.rstrip())][-lines:]


def _unfold(line: str) -> list[str]:
    """Triton quotes a message of several lines into one."""
    match = _ENTRY.match(line)
    if match is None:
        return [line]
    return (match[1] + match[2].replace("\\n", "\n").replace('\\"', '"')).splitlines()


def diagnose(log: Path, exit_code: int | None = None) -> Diagnosis:
    """Tail, cause and fix for a server that ended with `exit_code` (negative: a signal; None: it still runs)."""
    tail = log_tail(log)
    cause, fix = _cause("\n".join(log_tail(log, lines=400)), exit_code)
    return Diagnosis(tuple(tail), cause, fix)


def is_hopeless(log: Path) -> bool:
    """True when a model process could not even be executed; Triton would wait its whole stub timeout for it."""
    return "error while loading shared libraries" in "\n".join(log_tail(log))


def _cause(text: str, exit_code: int | None) -> tuple[str | None, str | None]:
    if exit_code == -9:
        return "the system killed the server (signal 9), most likely for want of memory", "free memory and try again"
    for known in CAUSES:
        if match := re.search(known.pattern, text):
            return _filled(known.cause, match), known.fix
    if exit_code is not None and exit_code < 0:
        return f"the server ended by signal {-exit_code}", None
    return None, None


def _filled(template: str, match: re.Match[str]) -> str:
    groups: Sequence[str] = [value for value in match.groups() if value]
    names = re.findall(r"{(\w+)}", template)
    values = {name: match.groupdict().get(name) or (groups[0] if groups else "?") for name in names}
    return template.format(**values)
