"""What a build would do and how large it gets, for `trtspec build --dry-run`; works without GPU, tools and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtspec.building.built import BuildSettings
from trtspec.building.tensorrt.planning import BuildPlan, plan_build
from trtspec.building.tensorrt.refusals import needs, refuse_given, refuse_pair
from trtspec.building.tensorrt.site import Site, refuse_sm
from trtspec.progress import Reporter
from trtspec.spec import Role, SpecFile
from trtspec.toolchain.sizes import Sizes

__all__ = ["preview"]


def preview(spec_file: SpecFile, roles: Sequence[Role], settings: BuildSettings, reporter: Reporter) -> dict[str, Any]:
    """Steps, sizes asked and written, toolchain and disk space as `build --dry-run --output json` prints them.

    Raises what a build would refuse, except what only running needs: weights, TensorRT-LLM, a GPU.
    """
    plan = plan_build(spec_file, roles, settings, reporter)
    refuse_given(plan)
    refuse_pair(plan, weights=False)
    refuse_sm(plan.site)
    return {
        "schema": 1,
        "toolchain": _toolchain(plan.site),
        "steps": [step.to_json() for step in plan.steps()],
        "sizes": {role: engine.request.sizes.document() for role, engine in plan.engines.items()},
        "space": _space(plan),
        "notes": list(_notes(plan)),
    }


def _toolchain(site: Site) -> dict[str, Any]:
    return {
        "version": site.toolchain.version,
        "origin": site.toolchain.origin,
        "installed": site.toolchain.installed,
        "image": site.image,
        "sm": site.gpus.sm,
        "gpu": site.gpus.name,
    }


def _space(plan: BuildPlan) -> dict[str, Any]:
    found = [need for product in plan.to_make for need in needs(product)]
    return {
        "needed_bytes": sum(need.size for need in found),
        "folders": [{"label": need.label, "bytes": need.size} for need in found],
    }


def _notes(plan: BuildPlan) -> list[str]:
    site, notes = plan.site, []
    if site.image is None and site.assumed:
        what = f"TensorRT-LLM {site.toolchain.version} is not installed here"
        notes.append(f"{what}: programs stand where NVIDIA's images have them")
    if site.gpus.sm is None:
        notes.append(f"the GPU is not known ({site.gpus.missing}): keys will be others on the machine that builds")
    absent = sorted({str(product.request.folder) for product in plan.products if product.identity.absent})
    notes += [f"{folder}: weights are not here (yet); keys will be others once they are" for folder in absent]
    of_roles: dict[str, list[str]] = {}
    for role, engine in plan.engines.items():
        for note in (*engine.request.sizes.notes, _prompt_note(engine.request.sizes)):
            of_roles.setdefault(str(note), []).append(role)
    return [*notes, *(f"{', '.join(roles)}: {note}" for note, roles in of_roles.items())]


def _prompt_note(sizes: Sizes) -> str:
    """How long prompts may be, with and without chunked context, which the server and not the engine decides."""
    most, whole = sizes.prompt_limit(), sizes.prompt_limit(chunked=False)
    text = f"the longest prompt is {most.tokens} tokens: {most.why}"
    return text if whole.tokens == most.tokens else f"{text}; {whole.tokens}: {whole.why}"
