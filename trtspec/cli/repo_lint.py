"""`trtspec repo --lint`: what is wrong with a repository, ours or one made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from trtspec.cli.failures import exit_code
from trtspec.cli.findings import print_findings
from trtspec.cli.output import Sink
from trtspec.errors import ArtefactMissing, PairError
from trtspec.spec import Arm, SpecFile

if TYPE_CHECKING:
    from trtspec.repository.lint import LintResult, Listener, RootMap

__all__ = ["lint", "lint_arms", "lint_folder"]

SCHEMA = 1


def lint_folder(
    folder: Path, roots: Sequence[str], image: str | None, launch: Path | None = None
) -> dict[str, LintResult]:
    """The result for one folder, under its path. launch: a file with the command line of its server."""
    from trtspec.repository.lint import lint_repository, parse_root_map, read_launch

    listeners = read_launch(launch) if launch else ()
    result = lint_repository(folder, roots=parse_root_map(tuple(roots)), image=image, listeners=listeners)
    return {str(folder): result}


def lint_arms(
    spec_file: SpecFile, arms: Sequence[Arm], roots: Sequence[str], image: str | None
) -> dict[str, LintResult]:
    """The results for a spec's repositories, by arm; ArtefactMissing for one that was not generated."""
    from trtspec.repository.lint import lint_repository

    toolchain = spec_file.spec.tensorrt_llm
    given = image or (toolchain.image if toolchain and spec_file.spec.runtime == "tensorrt_llm" else None)
    found: dict[str, LintResult] = {}
    for arm in arms:
        folder = spec_file.repository(arm)
        if not folder.is_dir():
            fix = f"trtspec repo {spec_file.path}"
            raise ArtefactMissing(f"there is no repository of the {arm} arm yet", where=str(folder), fix=fix)
        place, listeners = _roots(spec_file, folder, roots), _listeners(spec_file, arm)
        found[arm] = lint_repository(folder, roots=place, image=given, listeners=listeners)
    return found


def _listeners(spec_file: SpecFile, arm: Arm) -> tuple[Listener, ...]:
    """The ports of the arms up to this one when both run at once."""
    from trtspec.repository.lint import Listener
    from trtspec.serving import arm_ports

    ports = arm_ports(spec_file)
    before = list(ports)[: list(ports).index(arm) + 1]
    return tuple(Listener(name, protocol, port) for name in before for protocol, port in ports[name])


def _roots(spec_file: SpecFile, folder: Path, roots: Sequence[str]) -> RootMap:
    """The given places, and that of the repository itself as the spec has it."""
    from trtspec.repository.lint import parse_root_map

    found, root = parse_root_map(tuple(roots)), spec_file.spec.serving.repository_root
    return replace(found, pairs=(*found.pairs, (folder, PurePosixPath(root)))) if root else found


def lint(sink: Sink, results: Mapping[str, LintResult]) -> int | None:
    """Print what was found as `check` does; the exit code when there are errors."""
    ok = all(result.ok for result in results.values())
    findings = [
        finding.to_json() | {"repository": name} for name, result in results.items() for finding in result.findings
    ]
    verdict = "; ".join(f"{name}: {result.verdict}" for name, result in results.items())
    data = {
        "schema": SCHEMA,
        "ok": ok,
        "verdict": verdict,
        "findings": findings,
        "repositories": {name: _summary(result) for name, result in results.items()},
    }
    sink.result(data, lambda console: _print(console, results), verdict)
    return None if ok else exit_code(PairError("the repository cannot be served"))


def _summary(result: LintResult) -> dict[str, Any]:
    return {key: value for key, value in result.to_json().items() if key != "findings"}


def _print(console: Console, results: Mapping[str, LintResult]) -> None:
    for result in results.values():
        console.print(f"[bold]{escape(str(result.facts.folder))}[/]")
        for model in result.to_json()["models"]:
            console.print(f"  {model['name']:<22} {escape(_model_text(model))}")
        print_findings(console, result.findings)
        style = "bold green" if result.ok else "bold red"
        console.print(f"[{style}]{escape(result.verdict)}[/]\n")
    if any(result.findings for result in results.values()):
        console.print("[dim]`trtspec rules show ID` tells why, with an example[/]")


def _model_text(model: Mapping[str, Any]) -> str:
    if model["kind"] is None:
        return "config.pbtxt missing or not readable"
    versions = ", ".join(str(version) for version in model["versions"]) or "none"
    release = f", TensorRT-LLM {model['tensorrt_llm']}" if model["tensorrt_llm"] else ""
    engine = f", engine {model['engine']}" if model["engine"] else ""
    mode = "decoupled" if model["decoupled"] else "not decoupled"
    return f"{model['kind']} ({model['backend']}), {mode}, version {versions}{release}{engine}"
