"""A lean Llama forward pass for generating many sequences at once on a CPU.

Hugging Face's ``generate`` spends most of its time around the matrix products.  Here the products
are fused (one for q, k and v, one for gate and up) and their weights packed (`torch_runtime.linear`), the key/value
cache is one fixed tensor, and every row of the batch has its own position, so a finished row is refilled at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as fn

from trtspec.torch_runtime.linear import Linear, over_rows, pack_linear

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

__all__ = ["Decoder", "KeyValueCache", "decoder_supports"]


def decoder_supports(config: Any) -> bool:
    """True when a transformers config describes a network that `Decoder` computes."""
    rope = getattr(config, "rope_parameters", None) or {}
    biased = getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False)
    plain = config.model_type == "llama" and config.hidden_act == "silu" and not biased
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    whole = head_size * config.num_attention_heads == config.hidden_size
    return plain and whole and rope.get("rope_type", "default") == "default" and "rope_theta" in rope


@dataclass(frozen=True)
class Layer:
    """One decoder layer; ``qkv`` stacks q, k, v by rows and ``gate_up`` stacks gate and up."""

    attention_norm: Tensor
    qkv: Linear
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values, each [layers, rows, kv heads, positions, head size]."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Span:
    """Where the tokens of one forward pass lie: cache rows [B], positions [B, T], mask."""

    rows: Tensor
    first_rows: bool  # they are 0, 1, …
    positions: Tensor
    end: int
    cos: Tensor
    sin: Tensor
    mask: Tensor


class Decoder:
    """The network of a Llama checkpoint, for inference only, in float32."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        config: Any = model.config
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_size: int = config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.theta: float = config.rope_parameters["rope_theta"]
        weights = {name: value.detach().float() for name, value in model.state_dict().items()}
        self.embedding = weights["model.embed_tokens.weight"]
        self.head = pack_linear(weights["lm_head.weight"])
        self.norm = weights["model.norm.weight"]
        self.layers = [_layer(weights, i) for i in range(config.num_hidden_layers)]

    def new_cache(self, rows: int, positions: int) -> KeyValueCache:
        """An empty cache for ``rows`` sequences of at most ``positions`` tokens."""
        shape = (len(self.layers), rows, self.kv_heads, positions, self.head_size)
        return KeyValueCache(torch.zeros(shape), torch.zeros(shape))

    def forward(self, tokens: Tensor, positions: Tensor, cache: KeyValueCache, rows: Tensor) -> Tensor:
        """Hidden states [B, T, hidden] after the last norm for ``tokens`` [B, T].

        Token t of sequence b is written to the cache at ``rows[b]``, ``positions[b, t]`` and sees
        every cached position up to its own.
        """
        span = self._span(positions, rows)
        hidden = self.embedding[tokens]
        for index, layer in enumerate(self.layers):
            hidden = self._layer(hidden, layer, span, cache.keys[index], cache.values[index])
        return fn.rms_norm(hidden, hidden.shape[-1:], self.norm, self.eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary, [..., vocabulary], of hidden states [..., hidden]."""
        return over_rows(self.head, hidden)

    def _span(self, positions: Tensor, rows: Tensor) -> Span:
        half = self.head_size // 2
        rates = self.theta ** (-torch.arange(half) / half)
        angles = (positions[..., None] * rates).repeat(1, 1, 2)[:, :, None]
        end = int(positions.max()) + 1
        hidden = torch.arange(end) > positions[..., None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
        first_rows = torch.equal(rows, torch.arange(len(rows)))
        return Span(rows, first_rows, positions, end, angles.cos(), angles.sin(), mask)

    def _layer(self, hidden: Tensor, layer: Layer, span: Span, keys: Tensor, vals: Tensor) -> Tensor:
        normed = fn.rms_norm(hidden, hidden.shape[-1:], layer.attention_norm, self.eps)
        hidden = hidden + over_rows(layer.output, self._attend(normed, layer, span, keys, vals))
        normed = fn.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, self.eps)
        gate, up = over_rows(layer.gate_up, normed).chunk(2, dim=-1)
        return hidden + over_rows(layer.down, fn.silu(gate) * up)

    def _attend(self, normed: Tensor, layer: Layer, span: Span, keys: Tensor, vals: Tensor) -> Tensor:
        batch, length, _ = normed.shape
        sizes = [self.heads, self.kv_heads, self.kv_heads]
        mixed = over_rows(layer.qkv, normed).view(batch, length, -1, self.head_size)
        query, key, value = torch.split(mixed, sizes, dim=2)
        query, key = _rotate(query, span), _rotate(key, span)
        at = (span.rows[:, None], slice(None), span.positions)
        keys[at], vals[at] = key, value
        past_keys, past_values = _rows(keys, span), _rows(vals, span)
        query = query.transpose(1, 2).reshape(batch * self.kv_heads, -1, self.head_size)
        scores = torch.bmm(query * self.head_size**-0.5, past_keys.transpose(1, 2))
        scores = scores.view(batch, self.heads, length, span.end) + span.mask[:, None]
        weights = scores.softmax(-1).view(batch * self.kv_heads, -1, span.end)
        mixed = torch.bmm(weights, past_values).view(batch, self.heads, length, self.head_size)
        return mixed.transpose(1, 2).reshape(batch, length, -1)


def _rows(cached: Tensor, span: Span) -> Tensor:
    """The cache of the rows in use, [rows * kv heads, end, head size]; a view when they are the first ones."""
    used = cached[: len(span.rows)] if span.first_rows else cached[span.rows]
    return used[:, :, : span.end].flatten(0, 1)


def _rotate(x: Tensor, span: Span) -> Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * span.cos + torch.cat((-high, low), dim=-1) * span.sin


def _layer(weights: dict[str, Tensor], index: int) -> Layer:
    at = f"model.layers.{index}."
    attention = [weights[f"{at}self_attn.{name}_proj.weight"] for name in "qkv"]
    mlp = [weights[f"{at}mlp.{name}_proj.weight"] for name in ("gate", "up")]
    return Layer(
        attention_norm=weights[f"{at}input_layernorm.weight"],
        qkv=pack_linear(torch.cat(attention)),
        output=pack_linear(weights[f"{at}self_attn.o_proj.weight"]),
        mlp_norm=weights[f"{at}post_attention_layernorm.weight"],
        gate_up=pack_linear(torch.cat(mlp)),
        down=pack_linear(weights[f"{at}mlp.down_proj.weight"]),
    )
