"""A trained draft as a Hugging Face folder over the target's whole vocabulary."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from trtspec.building.identity import tokenizer_files
from trtspec.checkpoints.draft_vocabulary import write_draft_vocabulary
from trtspec.files import atomic_directory, read_json, write_bytes, write_json, write_text

__all__ = ["RECORD", "Export", "export_draft", "half_precision", "made_by_distill"]

RECORD = "distill.json"
_LARGEST_HALF = 65_504


@dataclass(frozen=True)
class Export:
    """What goes beside the weights.

    With ``frequent`` ids the torch runtime computes scores for these tokens only (see ``torch_runtime.head``);
    ``end_ids`` are those of the target.
    """

    tokenizer: Path
    readme: str
    record: Mapping[str, Any] = field(default_factory=dict)
    frequent: Sequence[int] = ()
    end_ids: Sequence[int] = ()


def made_by_distill(folder: Path) -> bool:
    """True for a folder that `export_draft` wrote, and that may so be replaced."""
    try:
        return isinstance(read_json(folder / RECORD), dict)
    except (OSError, ValueError):
        return False


def export_draft(network: Any, folder: Path, export: Export) -> None:
    """Write the draft in half precision with the tokenizer's files, unchanged, and a README.

    An existing folder is replaced in one step; the same draft gives the same bytes.
    """
    dtype = half_precision(network)
    with atomic_directory(folder) as work:
        write_bytes(work / "model.safetensors", _weights(network, dtype))
        write_json(work / "config.json", _config(network, dtype))
        write_json(work / "generation_config.json", _generation(network.config, export.end_ids))
        for name in tokenizer_files(path.name for path in export.tokenizer.iterdir()):
            shutil.copyfile(export.tokenizer / name, work / name)
        write_text(work / "README.md", export.readme)
        write_json(work / RECORD, {"schema": 1, **export.record})
        if export.frequent:
            write_draft_vocabulary(work, export.frequent)
        for path in work.iterdir():
            path.chmod(0o644)


def half_precision(network: Any) -> torch.dtype:
    """What a draft is written in: bfloat16 where it came in it or has weights too large for float16, else float16."""
    largest = max(float(parameter.detach().abs().max()) for parameter in network.parameters())
    given = getattr(network.config, "dtype", None)
    return torch.bfloat16 if given in {torch.bfloat16, "bfloat16"} or largest > _LARGEST_HALF else torch.float16


def _weights(network: Any, dtype: torch.dtype) -> bytes:
    """The file's bytes; a head tied to the embedding is not written twice."""
    from safetensors.torch import save

    tensors = {name: parameter.detach().cpu().to(dtype).contiguous() for name, parameter in network.named_parameters()}
    return save(tensors, metadata={"format": "pt"})


def _config(network: Any, dtype: torch.dtype) -> dict[str, Any]:
    """config.json as transformers 5 writes it, and the words of transformers 4, which TensorRT-LLM reads.

    Without a `rope_theta` at the top, transformers 4 takes its own default and the draft is silently another model.
    """
    data: dict[str, Any] = json.loads(network.config.to_json_string(use_diff=True))
    word = str(dtype).removeprefix("torch.")
    data |= {"architectures": [type(network).__name__], "dtype": word, "torch_dtype": word}
    rope = data.get("rope_parameters")
    if isinstance(rope, dict) and "rope_theta" in rope:
        data["rope_theta"] = rope["rope_theta"]
        scaling = {name: value for name, value in rope.items() if name != "rope_theta"}
        data["rope_scaling"] = None if scaling.get("rope_type", "default") == "default" else scaling
    data.pop("_name_or_path", None)
    return dict(sorted(data.items()))


def _generation(config: Any, end_ids: Sequence[int]) -> dict[str, Any]:
    ids = {name: getattr(config, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if end_ids:
        ids["eos_token_id"] = list(end_ids) if len(end_ids) > 1 else end_ids[0]
    return {name: value for name, value in ids.items() if value is not None}
