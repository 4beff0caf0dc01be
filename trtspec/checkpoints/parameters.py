"""How many parameters a model has, counted from config.json alone, by the kind of tensor they are in.

The layouts are those of the model classes in huggingface/transformers (see `families`). A layer has, with h the hidden
size, d a head's width, q and k the numbers of query and KV heads, and w the MLP's width:
attention h·d·(q + 2k) + q·d·h; MLP 3·h·w where it is gated, else 2·h·w; norms h each; biases where the family has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trtspec.checkpoints.config import ModelConfig, language_part
from trtspec.checkpoints.families import Family, family_of
from trtspec.checkpoints.geometry import unnested

__all__ = ["ParameterCount", "parameter_count"]


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by class; each is counted once, so `head` is 0 where the embedding serves as head (`tied`).

    `experts` are the routed experts of all layers, of which a token uses the share `used_experts`; shared experts and
    dense MLPs are `mlp`. `other`: routers, gates of shared experts, projections around the embedding.
    """

    embedding: int
    head: int
    attention: int
    mlp: int
    experts: int
    norms: int
    other: int
    tied: bool
    used_experts: float = 1.0

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(self.by_class.values())

    @property
    def active(self) -> int:
        """Parameters that one token passes through: all but the experts that it does not use."""
        return self.total - round(self.experts * (1 - self.used_experts))

    @property
    def by_class(self) -> dict[str, int]:
        """Class → parameters."""
        return {item.name: getattr(self, item.name) for item in fields(self)[:7]}


def parameter_count(config: ModelConfig) -> ParameterCount | None:
    """The parameters of the language model; None for a family not known here or a config that leaves sizes out."""
    family = family_of(config.architecture, config.model_type)
    model = _Model.of(config, family) if family else None
    return model.count() if model else None


@dataclass(frozen=True)
class _Model:
    """A config whose sizes are all there, with its family and the flags in config.json that change the layout."""

    config: ModelConfig
    family: Family
    data: Mapping[str, Any]
    layers: int
    hidden: int
    heads: int
    head_dim: int
    vocab: int

    @classmethod
    def of(cls, config: ModelConfig, family: Family) -> _Model | None:
        sizes = (config.layers, config.hidden, config.heads, config.head_dim, config.vocab_size)
        widths = (config.intermediate, config.moe_intermediate, config.layer_intermediate)
        if None in sizes or all(width is None for width in widths):
            return None
        return cls(config, family, unnested(language_part(config.data)), *sizes)  # type: ignore[arg-type]  # none is None

    def flag(self, *keys: str, default: bool) -> bool:
        """The first of these switches that config.json sets."""
        return next((self.data[key] for key in keys if isinstance(self.data.get(key), bool)), default)

    def count(self) -> ParameterCount:
        config, family = self.config, self.family
        tied = config.tied if config.tied is not None else family.tied
        experts = config.experts or 0
        routed = self.layers - (config.dense_layers or 0) if experts else 0
        head = 0 if tied else self.vocab * self.hidden
        return ParameterCount(
            embedding=self.embedding(),
            head=head + (self.vocab if family.head_bias else 0),
            attention=sum(self.attention(layer) for layer in range(self.layers)),
            mlp=self.dense_mlp(self.layers - routed) + routed * self.shared(),
            experts=routed * experts * self.expert(),
            norms=self.norms(),
            other=routed * self.router(experts) + self.projections(),
            tied=tied,
            used_experts=min(1.0, (config.experts_per_token or experts) / experts) if experts else 1.0,
        )

    def embedding(self) -> int:
        positions = self.config.max_positions
        learned = self.family.positions is not None and self.data.get("position_embedding_type") != "alibi"
        rows = positions + (self.family.positions or 0) if learned and positions else 0
        return self.vocab * self.embedding_width + rows * self.hidden

    @property
    def embedding_width(self) -> int:
        width = self.data.get("word_embed_proj_dim")  # OPT-350M
        return width if type(width) is int and 0 < width <= _MOST_WIDTH else self.hidden

    def projections(self) -> int:
        """Between an embedding of another width and the layers."""
        return 2 * self.hidden * self.embedding_width if self.embedding_width != self.hidden else 0

    def attention(self, layer: int) -> int:
        config = self.config
        if config.kv_lora_rank:
            return self.latent_attention(config.kv_lora_rank)
        kv_heads = config.layer_kv_heads[layer] if config.layer_kv_heads else config.kv_heads or self.heads
        if kv_heads == 0:
            return self.hidden * self.hidden if self.is_linear(layer) else 0
        q, kv = self.heads * self.head_dim, kv_heads * self.head_dim
        biases = (q + 2 * kv if self.qkv_bias else 0) + (self.hidden if self.out_bias else 0)
        sinks = self.heads if self.family.name == "gpt_oss" else 0
        return self.hidden * (2 * q + 2 * kv) + biases + sinks

    def is_linear(self, layer: int) -> bool:
        blocks = self.data.get("block_configs")
        section = blocks[layer].get("attention") if isinstance(blocks, list) and layer < len(blocks) else None
        return isinstance(section, dict) and section.get("replace_with_linear") is True

    def latent_attention(self, kv_rank: int) -> int:
        """DeepSeek's: queries and keys/values through narrow projections, a norm over each."""
        rope, nope = self.config.qk_rope_head_dim or 0, self.config.qk_nope_head_dim or 0
        value = self.config.v_head_dim or nope
        rank, query = self.config.q_lora_rank, self.heads * (rope + nope)
        q = self.hidden * rank + rank + rank * query if rank else self.hidden * query
        kv = self.hidden * (kv_rank + rope) + kv_rank + kv_rank * self.heads * (nope + value)
        return q + kv + self.heads * value * self.hidden

    @property
    def qkv_bias(self) -> bool:
        if self.family.name in ("qwen2", "qwen2_moe", "qwen"):
            return self.flag("qkv_bias", default=True)
        return self.flag("add_qkv_bias", "attention_bias", "use_qkv_bias", *_ALL_BIASES, default=self.family.qkv_bias)

    @property
    def out_bias(self) -> bool:
        if not self.family.out_bias and self.family.name in ("qwen2", "qwen2_moe", "glm", "glm4", "stablelm", "qwen"):
            return False
        keys = ("add_bias_linear",) if self.family.name == "chatglm" else ("attention_bias", *_ALL_BIASES)
        return self.flag(*keys, default=self.family.out_bias)

    @property
    def mlp_bias(self) -> bool:
        if self.family.name == "internlm":
            return False
        return self.flag("mlp_bias", "add_bias_linear", *_ALL_BIASES, default=self.family.mlp_bias)

    def mlp(self, width: int, *, bias: bool) -> int:
        gated = self.family.gated
        weights = (3 if gated else 2) * self.hidden * width
        return weights + ((2 * width if gated else width) + self.hidden if bias else 0)

    def dense_mlp(self, layers: int) -> int:
        widths = self.config.layer_intermediate
        if widths and len(widths) == self.layers:
            return sum(self.mlp(width, bias=self.mlp_bias) if width else 0 for width in widths)
        return layers * self.mlp(self.config.intermediate or 0, bias=self.mlp_bias) if layers else 0

    def expert(self) -> int:
        return self.mlp(self.config.moe_intermediate or 0, bias=self.family.name == "gpt_oss")

    def shared(self) -> int:
        """The MLP that every token of a mixture layer passes: shared experts, or Arctic's dense one beside them."""
        if self.family.name == "arctic":
            return self.mlp(self.hidden, bias=False)
        return self.mlp(self.config.shared_intermediate, bias=False) if self.config.shared_intermediate else 0

    def router(self, experts: int) -> int:
        gate = self.hidden if self.family.name == "qwen2_moe" and self.config.shared_intermediate else 0
        return self.hidden * experts + gate + (experts if self.family.name == "gpt_oss" else 0)

    def norms(self) -> int:
        width = self.hidden * (2 if self.family.norm_bias and not self.flag("no_bias", default=False) else 1)
        behind = 0 if self.data.get("do_layer_norm_before") is False else self.family.final_norms
        return width * (self.layer_norms() + behind) + self.layers * self.query_norms()

    def layer_norms(self) -> int:
        """Norms of the hidden size in all layers together."""
        kv, widths = self.config.layer_kv_heads, self.config.layer_intermediate
        if "block_configs" in self.data and kv and widths:  # a layer without attention or MLP lacks its norm too
            attention = sum(bool(heads) or self.is_linear(layer) for layer, heads in enumerate(kv))
            return attention + sum(bool(width) for width in widths)
        return self.layers * self.norms_per_layer

    @property
    def norms_per_layer(self) -> int:
        name = self.family.name
        if name == "falcon":
            newer = self.flag("new_decoder_architecture", default=False)
            listed = self.data.get("num_ln_in_parallel_attn")
            parallel = self.flag("parallel_attn", default=True)
            return listed if type(listed) is int and listed in (1, 2) else 2 if newer or not parallel else 1
        if name == "stablelm" and self.flag("use_parallel_residual", default=False):
            return 1
        return 3 if name == "arctic" else self.family.norms

    def query_norms(self) -> int:
        """Weights of one layer's query and key norms."""
        both = self.heads + (self.config.kv_heads or self.heads)
        if self.family.qk_norm == "head":
            return 2 * self.head_dim
        wide = self.family.qk_norm == "all" or self.flag("use_qk_norm", default=False)
        return both * self.head_dim if wide else 0


_MOST_WIDTH = 1 << 31
_ALL_BIASES = ("use_bias", "bias", "enable_bias")  # one switch for every linear layer
