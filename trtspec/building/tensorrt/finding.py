"""Finding the finished TensorRT engine of a role, on the machine that built it or on another one."""

from __future__ import annotations

from pathlib import Path

from trtspec.building.built import BuildSettings
from trtspec.building.tensorrt.planning import plan_build
from trtspec.errors import ArtefactMissing
from trtspec.progress import SilentReporter
from trtspec.spec import Role, SpecFile

__all__ = ["given_engine_path", "tensorrt_engine_path"]


def tensorrt_engine_path(spec_file: SpecFile, role: Role) -> Path:
    """Folder of the finished engine; ArtefactMissing when it has to be built.

    Where GPU or version are not known (a laptop), an engine counts that fits the spec for those it was built for.
    """
    if (given := spec_file.given_engine(role)) is not None:
        return given_engine_path(given)
    engine = plan_build(spec_file, [role], BuildSettings(), SilentReporter(), run=False).engines[role]
    if engine.done:
        return engine.folder
    raise ArtefactMissing(
        f"the {role} engine of {spec_file.spec.name!r} is not built (or its checkpoint or options changed)",
        where=str(engine.folder),
        fix=f"trtspec build {spec_file.path}",
    )


def given_engine_path(folder: Path) -> Path:
    """`folder`, when there is an engine in it; ArtefactMissing when it is missing or has no config.json."""
    if not (folder / "config.json").is_file():
        what = "holds no engine: it has no config.json" if folder.is_dir() else "no such engine folder"
        raise ArtefactMissing(what, where=str(folder), fix="give the folder that trtllm-build wrote (--output_dir)")
    return folder
