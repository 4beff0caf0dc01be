"""Error → exit code, message and next command: the one place that decides what a person sees."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from trtspec import errors
from trtspec.cli.output import Sink, print_json
from trtspec.units import plain_text

__all__ = ["EXIT_CODES", "INTERRUPTED", "exit_code", "show_error", "show_json_failure"]

INTERRUPTED = 130

# the first class that matches decides; order: special before general
EXIT_CODES: tuple[tuple[type[errors.TrtspecError], int], ...] = (
    (errors.UsageError, 2),
    (errors.RecordsError, 2),
    (errors.PairError, 3),
    (errors.CheckpointError, 3),
    (errors.VersionUnsupported, 3),
    (errors.BuildError, 4),
    (errors.ServerError, 5),
    (errors.VerificationFailed, 6),
    (errors.ThresholdFailed, 7),
    (errors.TrtspecError, 1),
)


def exit_code(error: errors.TrtspecError) -> int:
    """The process exit code for an error (0 never); a request that a server refuses was typed wrongly."""
    if isinstance(error, errors.RequestFailed) and error.refused:
        return 2
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


def show_error(error: errors.TrtspecError, sink: Sink) -> None:
    """Print what happened, where, the details the error carries, and what to type next."""
    if sink.mode == "json":
        _print_document(_error_data(error))
    where = f"{_shown(error.where)}: " if error.where else ""
    sink.err.print(f"[bold red]error:[/] {where}{_shown(error.message)}")
    for line in _details(error):
        sink.err.print(f"  {_shown(line)}")
    if error.fix:
        sink.err.print(f"[bold]next:[/] {_shown(error.fix)}")


def _shown(text: str) -> str:
    """`text` as it is: neither our markup nor a terminal's control sequences, which logs and file names may hold."""
    return escape(plain_text(text))


def show_json_failure(kind: str, message: str, code: int, *, fix: str | None = None) -> None:
    """The JSON document of a failure that is no TrtspecError, in the same form."""
    error = {"type": kind, "message": message, "where": None, "fix": fix, "exit_code": code}
    _print_document(error)


def _print_document(error: dict[str, Any]) -> None:
    with suppress(OSError):  # stdout may be what failed; stderr says it too
        print_json({"schema": 1, "error": error})


def _details(error: errors.TrtspecError) -> list[str]:
    if isinstance(error, errors.SpecError) and len(error.problems) > 1:
        return [f"• {problem}" for problem in error.problems]
    if isinstance(error, errors.ServerNotReady):
        cause = [f"likely cause: {error.cause}"] if error.cause else []
        return [*(f"| {line}" for line in error.log_tail), *cause]
    if isinstance(error, errors.StepFailed):
        cause = [f"likely cause: {error.step.cause}"] if error.step.cause else []
        return [*(f"| {line}" for line in error.step.log_tail), *cause]
    return []


def _error_data(error: errors.TrtspecError) -> dict[str, Any]:
    data: dict[str, Any] = {
        "type": type(error).__name__,
        "message": error.message,
        "where": error.where,
        "fix": error.fix,
        "exit_code": exit_code(error),
    }
    if isinstance(error, errors.SpecError):
        data["problems"] = [{"path": p.path, "message": p.message, "hint": p.hint} for p in error.problems]
    if isinstance(error, errors.StepFailed):
        data["step"] = asdict(error.step)
    if isinstance(error, (errors.PairError, errors.EngineRejected)):
        data["findings"] = [item.to_json() for item in error.findings if hasattr(item, "to_json")]
    return data
