"""The steps of an acceptance run, in order, and what each needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trtspec.acceptance import machine_steps, pair_steps, serving_steps
from trtspec.acceptance.context import Context

__all__ = ["STEPS", "Step"]


@dataclass(frozen=True)
class Step:
    """One step: `needs` are steps that must have passed; `command` is a trtspec command that this version must have."""

    id: str
    title: str
    action: Callable[[Context], None]
    needs: tuple[str, ...] = ()
    command: str | None = None


STEPS: tuple[Step, ...] = (
    Step("machine", "versions, system, disk", machine_steps.machine),
    Step("doctor", "trtspec doctor", machine_steps.doctor, command="doctor"),
    Step("gpu", "NVIDIA GPUs", machine_steps.gpus),
    Step("tools", "TensorRT-LLM", machine_steps.tools),
    # a flag that nothing here uses may be missing: the build is tried all the same
    Step("flags", "flags of trtllm-build and converters as trtspec knows them", machine_steps.flags, ("tools",)),
    Step("pair", "checkpoints of target and draft", pair_steps.pair, ("gpu", "tools")),
    Step("spec", "spec file", pair_steps.write_spec, ("pair",)),
    Step("check", "trtspec check", pair_steps.check, ("spec",), "check"),
    Step("plan", "trtspec plan", pair_steps.plan, ("spec",), "plan"),
    Step("dry-run", "trtspec build --dry-run", pair_steps.dry_run, ("check",), "build"),
    Step("build", "trtspec build, twice", pair_steps.build, ("dry-run",), "build"),
    Step("inspect", "trtspec engines list, show", pair_steps.inspect, ("build",), "engines"),
    Step("repo", "trtspec repo, twice", serving_steps.repository, ("build",), "repo"),
    Step("serve", "trtspec serve, one question, stop", serving_steps.serve, ("repo",), "serve"),
    Step("ask", "trtspec ask the baseline", serving_steps.ask, ("repo",), "ask"),
    Step("verify", "trtspec verify", serving_steps.verify, ("serve",), "verify"),
    Step("loadtest", "trtspec loadtest", serving_steps.loadtest, ("serve", "ask"), "loadtest"),
    Step("report", "trtspec report", serving_steps.report, ("loadtest",), "report"),
)
