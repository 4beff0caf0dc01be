"""What a run ran on and what it was made from, for its provenance."""

from __future__ import annotations

from typing import Any

from trtspec.errors import TrtspecError
from trtspec.files import read_json
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.prompts import PromptSet
from trtspec.provenance import machine_facts, provenance
from trtspec.spec import SpecFile
from trtspec.spec.names import ROLES, Role

__all__ = ["engine_facts", "run_provenance"]


def run_provenance(spec_file: SpecFile | None, options: RunOptions, prompts: PromptSet) -> dict[str, Any]:
    """The content of provenance.json; a run without a spec is named "ab" and has no engines."""
    return {
        "schema": 1,
        **provenance(),
        **_of_spec(spec_file),
        "options": options.as_json(),
        "labels": dict(options.labels),
        "prompts": {
            "source": prompts.source,
            "count": len(prompts.prompts),
            "sha256": prompts.sha256,
            "synthetic": prompts.synthetic,
        },
        "machine": machine_facts(),
        "clock": "time.perf_counter_ns; times compare within this run only",
    }


def _of_spec(spec_file: SpecFile | None) -> dict[str, Any]:
    if spec_file is None:
        return {"name": "ab"}
    engines = {role: engine_facts(spec_file, role) for role in ROLES}
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
