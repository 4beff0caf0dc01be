"""What building an engine will do: checkpoint examined, key computed, nothing written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.building.identity import HashMemory, checkpoint_files
from trtspec.building.limits import Limits, engine_limits
from trtspec.building.weights import output_size
from trtspec.checkpoints.checkpoint import Checkpoint, read_checkpoint
from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.errors import BuildError
from trtspec.progress import Reporter
from trtspec.provenance import package_versions, text_key
from trtspec.spec import ModelSource, Role, SpecFile

__all__ = ["EnginePlan", "build_steps", "plan_engine"]

_FORMAT = "torch-engine-1"  # changes when an engine folder of the same checkpoint changes


@dataclass(frozen=True)
class EnginePlan:
    """A role's engine before it is built: where it will lie and what goes into it."""

    role: Role
    path: Path
    key: str
    weights_key: str
    checkpoint: Checkpoint
    source: ModelSource
    limits: Limits
    hashes: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of weights to write."""
        return output_size(self.checkpoint.weights, self.source.dtype)

    @property
    def folder(self) -> Path:
        """The checkpoint's folder."""
        return self.checkpoint.folder


def plan_engine(spec_file: SpecFile, role: Role, reporter: Reporter) -> EnginePlan:
    """Examine the role's checkpoint (CheckpointError names the file at fault) and derive the engine's key.

    The key is made of the content of the checkpoint's files, the options and the format; for a GGUF also of the
    packages that dequantize it.
    """
    source, folder = spec_file.source(role), spec_file.checkpoint(role)
    checkpoint = read_checkpoint(folder)
    _refuse_quantized(checkpoint)
    limits = engine_limits(spec_file, role)
    memory = HashMemory(spec_file.root / "engines" / ".checkpoints.json")
    if role == "draft" and checkpoint.vocab_size is not None:
        read_draft_vocabulary(folder, checkpoint.vocab_size)
    names = checkpoint_files(folder, code=source.trust_remote_code, draft=role == "draft")
    hashes = memory.hashes(folder, names, reporter)
    weights_key = _weights_key(checkpoint, source, hashes)
    others = [f"{name}={digest}" for name, digest in sorted(hashes.items())]
    options = [f"{name}={value}" for name, value in limits.document().items()]
    key = text_key([_FORMAT, weights_key, f"code={source.trust_remote_code}", *options, *others])
    return EnginePlan(role, spec_file.engines(role) / key, key, weights_key, checkpoint, source, limits, hashes)


def _weights_key(checkpoint: Checkpoint, source: ModelSource, hashes: Mapping[str, str]) -> str:
    parts = [f"{name}={hashes[name]}" for name in checkpoint.weights.files]
    if checkpoint.weights.format == "gguf":
        versions = package_versions(("transformers", "gguf"))
        parts += [f"{name}={version}" for name, version in versions.items()]
    return text_key([source.dtype, *parts])


def _refuse_quantized(checkpoint: Checkpoint) -> None:
    method = checkpoint.config.quantization
    if method is not None and checkpoint.weights.format != "gguf":
        raise BuildError(
            f"its weights are quantized ({method}); the torch runtime computes with plain ones",
            where=str(checkpoint.folder),
            fix="use the checkpoint that it was quantized from",
        )


def build_steps(spec_file: SpecFile, plans: Sequence[EnginePlan], done: Sequence[bool]) -> list[dict[str, Any]]:
    """The steps of `trtspec build --dry-run`, one a role."""
    return [
        {
            "role": plan.role,
            "stage": "convert",
            "argv": ["trtspec", "build", str(spec_file.path), "--role", plan.role],
            "env": {},
            "cwd": str(spec_file.root),
            "inputs": [str(plan.folder / name) for name in plan.hashes],
            "outputs": [str(plan.path)],
            "cached": cached,
        }
        for plan, cached in zip(plans, done, strict=True)
    ]
