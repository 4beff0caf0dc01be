"""Why a server did not start: its last lines without the noise, and the likely cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CAUSES", "Cause", "Diagnosis", "diagnose", "is_hopeless", "log_tail"]

_READ = 1 << 18
_LINES = 20


@dataclass(frozen=True)
class Cause:
    """A log pattern, what it usually means, and what to do; `{name}` stands for a named group of the pattern."""

    pattern: str
    cause: str
    fix: str


@dataclass(frozen=True)
class Diagnosis:
    """The end of a log and, where a known pattern occurs in it, cause and fix."""

    tail: tuple[str, ...]
    cause: str | None
    fix: str | None


_LOCAL = "pip install 'trtspec[local]'"
_BUILD = "trtspec build, then trtspec repo"

# The first match decides: the particular before the general.
CAUSES: tuple[Cause, ...] = (
    Cause(
        r"Socket '(?P<address>[^']+)' already in use|Address already in use|Failed to start \w+ (?:service|server)",
        "a port was taken by another process while the server started",
        "choose other ports: --http-port, --grpc-port, --metrics-port",
    ),
    Cause(
        r"compiled using NumPy 1\.x cannot be run in\s+NumPy 2|numpy\.core\.multiarray failed to import"
        r"|_ARRAY_API not found",
        "numpy 2 is installed; the server's Python backend needs numpy 1",
        _LOCAL,
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>libpython\S+):",
        "the interpreter's shared library {library} is not installed",
        "install it (Debian, Ubuntu: the package libpython3.X), or use a Python built with a shared library",
    ),
    Cause(
        r"error while loading shared libraries: (?P<library>[^:\s]+):",
        "the shared library {library} is not installed",
        "install the system package that contains it",
    ),
    Cause(
        r"No space left on device|boost::interprocess|[Uu]nable to initialize shared memory key"
        r"|[Ff]ailed to increase the shared memory pool",
        "/dev/shm is too small for the model processes",  # noqa: S108  # a message
        "give it more room (docker run --shm-size=1g)",
    ),
    Cause(
        r"MemoryError|Cannot allocate memory|[Oo]ut of memory|std::bad_alloc|can't allocate memory",
        "there is not enough memory for the engines",
        "free memory, lower build.max_batch_size or build.max_seq_len, or use smaller models",
    ),
    Cause(
        r"No module named '(?P<module>[^']+)'",
        "the model's code imports {module}, which is not installed in this environment",
        _LOCAL,
    ),
    Cause(
        r"ImportError: (?P<detail>[^\n]+)",
        "an import in the model's code failed: {detail}",
        f"{_LOCAL}; trtspec repo writes the models' code anew",
    ),
    Cause(
        r"Python version mismatch|incompatible Python version|undefined symbol: _?Py",
        "the Python backend's stub and this interpreter have different versions",
        "make the virtual environment anew with Python 3.10 to 3.13",
    ),
    Cause(
        r"unable to find backend library for backend '(?P<backend>[^']+)'"
        r"|Invalid argument: unable to find '(?P<library>[^']+)' (?:or[^\n]*)?for model",
        "the embedded server has only the Python backend; this repository needs another one",
        "use runtime torch here, or start it in NVIDIA's container",
    ),
    Cause(
        r"FileNotFoundError: [^\n]*'(?P<path>[^'\n]+)'|No such file or directory: '?(?P<other>[^'\n]+)'?",
        "a file that the repository points to is missing: {path}",
        _BUILD,
    ),
    Cause(
        r"(?:ArtefactMissing|engine [^\n]*(?:missing|not found))",
        "the engine that the repository points to is missing",
        _BUILD,
    ),
    Cause(r"[Pp]ermission denied", "a file or folder may not be read or written", "look at the owner of the files"),
    Cause(
        r"failed to read text proto|Error parsing text-format|[Ii]nvalid model name|failed to load model configuration",
        "a config.pbtxt in the repository is damaged",
        "trtspec repo",
    ),
    Cause(
        r"(?:safetensors_rust\.)?SafetensorError|Error while deserializing header",
        "the engine's weights are damaged",
        "trtspec build --force, then trtspec repo",
    ),
    Cause(
        r"Stub process '[^']*' is not healthy|[Ff]ailed to (?:wait for|launch)[^\n]*stub|Timed out occurred",
        "a model's Python process died while it was loaded",
        "look at the log; out of memory is the usual reason",
    ),
)

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
