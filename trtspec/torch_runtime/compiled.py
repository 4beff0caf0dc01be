"""torch.compile for a transformers model's layers, with a way back.

Everything of a layer but attention becomes a few kernels; attention writes to each sequence's own keys and values and
stays as it is. With CUDA graphs (mode reduce-overhead) a graph belongs to one number of rows, so passes are padded to
few of them. Written for CUDA and tested on a CPU with dynamo alone; not run on a GPU by us.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn

__all__ = ["CompiledLayers", "padded_rows"]

_LARGEST = 256  # longer passes are prompts: they are computed as they are, no graph would pay
_log = logging.getLogger(__name__)


def padded_rows(rows: int) -> int:
    """The next power of two; from 256 on `rows` itself."""
    return rows if rows > _LARGEST else 1 << (rows - 1).bit_length()


class CompiledLayers:
    """The decoder layers of a model, compiled in place when they first run; `undo` takes that back."""

    def __init__(self, model: nn.Module, backend: str = "inductor") -> None:
        self._layers: list[Any] = [part for part in model.modules() if type(part).__name__.endswith("DecoderLayer")]
        options = {"mode": "reduce-overhead"} if backend == "inductor" else {}
        for layer in self._layers:
            layer.compile(backend=backend, dynamic=False, **options)

    def __len__(self) -> int:
        return len(self._layers)

    def begin(self, device: torch.device) -> None:
        """Before each pass: what the last one's graphs have returned may be overwritten."""
        if device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]

    def undo(self, error: Exception) -> None:
        """Compute as without compilation from now on."""
        _log.warning(
            "torch.compile failed and is switched off: %s", str(error).splitlines()[0] if str(error) else error
        )
        for layer in self._layers:
            layer._compiled_call_impl = None
        self._layers = []
        torch._dynamo.reset()
