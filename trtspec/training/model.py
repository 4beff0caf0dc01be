"""The draft's network: its shape, and a start from the target's embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM

__all__ = ["ROPE_THETA", "DraftShape", "draft_config", "new_draft", "padded_embedding", "projected_embedding"]


ROPE_THETA = 1e10
"""So large a base leaves most rotary pairs still over a whole context: those compare contents."""


@dataclass(frozen=True)
class DraftShape:
    """Sizes of a small Llama with tied embeddings."""

    hidden: int = 256
    layers: int = 3
    heads: int = 4
    kv_heads: int = 4
    intermediate: int = 576

    @property
    def name(self) -> str:
        """Layers, width, intermediate width and heads: `3x256/576/4`, or `…/4:2` with fewer key/value heads."""
        grouped = "" if self.kv_heads == self.heads else f":{self.kv_heads}"
        return f"{self.layers}x{self.hidden}/{self.intermediate}/{self.heads}{grouped}"

    def problem(self) -> str | None:
        """What is impossible about the shape; None when it can be made."""
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            return f"hidden {self.hidden} is not an even number of values for each of {self.heads} heads"
        if self.heads % self.kv_heads:
            return f"{self.heads} heads cannot share {self.kv_heads} key/value heads"
        return None

    def parameters(self, vocabulary: int) -> int:
        """Number of weights with ``vocabulary`` tokens."""
        head_size = self.hidden // self.heads
        attention = 2 * self.hidden * head_size * (self.heads + self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return vocabulary * self.hidden + self.layers * layer + self.hidden


def draft_config(shape: DraftShape, target: Any, vocabulary: int) -> LlamaConfig:
    """A Llama configuration of this shape with the target's context length and no special tokens.

    Ids of a restricted vocabulary are not the target's, and the padding token's embedding would get
    no gradient; the export sets the special tokens.
    """
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=target.max_position_embeddings,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        initializer_range=shape.hidden**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )


def new_draft(config: LlamaConfig, embedding: Tensor) -> LlamaForCausalLM:
    """A draft with random layers and the given embedding [vocabulary, hidden].

    The projections that write to the residual stream start at zero, so that at first the network
    is its embedding, which already knows which tokens resemble each other.
    """
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(embedding)
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.zero_()
    return model


def projected_embedding(embedding: Tensor, hidden: int, frequency: Tensor) -> Tensor:
    """The embedding [V, D] in its ``hidden`` main directions [V, hidden], rows of mean length 1.

    The directions are the principal axes with every token weighted by ``frequency`` [V] (any
    scale): frequent tokens keep the most of what tells them apart.
    """
    weighted = embedding * frequency.clamp_min(0)[:, None].sqrt()
    _, axes = torch.linalg.eigh(weighted.T @ weighted)
    projected: Tensor = embedding @ axes[:, -hidden:].flip(-1)
    scale: Tensor = projected.norm(dim=-1).mean()
    return projected / scale


def padded_embedding(embedding: Tensor, hidden: int, frequency: Tensor) -> Tensor:
    """`projected_embedding` for any width: where the draft is wider than the target, zeros follow."""
    directions = min(hidden, embedding.shape[1])
    rows = torch.zeros(len(embedding), hidden)
    rows[:, :directions] = projected_embedding(embedding, directions, frequency)
    return rows
