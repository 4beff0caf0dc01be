"""`python -m trtspec.acceptance`, which scripts/gpu-acceptance runs."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

from trtspec.acceptance.collecting import collect, summary_text
from trtspec.acceptance.context import Context, Options, Outcome
from trtspec.acceptance.running import known_commands, run_steps
from trtspec.acceptance.steps import STEPS

__all__ = ["main"]

TARGET, DRAFT = "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"
_ABOUT = """Try the whole path once on a GPU box: check, plan, build, inspect, serve, ask, verify, load test.

Meant for the container nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3 (to 26.07; TensorRT-LLM 1.2.1), with one
GPU of SM 80 or newer, about 10 GB of disk and, unless both folders are given, access to huggingface.co. A step that
cannot run here is skipped with the reason; a step that fails does not stop those that do not need it. Exit code 0 only
when nothing that ran has failed.

This script has not been run on a GPU by its authors: send back what it writes, whatever the outcome. The archive holds
logs, versions, engine configurations, requests and the report; paths of this machine are in them, weights are not."""


def main(arguments: list[str] | None = None) -> int:
    """Run all steps and write the results; 0 when none failed, 1 when one did, 130 after Ctrl-C."""
    context = Context(_options(arguments))
    options = context.options
    options.work.mkdir(parents=True, exist_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)
    good = run_steps(context, STEPS, known_commands(context), _tell)
    archive = collect(context)
    sys.stdout.write(f"\n{summary_text(context)}\nsend back: {archive}\n")
    if any(outcome.status == "interrupted" for outcome in context.outcomes.values()):
        return 130
    return 0 if good else 1


def _tell(outcome: Outcome) -> None:
    reason = f": {outcome.reason}" if outcome.reason else ""
    sys.stderr.write(f"[{outcome.seconds:6.0f} s] {outcome.status:8} {outcome.title}{reason}\n")
    sys.stderr.flush()


def _options(arguments: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        "scripts/gpu-acceptance", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    env = os.environ
    parser.add_argument("--work", type=Path, default=Path("gpu-acceptance"), help="folder for models, engines, runs")
    parser.add_argument("--results", type=Path, help="folder to send back; default: WORK/results-DATE")
    parser.add_argument("--target", default=env.get("TARGET", TARGET), help=f"folder or hub name; or TARGET={TARGET}")
    parser.add_argument("--draft", default=env.get("DRAFT", DRAFT), help=f"folder or hub name; or DRAFT={DRAFT}")
    parser.add_argument("--spec", type=Path, help="a spec of your own instead of a generated one")
    parser.add_argument("--quantization", default="none", help="of the target, e.g. fp8 on SM 89 or newer")
    parser.add_argument("--requests", type=int, default=24, help="requests of the load test per arm and level")
    parser.add_argument("--concurrency", default="1,4", help="levels of the load test")
    parser.add_argument("--http-port", type=int, default=8000, help="and the two above it for gRPC and metrics")
    parser.add_argument("--ready-timeout", type=float, default=900.0, help="seconds until a server must be ready")
    parser.add_argument("--timeout", type=float, default=4 * 3600.0, help="seconds that one command may take")
    given = parser.parse_args(arguments)
    if given.spec is not None and not given.spec.is_file():
        parser.error(f"--spec: there is no file {given.spec}")
    date = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    work = given.work.absolute()
    results = given.results.absolute() if given.results else work / f"results-{date}"
    values = {name: value for name, value in vars(given).items() if name not in {"work", "results", "spec"}}
    return Options(work, results, spec=None if given.spec is None else given.spec.absolute(), **values)


if __name__ == "__main__":
    sys.exit(main())
