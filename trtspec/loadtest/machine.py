"""What a run ran on and what it was made from, for its provenance."""

from __future__ import annotations

from typing import Any

from trtspec.errors import TrtspecError
from trtspec.files import read_json
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.prompts import PromptSet
from trtspec.provenance import machine_facts, provenance
from trtspec.spec import SpecFile
from trtspec.spec.names import Role

__all__ = ["engine_facts", "run_provenance", "spec_facts"]


def run_provenance(spec_file: SpecFile | None, options: RunOptions, prompts: PromptSet) -> dict[str, Any]:
    """The content of provenance.json; a run without a spec is named "ab" and has no engines."""
    return {
        "schema": 1,
        **provenance(),
        **({"name": "ab"} if spec_file is None else spec_facts(spec_file)),
        "options": options.as_json(),
        "labels": dict(options.labels),
        "prompts": prompts.as_json(),
        "machine": machine_facts(),
        "clock": "time.perf_counter_ns; times compare within this run only",
    }


def spec_facts(spec_file: SpecFile) -> dict[str, Any]:
    """The spec, and what is known of the engines made from it."""
    engines = {role: engine_facts(spec_file, role) for role in spec_file.spec.roles}
    return {"name": spec_file.spec.name, "spec": spec_file.spec.model_dump(mode="json"), "engines": engines}


def engine_facts(spec_file: SpecFile, role: Role) -> dict[str, Any] | None:
    """Key and computation type of a role's engine; None when it is not on this machine."""
    from trtspec.building import engine_path

    try:
        path = engine_path(spec_file, role)
        config = read_json(path / "config.json")
    except (TrtspecError, OSError, ValueError):
        return None
    return {"key": path.name, "dtype": config.get("pretrained_config", {}).get("dtype")}
