"""Making one product: its programs one after the other in a folder that appears whole or not at all."""

from __future__ import annotations

import errno
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from trtspec.building.built import is_complete
from trtspec.building.identity import tokenizer_files
from trtspec.building.inspection.inspect import inspect_engine, refuse
from trtspec.building.locks import locked, sweep_unlocked
from trtspec.building.tensorrt.commands import Command
from trtspec.building.tensorrt.diagnosis import diagnose
from trtspec.building.tensorrt.docker import container_name, docker_run
from trtspec.building.tensorrt.manifest import Ran, write_manifest
from trtspec.building.tensorrt.planning import BuildPlan
from trtspec.building.tensorrt.process import Cancelled, Job, Outcome, run_job
from trtspec.building.tensorrt.steps import Product
from trtspec.errors import BuildError, FailedStep, StepFailed
from trtspec.files import atomic_directory, scratch_directory
from trtspec.progress import Reporter, Tell
from trtspec.units import duration_text

__all__ = ["Maker", "failed_log", "running_log"]


def running_log(folder: Path) -> Path:
    """Where the log of a product lies while it is made; it moves into the folder as build.log."""
    return folder.with_name(f"{folder.name}.log")


def failed_log(folder: Path) -> Path:
    """Where the log of a product that could not be made stays."""
    return folder.with_name(f"{folder.name}.failed.log")


@dataclass(frozen=True)
class _Use:
    """What a product has while it is made: GPUs, the locks' file descriptors, and the line of its live view."""

    gpus: tuple[str, ...]
    locks: tuple[int, ...]
    tell: Tell


@dataclass
class Maker:
    """Makes products of a plan; `stop` ends what runs. `found` has the keys that another process had made meanwhile."""

    plan: BuildPlan
    reporter: Reporter
    stop: Event
    found: set[str] = field(default_factory=set)

    def make(self, product: Product, gpus: tuple[str, ...] = ()) -> None:
        """Make `product` on these GPUs (none: all), unless another process has made it meanwhile.

        StepFailed, EngineRejected or BuildError; Cancelled once `stop` is set.
        """
        with locked(product.folder, self._tell_wait(product), self._check) as lock:
            if is_complete(product.folder) and not self.plan.forces(product):
                self.found.add(product.key)
                return
            sweep_unlocked(product.folder)
            try:
                with self._reading(product) as reading:
                    self._fill(product, gpus, (lock, *reading))
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    fix = "free some space; trtspec engines prune lists what is unused"
                    raise BuildError("the disk is full", where=str(product.folder.parent), fix=fix) from error
                denied = isinstance(error, PermissionError)
                way_out = "make it readable and writable for this user" if denied else None
                raise BuildError(f"{product.label}: {error}", where=str(product.folder), fix=way_out) from error

    def _tell_wait(self, product: Product) -> Callable[[str], None]:
        return lambda holder: self.reporter.note(f"{product.label}: waiting, {holder} makes it")

    @contextmanager
    def _reading(self, product: Product) -> Iterator[tuple[int, ...]]:
        """Keep the converted checkpoint that an engine is made of from being replaced or pruned meanwhile."""
        if product.needs is None:
            yield ()
            return
        with locked(product.needs.folder, self._tell_wait(product.needs), self._check, shared=True) as lock:
            if not is_complete(product.needs.folder):
                message, place = "its converted checkpoint was removed meanwhile", str(product.needs.folder)
                raise BuildError(f"{product.label}: {message}", where=place, fix="run the same command again")
            yield (lock,)

    def _check(self) -> None:
        if self.stop.is_set():
            raise Cancelled

    def _fill(self, product: Product, gpus: tuple[str, ...], locks: tuple[int, ...]) -> None:
        log = running_log(product.folder)
        log.write_bytes(b"")
        with atomic_directory(product.folder) as work, self.reporter.activity(product.label) as tell:
            try:
                ran = [self._run(product, number, work, _Use(gpus, locks, tell)) for number in _numbers(product)]
                if product.kind == "engine":
                    _copy_tokenizer(product.request.folder, work)
                self.plan.refuse_changed(product)
                if product.kind == "engine":
                    refuse(product.folder, inspect_engine(work, self.plan.expectation(product)))
            except Cancelled:
                log.unlink(missing_ok=True)
                raise
            except BaseException:
                with suppress(OSError):
                    log.replace(failed_log(product.folder))
                raise
            shutil.move(log, work / "build.log")
            write_manifest(product, self.plan.site, self.plan.spec_file.spec.name, work, ran)
        failed_log(product.folder).unlink(missing_ok=True)

    def _run(self, product: Product, number: int, work: Path, use: _Use) -> Ran:
        """Run the command of that number; what is recorded names the folder that its output will lie in."""
        log, command = running_log(product.folder), product.commands(work)[number]
        with scratch_directory(product.folder.with_name(f"{product.key}.cwd")) as cwd:
            job = self._job(product, command, cwd, use.gpus)
            with log.open("a", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(f"$ {shlex.join(command.argv)}\n")
            outcome = run_job(job, self.stop, use.tell, keep=use.locks)
        missing = [name for name in command.outputs if not (work / name).is_file()]
        if outcome.exit_code != 0 or missing:
            raise _failure(product, command, outcome, missing)
        return Ran(product.commands(product.folder)[number], outcome.seconds, outcome.peak_rss)

    def _job(self, product: Product, command: Command, cwd: Path, gpus: tuple[str, ...]) -> Job:
        # GPUs are numbered as NVML, which told us of them, does; CUDA alone counts the fastest first
        env = {**command.env, "PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        container = self.plan.container(product)
        if container is None:
            return Job(command.argv, env, cwd, running_log(product.folder))
        name = container_name(product.key)
        argv = docker_run(container, command.argv, env, cwd, name)
        return Job(argv, {}, cwd, running_log(product.folder), after=(container.docker, "rm", "-f", name))


def _numbers(product: Product) -> range:
    return range(len(product.commands(product.folder)))


def _copy_tokenizer(source: Path, work: Path) -> None:
    """Beside the engine lies what a server needs to turn text into ids and to know where answers end."""
    names = [path.name for path in source.iterdir()]
    for name in [*tokenizer_files(names), "generation_config.json"]:
        if name in names:
            shutil.copyfile(source / name, work / name)


def _failure(product: Product, command: Command, outcome: Outcome, missing: list[str]) -> StepFailed:
    log = running_log(product.folder)
    found = diagnose(log, outcome.exit_code)
    kept = str(failed_log(product.folder))
    step = FailedStep(
        role=product.role,
        stage=command.stage,
        exit_code=outcome.exit_code,
        log=kept,
        log_tail=found.tail,
        failure=found.id,
        cause=found.cause,
    )
    how = _how(outcome.exit_code, missing)
    message = f"{command.stage} of {' + '.join(product.roles)} {how} after {duration_text(outcome.seconds)}"
    return StepFailed(message, step, fix=found.fix or f"read the log: {kept}")


def _how(exit_code: int | None, missing: list[str]) -> str:
    if exit_code == 0:
        return f"ended without an error but did not write {', '.join(missing)}"
    if exit_code is None:
        return "ended, nobody knows how,"
    return f"was ended by signal {-exit_code}" if exit_code < 0 else f"failed (exit code {exit_code})"
