"""Pairs and machines for the rules about plans: rule id → what it is found on."""

from __future__ import annotations

from typing import Any

from tests.planning.known import spec_file, surveys_of
from trtspec.hardware.catalogue import find_gpu
from trtspec.planning.memory import memory_plan
from trtspec.planning.plan_rules import plan_findings
from trtspec.rules.registry import Finding

__all__ = ["FP8", "PLAN_CASES", "SMALL", "findings"]

SMALL: dict[str, Any] = {"target": {"checkpoint": "Llama-3.1-8B"}}
FP8: dict[str, Any] = {"quantization": "fp8"}
_GEMMA: dict[str, Any] = {"target": {"checkpoint": "Gemma-2-9B"}}

# arguments of `findings`
PLAN_CASES: dict[str, dict[str, Any]] = {
    "memory-too-small": {},
    "kv-cache-below-one-request": {"gpu": "L4", **_GEMMA},
    "kv-cache-below-batch": {"target": FP8, "build": {"max_batch_size": 64}},
    "default-fractions-collide": SMALL,
    "decoder-buffers-large": {
        "count": 4,
        "target": {**FP8, "tp": 4},
        "build": {"max_batch_size": 2048},
        "speculation": {"draft_length": 10},
    },
    "activations-large": {**SMALL, "build": {"max_num_tokens": 65536}},
    "placement-impossible": {"count": 2, "target": {**FP8, "tp": 4}},
    "shared-memory-small": SMALL,
    "load-time": {"gpu": "H200-141GB-SXM", "count": 2, "target": {"tp": 2}, "serving": {"ready_timeout": 60}},
    "both-arms-at-once": {"target": FP8},
    "attention-window-unset": _GEMMA,
}


def findings(gpu: str | None = "H100-80GB-SXM", count: int | None = None, **sections: Any) -> dict[str, list[Finding]]:
    """What the rules find on a plan of the pair of `spec_file` with sections changed, by rule."""
    file = spec_file(**sections)
    plan = memory_plan(file, find_gpu(gpu) if gpu else None, surveys_of(file), count=count)
    found: dict[str, list[Finding]] = {}
    for finding in plan_findings(file, plan):
        found.setdefault(finding.id, []).append(finding)
    return found
