"""The state of a training on disk, so that a killed one goes on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trtspec.training.tensor_file import Arrays, FileDamaged, load_tensors, save_tensors

__all__ = ["CheckpointStore", "arrays_of", "tensors_of"]

_KEPT = 2


@dataclass(frozen=True)
class CheckpointStore:
    """Numbered states of one training in a folder; the newest two are kept."""

    folder: Path

    def save(self, step: int, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Write a state; older ones are removed only when it is on disk."""
        save_tensors(self.folder / f"step-{step:09d}.safetensors", arrays, facts)
        for old in self._paths()[:-_KEPT]:
            old.unlink(missing_ok=True)

    def newest(self, note: Callable[[str], None]) -> tuple[Arrays, dict[str, Any]] | None:
        """The newest state that is whole; None without one."""
        found = (_read(path, note) for path in reversed(self._paths()))
        return next((state for state in found if state is not None), None)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))


def _read(path: Path, note: Callable[[str], None]) -> tuple[Arrays, dict[str, Any]] | None:
    try:
        arrays, facts, _ = load_tensors(path)
    except FileDamaged as error:
        note(f"{path.name} {error.message}; going on from an earlier state")
        return None
    return arrays, facts


def arrays_of(prefix: str, tensors: Mapping[str, Tensor]) -> Arrays:
    """Tensors as arrays under ``prefix``; one that stands under several names (tied weights) is kept once."""
    kept: dict[int, str] = {}
    for name, tensor in tensors.items():
        kept.setdefault(tensor.data_ptr() if tensor.numel() else id(tensor), name)
    return {f"{prefix}{name}": tensors[name].detach().cpu().numpy() for name in kept.values()}


def tensors_of(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that stand under ``prefix``."""
    found = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return {name: torch.from_numpy(np.array(array)) for name, array in found.items()}
