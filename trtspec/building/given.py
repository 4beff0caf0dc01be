"""Engines that a spec names instead of having them built: `target: {engine: path}`, inspected like our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtspec.building.inspection import Expectation, inspect_engine
from trtspec.building.inspection.requested import scaling_of
from trtspec.checkpoints import survey_checkpoint
from trtspec.errors import UsageError
from trtspec.hardware.catalogue import find_gpu
from trtspec.hardware.detect import detect_gpus
from trtspec.rules.registry import Finding
from trtspec.spec import ModelSource, Role, SpecFile
from trtspec.toolchain.detect import resolve_toolchain
from trtspec.toolchain.flags import FORMATS

__all__ = ["checkpoint_facts", "given_expectation", "inspect_given"]


def inspect_given(spec_file: SpecFile, role: Role) -> tuple[Path, tuple[Finding, ...]]:
    """The folder of the engine that the spec names for `role`, and what is wrong with it, errors first.

    UsageError when the spec names none; SpecError or VersionUnsupported when its tensorrt_llm section contradicts
    itself.
    """
    folder = spec_file.given_engine(role)
    if folder is None:
        raise UsageError(f"the spec names no engine for the {role}", where=str(spec_file.path))
    return folder, inspect_engine(folder, given_expectation(spec_file, role))


def given_expectation(spec_file: SpecFile, role: Role) -> Expectation:
    """What the spec asks of an engine that it names: what is written there, never a default of ours.

    The checkpoint, where one is given beside the engine, adds network, vocabulary and rope scaling; without it the
    engine's own word is taken. Sizes are the least that the engine must take.
    """
    spec, source = spec_file.spec, spec_file.source(role)
    toolchain = resolve_toolchain(spec)
    known = toolchain.origin != "default"
    speculates = role == "target"
    return Expectation(
        role,
        given=True,
        version=toolchain.version if known else None,
        image=toolchain.image,
        dtype=None if source.dtype == "auto" else source.dtype,
        quant_algo=FORMATS.get(source.quantization),
        kv_cache_quant_algo=None if source.kv_cache_dtype == "auto" else source.kv_cache_dtype.upper(),
        tp=source.tp,
        pp=source.pp,
        max_draft_len=spec.speculation.max_draft_length if speculates else None,
        draft_length=spec.speculation.draft_length if speculates else None,
        **_sizes(spec_file, role),
        **_gpu(spec_file),
        **checkpoint_facts(spec_file, source, role),
    )


def _sizes(spec_file: SpecFile, role: Role) -> dict[str, Any]:
    """Sizes that the spec writes; a target's max_seq_len has the draft tokens on top."""
    build = spec_file.spec.build
    written = build.model_fields_set
    sizes: dict[str, Any] = {
        name: getattr(build, name) for name in ("max_batch_size", "max_seq_len") if name in written
    }
    if sizes.get("max_seq_len") is not None and role == "target":
        sizes["max_seq_len"] += spec_file.spec.speculation.draft_length
    logits = build.logits_dtype
    return {**sizes, "logits_dtype": None if logits == "auto" else logits}


def _gpu(spec_file: SpecFile) -> dict[str, Any]:
    """Compute capability of the GPU that will run it: the spec's, else the one kind that this machine has."""
    hardware = spec_file.spec.hardware
    if hardware is not None:
        gpu = find_gpu(hardware.gpu, hardware.memory_gib)
        return {"sm": gpu.sm, "gpu": gpu.name}
    detected, _ = detect_gpus()
    if len({found.sm for found in detected}) != 1:
        return {}
    return {"sm": detected[0].sm, "gpu": detected[0].name}


def checkpoint_facts(spec_file: SpecFile, source: ModelSource, role: Role) -> dict[str, Any]:
    """architecture, vocab_size, tokenizer_width, rotary_scaling of the checkpoint beside an engine, if there is one."""
    if source.checkpoint is None:
        return {}
    survey = survey_checkpoint(spec_file.checkpoint(role))
    return {
        "architecture": None if survey.config is None else survey.config.architecture,
        "vocab_size": survey.vocab_size,
        "tokenizer_width": None if survey.tokenizer is None else survey.tokenizer.width,
        "rotary_scaling": scaling_of(survey.config),
    }
