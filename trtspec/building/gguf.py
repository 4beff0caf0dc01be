"""A GGUF file as plain tensors: dequantized by transformers, without the marks of its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.building.streaming import Entry, write_safetensors
from trtspec.building.weights import Written
from trtspec.errors import BuildError, EnvironmentMissing
from trtspec.progress import Reporter

__all__ = ["GgufModel", "load_gguf"]

_KINDS = {"auto": "float32", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16"}
_SHORT = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_LEFT_OUT = ("quantization_config", "_name_or_path")


@dataclass(frozen=True)
class GgufModel:
    """A loaded GGUF: its configuration as config.json would say it, and its tensors."""

    config: dict[str, Any]
    tensors: Mapping[str, Any]

    def write(self, target: Path, reporter: Reporter) -> Written:
        """Write the tensors to `target`."""
        entries = [
            Entry(name, _SHORT[str(tensor.dtype).removeprefix("torch.")], tuple(tensor.shape))
            for name, tensor in self.tensors.items()
        ]
        total = sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())
        with reporter.task("writing weights", total, "bytes") as advance:
            return Written("dequantized", write_safetensors(target, entries, lambda e: self.tensors[e.name], advance))


def load_gguf(folder: Path, name: str, dtype: str) -> GgufModel:
    """Read `folder`/`name` with transformers and dequantize it; BuildError when it cannot."""
    try:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging
    except ImportError as error:
        raise EnvironmentMissing(f"reading a GGUF needs {error.name}", fix="pip install 'trtspec[local]'") from None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    kind = _KINDS[dtype]
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(str(folder), gguf_file=name, dtype=getattr(torch, kind))
    except ImportError as error:
        raise EnvironmentMissing(f"reading a GGUF: {error}", fix="pip install 'trtspec[local]'") from None
    except Exception as error:
        raise BuildError(f"transformers cannot read it: {error}", where=str(folder / name)) from error
    config = {key: value for key, value in model.config.to_dict().items() if key not in _LEFT_OUT}
    config["architectures"] = [type(model).__name__]
    tensors = {key: tensor for key, tensor in model.state_dict().items() if not _tied(model, key)}
    return GgufModel(config, tensors)


def _tied(model: Any, key: str) -> bool:
    return bool(model.config.tie_word_embeddings) and key == "lm_head.weight"
