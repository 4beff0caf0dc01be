"""What rules look at: the spec, what could be read of both checkpoints, and what the two have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trtspec.checkpoints import Pairing, Survey, pair_facts, survey_checkpoint
from trtspec.spec import Spec, SpecFile

__all__ = ["MODEL_ROLES", "Facts", "ModelRole", "gather_facts"]

ModelRole = Literal["target", "draft"]
MODEL_ROLES: tuple[ModelRole, ...] = ("target", "draft")


@dataclass(frozen=True)
class Facts:
    """Everything that a rule may use; gathered once, never changed."""

    spec: Spec
    surveys: Mapping[ModelRole, Survey]
    pair: Pairing

    @property
    def same_folder(self) -> bool:
        """True when target and draft are the same checkpoint (the control with full acceptance)."""
        return self.surveys["target"].folder.resolve() == self.surveys["draft"].folder.resolve()


def gather_facts(spec_file: SpecFile) -> Facts:
    """Read both checkpoints of a spec; unreadable parts become failures in the surveys, not exceptions."""
    surveys: dict[ModelRole, Survey] = {role: survey_checkpoint(spec_file.checkpoint(role)) for role in MODEL_ROLES}
    return Facts(spec_file.spec, surveys, pair_facts(surveys["target"], surveys["draft"]))
