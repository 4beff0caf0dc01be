"""What the steps of an acceptance run share: options, folders, programs that are run with their output in a log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["Context", "Finished", "Options", "Outcome", "Skip", "Status", "StepFailure"]

Status = Literal["passed", "failed", "skipped", "interrupted"]
_SHOWN = 600  # characters of a message that a summary carries


class Skip(Exception):
    """A step cannot run here; the message says why."""


class StepFailure(Exception):
    """A step ran and did not do what it must; the message says what."""


@dataclass(frozen=True)
class Options:
    """What the user may choose.

    work: where models, spec, engines and runs lie. target, draft: checkpoint folders or names on the hub. spec: a spec
    file of the user's own instead of them. timeout: seconds that one program may take.
    """

    work: Path
    results: Path
    target: str
    draft: str
    spec: Path | None = None
    quantization: str = "none"
    requests: int = 24
    concurrency: str = "1,4"
    http_port: int = 8000
    ready_timeout: float = 900.0
    timeout: float = 4 * 3600.0


@dataclass(frozen=True)
class Outcome:
    """How a step ended; `reason` for all but passed."""

    id: str
    title: str
    status: Status
    reason: str | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """As summary.json has it."""
        names = ("id", "title", "status", "reason")
        return {name: getattr(self, name) for name in names} | {"seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class Finished:
    """A program that ended: exit code, standard output, and where everything it wrote lies."""

    exit_code: int
    stdout: str
    log: Path

    def document(self) -> dict[str, Any]:
        """Standard output as JSON object; StepFailure when it is none."""
        try:
            data = json.loads(self.stdout)
        except json.JSONDecodeError as error:
            raise StepFailure(f"no JSON on stdout ({error}), see {self.log.name}") from None
        if not isinstance(data, dict):
            raise StepFailure(f"JSON on stdout is no object, see {self.log.name}")
        return data


@dataclass
class Context:
    """One run. `trtspec` is the command line of the program under test; `notes` go into the summary."""

    options: Options
    trtspec: tuple[str, ...] = (sys.executable, "-m", "trtspec")
    env: Mapping[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Path:
        """The spec file of the run."""
        return self.options.spec or self.options.work / "trtspec.yaml"

    @property
    def logs(self) -> Path:
        """Folder of the programs' output."""
        return self.options.results / "logs"

    def environment(self) -> dict[str, str]:
        """Environment of the programs."""
        return {**os.environ, **self.env}

    def run(self, name: str, argv: Sequence[str], *, timeout: float | None = None) -> Finished:
        """Run a program to its end; StepFailure when it cannot be started or takes too long."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        limit = timeout or self.options.timeout
        with log.open("w+", encoding="utf-8") as errors:
            errors.write(f"$ {' '.join(argv)}\n")
            errors.flush()
            try:
                done = subprocess.run(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=self.options.work,
                    env=self.environment(), timeout=limit, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise StepFailure(f"took longer than {limit:.0f} s, see {log.name}") from None
            except OSError as error:
                raise StepFailure(f"{argv[0]} cannot be started: {error.strerror}") from None
        text = done.stdout.decode("utf-8", errors="replace")
        with log.open("a", encoding="utf-8") as stream:
            stream.write(text)
        return Finished(done.returncode, text, log)

    def must(self, name: str, *arguments: str) -> Finished:
        """Run a trtspec command that must succeed; StepFailure with its error message otherwise."""
        done = self.run(name, (*self.trtspec, *arguments))
        if done.exit_code != 0:
            raise StepFailure(f"exit code {done.exit_code}: {last_words(done)}")
        return done

    def save(self, name: str, data: Mapping[str, Any]) -> None:
        """Write a JSON document into the results."""
        path = self.options.results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def last_words(done: Finished) -> str:
    """The error of a trtspec command: that of its JSON document, else the log's last line that says something."""
    try:
        error = json.loads(done.stdout)["error"]
        where = f"{error['where']}: " if error.get("where") else ""
        return f"{where}{error['message']}"[:_SHOWN]
    except (json.JSONDecodeError, KeyError, TypeError):
        lines = [line for line in done.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return f"{lines[-1] if lines else 'no output'} (see {done.log.name})"[:_SHOWN]
