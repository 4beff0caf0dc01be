"""Which part of a model a tensor belongs to, by its name in any family's naming."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

__all__ = ["CLASSES", "EMBEDDINGS", "TensorClass", "is_head", "tensor_class"]

TensorClass = Literal["embedding", "head", "attention", "mlp", "experts", "norms", "other"]
CLASSES: tuple[TensorClass, ...] = ("embedding", "head", "attention", "mlp", "experts", "norms", "other")

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight",
              "tok_embeddings.weight", "token_embd.weight", "embedding.weight")  # fmt: skip
_HEADS = ("lm_head.", "embed_out.", "output.", "output_layer.", "head.")
_POSITIONS = ("wpe.weight", "embed_positions.weight", "position_embeddings.weight")
_ELSEWHERE = re.compile(r"vision|visual|audio|multi_modal|image|rotary|inv_freq|rope_freqs")
_NORM = re.compile(r"norm|\bln_|\.ln\d?\.")
_ROUTER = re.compile(r"\.gate\.|router|_gate_inp|ffn_gate_inp|shared_expert_gate|e_score_correction")
_EXPERTS = re.compile(r"\.experts\.|_exps\b|moe\.(input|output)_linear")
_ATTENTION = re.compile(r"attn|attention|wqkv|\.[qkv]_proj\b")
_MLP = re.compile(r"mlp|feed_forward|ffn|\.fc\d|c_fc|shared_expert|_shexp|dense_h_to_4h|dense_4h_to_h")
_NUMBER = re.compile(r"\d+")


def is_head(name: str) -> bool:
    """True for the output head, at the top or one level below (`transformer.output_layer.weight`)."""
    return any(part.startswith(_HEADS) for part in (name, name.partition(".")[2]))


def tensor_class(name: str) -> TensorClass:
    """The class of a tensor; scales and zero points are with the weight that they belong to."""
    return _class_of(_NUMBER.sub("0", name))


@lru_cache(maxsize=4096)  # layers and experts repeat: a hundred thousand tensors have some dozens of names
def _class_of(name: str) -> TensorClass:
    if _ELSEWHERE.search(name):
        return "other"
    if name.endswith(EMBEDDINGS) or name.endswith(_POSITIONS):
        return "embedding"
    if is_head(name):
        return "head"
    if _NORM.search(name):
        return "norms"
    if _EXPERTS.search(name):
        return "experts"
    if _ROUTER.search(name):
        return "other"
    if _ATTENTION.search(name):
        return "attention"
    return "mlp" if _MLP.search(name) else "other"
