"""Every error that trtspec raises on purpose.

::

    TrtspecError                    what happened, where, and what to type next
    ├── UsageError                  a command line that cannot be carried out
    │   ├── SpecError               trtspec.yaml: all problems at once (`problems`)
    │   └── ArtefactMissing         an engine, a repository or a run that an earlier command makes
    ├── CheckpointError             a checkpoint that cannot be read (`code`)
    ├── PairError                   target and draft do not belong together (`findings`)
    ├── BuildError                  an engine could not be built
    │   ├── StepFailed              a program of the build failed (`step`)
    │   └── EngineRejected          an engine contradicts what was asked for (`findings`)
    ├── ServerError                 the inference server
    │   ├── PortInUse               a port that another process holds
    │   ├── ServerNotReady          it did not become ready (`log_tail`, `cause`)
    │   └── ServerUnreachable       nothing answers where a server should be
    ├── RequestFailed               one inference request failed (`code`)
    ├── LoadTestFailed              requests failed during a load test; the report is written all the same
    ├── RecordsError                a requests.jsonl that cannot be read (`line`)
    ├── VerificationFailed          outputs differ where they may not
    ├── ThresholdFailed             a gate that the user set was missed
    ├── VersionUnsupported          a TensorRT-LLM release that this step cannot work with (`version`)
    └── EnvironmentMissing          a package or program that this step needs is not installed

Exit codes and the text a person sees are decided in one place: `trtspec.cli.failures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ArtefactMissing",
    "BuildError",
    "CheckpointError",
    "EngineRejected",
    "EnvironmentMissing",
    "FailedStep",
    "LoadTestFailed",
    "PairError",
    "PortInUse",
    "Problem",
    "RecordsError",
    "RequestFailed",
    "ServerError",
    "ServerNotReady",
    "ServerUnreachable",
    "SpecError",
    "StepFailed",
    "ThresholdFailed",
    "TrtspecError",
    "UsageError",
    "VerificationFailed",
    "VersionUnsupported",
]


class TrtspecError(Exception):
    """An error with what happened (`message`), where (`where`) and what to type next (`fix`)."""

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class UsageError(TrtspecError):
    """The command line cannot be carried out as typed."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a spec: its dotted path, what is wrong, and a way out if one is known."""

    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} ({self.hint})" if self.hint else text


class SpecError(UsageError):
    """A spec file with one or more problems, all of them collected."""

    def __init__(self, where: str, problems: Sequence[Problem], *, fix: str | None = None) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        message = str(self.problems[0]) if count == 1 else f"{count} problems in the spec"
        super().__init__(message, where=where, fix=fix)


class ArtefactMissing(UsageError):
    """Something that an earlier command makes is not there."""


class CheckpointError(TrtspecError):
    """A checkpoint that cannot be read: missing, truncated or not of a known form; `code` is a short stable word."""

    def __init__(
        self, message: str, *, where: str | None = None, fix: str | None = None, code: str = "unreadable"
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.code = code


class PairError(TrtspecError):
    """The pair cannot be served together; `findings` are those of `trtspec check`."""

    def __init__(self, message: str, findings: Sequence[object] = (), *, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.findings = tuple(findings)


class BuildError(TrtspecError):
    """An engine could not be built."""


@dataclass(frozen=True)
class FailedStep:
    """What is known of a program that failed.

    `failure` is a short stable word (`gpu-memory`) where it is known; `log` is kept; a negative
    `exit_code` is a signal.
    """

    role: str
    stage: str
    exit_code: int | None
    log: str
    log_tail: tuple[str, ...]
    failure: str | None = None
    cause: str | None = None


class StepFailed(BuildError):
    """A program of the build failed; `step` says which, how, and what its log ends with."""

    def __init__(self, message: str, step: FailedStep, *, fix: str | None = None) -> None:
        super().__init__(message, where=step.log, fix=fix)
        self.step = step


class EngineRejected(BuildError):
    """An engine contradicts what was asked for; `findings` say where."""

    def __init__(
        self, message: str, findings: Sequence[object] = (), *, where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.findings = tuple(findings)


class ServerError(TrtspecError):
    """The inference server could not be started, reached or stopped."""


class PortInUse(ServerError):
    """A port that the server needs is held by another process (`holder`, where the system tells)."""

    def __init__(self, port: int, *, holder: str | None = None, fix: str | None = None) -> None:
        super().__init__(f"port {port} is in use by {holder or 'another process'}", fix=fix)
        self.port = port
        self.holder = holder


class ServerNotReady(ServerError):
    """The server did not become ready; `log_tail` are its last lines, `cause` the likely reason."""

    def __init__(
        self, message: str, *, log_tail: Sequence[str] = (), cause: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, fix=fix)
        self.log_tail = tuple(log_tail)
        self.cause = cause


class ServerUnreachable(ServerError):
    """Nothing answers where a server should be."""


class RequestFailed(TrtspecError):
    """One inference request failed; `code` is a short stable word."""

    # said of a request that can never be answered: ours, gRPC's, HTTP's, and those of vLLM, SGLang and OpenAI
    REFUSALS = frozenset(
        {"invalid_request", "invalid_argument", "http_400", "http_422", "BadRequestError", "invalid_request_error"}
    )

    def __init__(self, message: str, *, code: str = "error", fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.code = code

    @property
    def refused(self) -> bool:
        """True when it was the request that was wrong, not the server."""
        return self.code in self.REFUSALS


class LoadTestFailed(TrtspecError):
    """Some requests of a load test failed; what was measured is on disk."""


class RecordsError(TrtspecError):
    """A requests.jsonl that cannot be read; `where` names file and line."""


class VerificationFailed(TrtspecError):
    """Outputs differ where they may not."""


class ThresholdFailed(TrtspecError):
    """A gate that the user set was missed."""


class VersionUnsupported(TrtspecError):
    """A TensorRT-LLM release that this step cannot work with; `version` as it was given."""

    def __init__(self, message: str, *, version: str, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, where=where, fix=fix)
        self.version = version


class EnvironmentMissing(TrtspecError):
    """A package or program that this step needs is not installed."""
