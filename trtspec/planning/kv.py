"""Bytes of keys and values: per token and per sequence, for grouped, latent and windowed attention."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trtspec.checkpoints import ModelConfig
from trtspec.spec import ModelSource

__all__ = ["KvLayout", "kv_layout", "resolved_kv_dtype"]

_KV_BYTES = {"fp8": 1, "int8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
_KV_ALGOS = {"FP8": "fp8", "INT8": "int8"}


def resolved_kv_dtype(source: ModelSource, config: ModelConfig, dtype: str) -> str:
    """Type of the KV cache: the spec's, that of a quantized checkpoint, else the model's.

    Source: TensorRT-LLM's PretrainedConfig takes it from `kv_cache_quant_algo`, else the model's dtype.
    """
    if source.kv_cache_dtype != "auto":
        return source.kv_cache_dtype
    if config.quant is not None and config.quant.kv_cache_algo in _KV_ALGOS:
        return _KV_ALGOS[config.quant.kv_cache_algo]
    return dtype


@dataclass(frozen=True)
class KvLayout:
    """What a model keeps of a token.

    `heads` is the number of KV heads of each layer (0: a layer without attention); `latent` the elements of a
    compressed token and layer (multi-head latent attention: kv_lora_rank + qk_rope_head_dim), which no rank shares.
    `windowed` of the layers look back at most `window` tokens.
    """

    heads: tuple[int, ...]
    head_dim: int
    dtype: str
    latent: int | None = None
    window: int | None = None
    windowed: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return _KV_BYTES.get(self.dtype, 2)

    def bytes_per_token(self, tp: int = 1, layers: range | None = None) -> int:
        """Bytes of one token on one rank: Σ over its layers of 2 × ⌈kv_heads/tp⌉ × head_dim × bytes.

        With more ranks than KV heads each rank keeps a copy of one; latent attention keeps all of it on every rank.
        Source: TensorRT-LLM's KV cache manager; rounded up, which is the safe side of its own estimate.
        """
        chosen = self.heads if layers is None else self.heads[layers.start : layers.stop]
        if self.latent is not None:
            return len(chosen) * self.latent * self.element_bytes
        return sum(2 * math.ceil(heads / tp) for heads in chosen) * self.head_dim * self.element_bytes

    def bytes_per_sequence(self, tokens: int, tp: int = 1, *, block: int = 1, bounded: bool = False) -> int:
        """Bytes of a sequence of `tokens` on one rank, rounded up to whole blocks.

        `bounded`: windowed layers keep the last `window` tokens only. TensorRT-LLM does that when
        max_attention_window_size is set for the model, else every layer keeps all tokens.
        """
        kept = _blocks(tokens, block)
        if not bounded or self.window is None or not self.heads:
            return kept * self.bytes_per_token(tp)
        per_layer = self.bytes_per_token(tp) / len(self.heads)
        short = _blocks(min(tokens, self.window), block)
        return round(per_layer * ((len(self.heads) - self.windowed) * kept + self.windowed * short))

    def formula(self, tp: int = 1, layers: range | None = None) -> str:
        """`bytes_per_token` with its numbers."""
        count = len(self.heads) if layers is None else len(layers)
        if self.latent is not None:
            return f"{count} layers × {self.latent} compressed × {self.element_bytes} B ({self.dtype})"
        kinds = sorted({math.ceil(heads / tp) for heads in self.heads})
        shown = str(kinds[0]) if len(kinds) == 1 else f"{kinds[0]}…{kinds[-1]}"
        split = f" (of {max(self.heads)}, tp {tp})" if tp > 1 else ""
        return f"2 × {count} layers × {shown} KV heads{split} × {self.head_dim} × {self.element_bytes} B ({self.dtype})"


def _blocks(tokens: int, block: int) -> int:
    return math.ceil(tokens / block) * block


def kv_layout(config: ModelConfig, dtype: str) -> KvLayout:
    """The layout of a model whose sizes are known (see `shapes.model_shape`); `dtype` is that of the cache."""
    layers, heads = config.layers or 0, config.kv_heads or config.heads or 0
    per_layer = config.layer_kv_heads or (heads,) * layers
    latent = None
    if config.kv_lora_rank is not None:
        latent = config.kv_lora_rank + (config.qk_rope_head_dim or 0)
    window = config.sliding_window
    windowed = 0 if window is None else layers if config.windowed_layers is None else config.windowed_layers
    return KvLayout(tuple(per_layer), config.head_dim or 0, dtype, latent, window, windowed)
