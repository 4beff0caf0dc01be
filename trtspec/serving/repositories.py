"""Where an arm's repository and its server's log are, and whether the repository can be served."""

from __future__ import annotations

import shlex
from pathlib import Path

from trtspec.errors import ArtefactMissing
from trtspec.spec import Arm, SpecFile

__all__ = ["arm_log", "check_repository"]


def arm_log(spec_file: SpecFile, arm: Arm, use: str = "serve") -> Path:
    """The server's log beside the arm's repository, one for each use (Triton reads whole repository folders)."""
    repository = spec_file.repository(arm)
    return repository.with_name(f"{repository.name}.{use}.log")


def check_repository(spec_file: SpecFile, arm: Arm) -> None:
    """Return when the arm's repository is there and is what the spec says now; ArtefactMissing otherwise.

    A repository that trtspec did not generate is taken as it is.
    """
    from trtspec.repository import is_generated, preview

    repository = spec_file.repository(arm)
    fix = f"trtspec repo {shlex.quote(str(spec_file.path))}"
    if not any(repository.glob("*/config.pbtxt")):
        raise ArtefactMissing(f"there is no model repository for the {arm} arm", where=str(repository), fix=fix)
    if not is_generated(repository):
        return
    difference = preview(spec_file, [arm])
    if stale := [*difference.changed, *difference.removed]:
        problem = f"the model repository is older than the spec, its engines or trtspec itself ({stale[0]} differs)"
        raise ArtefactMissing(problem, where=str(repository), fix=fix)
