"""A lean forward pass of the Llama family (Llama, Mistral, Qwen2, Qwen3) for a CPU.

Same mathematics as transformers' modules, with less Python and fewer passes over memory: one matrix for query, key and
value, one for gate and up, rotary embedding as one complex multiplication, prepacked weights, in-place residuals.
`generic.GenericModel` is the reference; a test holds both to the same logits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from trtspec.torch_runtime.attention import PackedAttention, PackedBatch
from trtspec.torch_runtime.head import output_head
from trtspec.torch_runtime.kv import KVShape
from trtspec.torch_runtime.linear import Linear, Weights, best_packing, exact_rows, pack_linear

__all__ = ["LeanModel", "LeanOptions", "lean_supports"]

_FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})  # tables that do not depend on the length


def lean_supports(config: Any) -> bool:
    """True when a transformers config describes a network that `LeanModel` computes."""
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in _FAMILIES
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in _STATIC_ROPE
        and rope.get("partial_rotary_factor", 1.0) == 1.0
    )


@dataclass(frozen=True)
class _Layer:
    input_norm: Tensor
    qkv: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear
    window: int | None


@dataclass(frozen=True)
class LeanOptions:
    """How to run the weights: longest sequence, equal bits for a row in any company, ids that a draft may propose.

    `weights` is what packing them may lose.
    """

    max_positions: int
    exact_rows: bool = False
    draft_vocabulary: Tensor | None = None
    weights: Weights = "exact"


class LeanModel:
    """Weights of a Llama-family checkpoint, ready for packed passes on a CPU in float32."""

    def __init__(self, config: Any, weights: Mapping[str, Tensor], options: LeanOptions) -> None:
        self._heads: int = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.kv_shape = KVShape(config.num_hidden_layers, kv_heads, head_dim)
        self.vocab_size: int = config.vocab_size
        self._scale = head_dim**-0.5
        self._eps: float = config.rms_norm_eps
        self._exact = options.exact_rows
        self._weights = options.weights
        self._embedding = weights["model.embed_tokens.weight"]
        self._rotation = _rotation_table(config, options.max_positions)
        self._layers = [self._layer(config, weights, index) for index in range(config.num_hidden_layers)]
        self._norm = weights["model.norm.weight"].float()
        self._head = output_head(
            weights.get("lm_head.weight", self._embedding), options.draft_vocabulary, self._weights
        )

    def forward(self, batch: PackedBatch) -> Tensor:
        """Logits [n, vocab] of the wanted rows; the sequences of `batch` get the keys and values of this pass."""
        attention = PackedAttention(batch, self.kv_shape, self._heads, exact=self._exact)
        rows = batch.tokens.shape[0]
        tokens, positions = batch.tokens, batch.positions
        if self._exact:
            tokens, positions = _pad(tokens, exact_rows(rows)), _pad(positions, exact_rows(rows))
        hidden = self._embedding[tokens].float()
        rotation = self._rotation[positions][:, None]
        for index, layer in enumerate(self._layers):
            hidden = self._apply(index, layer, hidden, (attention, rotation))
        batch.commit()
        wanted = batch.logit_rows
        if wanted.shape[0] != hidden.shape[0]:
            hidden = hidden[_pad(wanted, exact_rows(len(wanted))) if self._exact and len(wanted) else wanted]
        return self._head(self._normed(hidden, self._norm))[: len(wanted)]

    def _apply(self, index: int, layer: _Layer, hidden: Tensor, shared: tuple[PackedAttention, Tensor]) -> Tensor:
        attention, rotation = shared
        heads, kv_heads, size = self._heads, self.kv_shape.kv_heads, self.kv_shape.head_dim
        qkv = layer.qkv(self._normed(hidden, layer.input_norm)).view(-1, heads + 2 * kv_heads, size)
        query, key, value = qkv[:, :heads], qkv[:, heads : heads + kv_heads], qkv[:, heads + kv_heads :]
        if layer.query_norm is not None and layer.key_norm is not None:
            query.copy_(self._normed(query, layer.query_norm))
            key.copy_(self._normed(key, layer.key_norm))
        rotated = qkv[:, : heads + kv_heads]
        torch.view_as_complex(rotated.view(*rotated.shape[:2], size // 2, 2)).mul_(rotation)
        attended = attention.attend(index, query, (key, value), self._scale, layer.window)
        hidden = layer.output(attended).add_(hidden)
        gate, up = layer.gate_up(self._normed(hidden, layer.mlp_norm)).chunk(2, dim=-1)
        return layer.down(silu(gate).mul_(up)).add_(hidden)

    def _normed(self, rows: Tensor, weight: Tensor) -> Tensor:
        return torch.rms_norm(rows, weight.shape, weight, self._eps)

    def _layer(self, config: Any, weights: Mapping[str, Tensor], index: int) -> _Layer:
        prefix = f"model.layers.{index}."
        size = self.kv_shape.head_dim

        def fused(*names: str, change: Callable[[str, Tensor], Tensor] = lambda _name, tensor: tensor) -> Linear:
            parts = [change(name, weights[f"{prefix}{name}.weight"]) for name in names]
            biases = [weights.get(f"{prefix}{name}.bias") for name in names]
            whole = torch.cat(parts)
            form = best_packing(whole, self._weights)
            if all(bias is None for bias in biases):
                return pack_linear(whole, packing=form)
            filled = [
                change(name, torch.zeros(part.shape[0]) if bias is None else bias)
                for name, part, bias in zip(names, parts, biases, strict=True)
            ]
            return pack_linear(whole, torch.cat(filled), form)

        def rotary_order(name: str, tensor: Tensor) -> Tensor:
            return tensor if name.endswith("v_proj") else _interleaved(tensor, size)

        def head_norm(name: str) -> Tensor | None:
            weight = weights.get(f"{prefix}self_attn.{name}.weight")
            return None if weight is None else _interleaved(weight, size).float()

        return _Layer(
            input_norm=weights[f"{prefix}input_layernorm.weight"].float(),
            qkv=fused("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", change=rotary_order),
            query_norm=head_norm("q_norm"),
            key_norm=head_norm("k_norm"),
            output=fused("self_attn.o_proj"),
            mlp_norm=weights[f"{prefix}post_attention_layernorm.weight"].float(),
            gate_up=fused("mlp.gate_proj", "mlp.up_proj"),
            down=fused("mlp.down_proj"),
            window=_window(config, index),
        )


def _pad(values: Tensor, count: int) -> Tensor:
    missing = count - values.shape[0]
    return values if missing == 0 else torch.cat((values, values[-1:].expand(missing)))


def _interleaved(tensor: Tensor, head_dim: int) -> Tensor:
    """Rows of each head in the order (0, half, 1, half + 1, …), so that a rotation pair is one complex number."""
    heads = tensor.shape[0] // head_dim
    pairs = tensor.view(heads, 2, head_dim // 2, *tensor.shape[1:]).transpose(1, 2)
    return pairs.reshape(tensor.shape)


def _rotation_table(config: Any, positions: int) -> Tensor:
    """cos + i sin [positions, head_dim / 2], with transformers' frequencies and scaling of each kind.

    (Its rotary module is not used: importing it takes longer than loading a small model.)
    """
    frequencies, scaling = _frequencies(config)
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies[None].float()
    return torch.complex(angles.cos() * scaling, angles.sin() * scaling)


def _frequencies(config: Any) -> tuple[Tensor, float]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = config.rope_parameters
    kind = rope.get("rope_type", "default")
    if kind != "default":
        frequencies, scaling = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
        return frequencies, float(scaling)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 1.0 / rope["rope_theta"] ** (torch.arange(0, size, 2, dtype=torch.float32) / size), 1.0


def _window(config: Any, layer: int) -> int | None:
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return window if kinds[layer] == "sliding_attention" else None
    return window if getattr(config, "use_sliding_window", True) else None
