"""What a row of the matrix is: two known models, a spec, and exactly what a check must find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.rules.pairs import Model

__all__ = ["BOS", "CODE", "FP8", "LLAMA32", "LLAMA_1B", "PADDED", "QWEN", "TORCH", "Pair", "pair_of"]


@dataclass(frozen=True)
class Pair:
    """Two models, what the spec says of them, and the findings: `level role rule-id`."""

    name: str
    target: Model
    draft: Model
    findings: tuple[str, ...]
    sections: dict[str, Any] = field(default_factory=dict)


def pair_of(name: str, target: Model | str, draft: Model | str, findings: Sequence[str], /, **sections: Any) -> Pair:
    models = [Model(model) if isinstance(model, str) else model for model in (target, draft)]
    return Pair(name, models[0], models[1], tuple(findings), sections)


# what is said of most pairs of a family, wrong or right
BOS = ("note target double-bos",)
LLAMA32 = ("note pair chat-templates-differ", "note target double-bos")
PADDED = ("note target vocabulary-padded", "note draft vocabulary-padded")
QWEN = (*PADDED, "note pair vocabulary-sizes-differ")
CODE = ("note target remote-code", "note draft remote-code")

FP8 = {"quantization": "fp8", "kv_cache_dtype": "fp8"}
LLAMA_1B = Model("Llama-3.2-1B-Instruct")
TORCH: dict[str, Any] = {"runtime": "torch", "hardware": None}
