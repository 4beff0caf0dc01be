"""Widths and kinds of layers from config.json: heads, MLP, experts, latent attention, sliding windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

__all__ = ["Geometry", "read_geometry", "unnested", "windowed_layers"]


class Size(Protocol):
    """Reads a size: the first of the names that is given, held to be a positive whole number."""

    def __call__(self, *names: str) -> int | None: ...


_SECTIONS = ("attn_config", "ffn_config")  # DBRX and MPT keep these sizes one level deeper
_HEAD_DIM = ("head_dim", "kv_channels", "head_size")
_INTERMEDIATE = (
    "intermediate_size",
    "n_inner",
    "ffn_dim",
    "ffn_hidden_size",
    "inner_hidden_size",
    "ff_intermediate_size",
)
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_selected_experts", "moe_top_k", "num_experts_per_token")
_MOST_RATIO, _MOST_WIDTH = 1 << 10, 1 << 31
_FOUR_TIMES = ("falcon", "RefinedWeb", "RefinedWebModel", "bloom", "gpt2", "gpt_bigcode", "gptj", "jais", "mpt")
# head widths that the configuration class fills in, where others divide the hidden size by the heads
_USUAL_HEAD = {"gemma": 256, "gemma2": 256, "gemma3_text": 256, "qwen3": 128}
# model_type → every n-th layer attends to all tokens, the others to a window, where config.json does not say it
_PATTERN = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Widths of a model's layers; None is what the family does not have or config.json does not say.

    `head_dim`: width of a query head, hidden // heads where none is given. `intermediate`: width of the dense MLP,
    `moe_intermediate` of one expert, `shared_intermediate` of all shared experts together; `dense_layers` of a model
    with experts have none. `windowed_layers` see the last `sliding_window` tokens only. `layer_kv_heads` and
    `layer_intermediate` where layers differ (0: that layer has no attention, or no MLP).
    """

    head_dim: int | None = None
    intermediate: int | None = None
    sliding_window: int | None = None
    windowed_layers: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    moe_intermediate: int | None = None
    shared_intermediate: int | None = None
    dense_layers: int | None = None
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None
    layer_kv_heads: tuple[int, ...] | None = None
    layer_intermediate: tuple[int, ...] | None = None


def unnested(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """`data` with the keys of its attn_config and ffn_config beside its own, which stand first."""
    inner = {key: value for name in _SECTIONS if isinstance(data.get(name), dict) for key, value in data[name].items()}
    return {**inner, **data} if inner else data


def read_geometry(data: Mapping[str, Any], size: Size, sizes: Mapping[str, int | None]) -> Geometry:
    """The widths in `data` (the language part of config.json, unnested); `size` reads one, `sizes` were read."""
    layers, hidden, heads = sizes["layers"], sizes["hidden"], sizes["heads"]
    window = _window(data, size)
    latent = {key: size(key) for key in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")}
    blocks = _blocks(data, sizes)
    per_head = _USUAL_HEAD.get(str(data.get("model_type"))) or (hidden // heads or None if hidden and heads else None)
    return Geometry(
        head_dim=_head_dim(latent, size) or per_head,
        intermediate=_intermediate(data, size, hidden),
        sliding_window=window,
        windowed_layers=windowed_layers(data, layers) if window else None,
        **_experts(data, size, layers),
        **latent,
        q_lora_rank=size("q_lora_rank"),
        layer_kv_heads=blocks[0] if blocks else _listed(data.get("num_key_value_heads_per_layer"), layers),
        layer_intermediate=blocks[1] if blocks else _listed(data.get("intermediate_size"), layers),
    )


def _head_dim(latent: Mapping[str, int | None], size: Size) -> int | None:
    rope, nope = latent["qk_rope_head_dim"], latent["qk_nope_head_dim"]
    return rope + nope if rope and nope else size(*_HEAD_DIM)


def _intermediate(data: Mapping[str, Any], size: Size, hidden: int | None) -> int | None:
    given = size(*_INTERMEDIATE)
    kind = data.get("model_type")
    if kind == "qwen" and given:  # the first Qwen counts gate and up projection together
        return given // 2
    if given is not None or hidden is None:
        return given
    ratio = data.get("expansion_ratio")
    if type(ratio) is int and 0 < ratio <= _MOST_RATIO:  # MPT
        return int(ratio) * hidden
    return 4 * hidden if kind in _FOUR_TIMES else None


def _experts(data: Mapping[str, Any], size: Size, layers: int | None) -> dict[str, int | None]:
    experts = size(*_EXPERTS)
    if experts is None or experts < 2:
        return {}
    width = size("moe_intermediate_size") or size(*_INTERMEDIATE)
    shared = size("shared_expert_intermediate_size", "shared_intermediate_size")
    count = size("n_shared_experts", "num_shared_experts")
    if shared is None and count and width:
        shared = count * width
    return {
        "experts": experts,
        "experts_per_token": size(*_PER_TOKEN),
        "moe_intermediate": width,
        "shared_intermediate": shared,
        "dense_layers": _dense_layers(data, layers) if layers else None,
    }


def _dense_layers(data: Mapping[str, Any], layers: int) -> int:
    """Layers of a mixture model whose MLP is an ordinary one (DeepSeek: the first; Qwen and Arctic: those skipped)."""
    first, listed = _number(data, "first_k_dense_replace", 0), data.get("mlp_only_layers")
    step = _number(data, "decoder_sparse_step", _number(data, "moe_layer_frequency", 1))
    every = _number(data, "moe_layer_freq", 1) or 1
    dense = listed if isinstance(listed, list) else []
    sparse = (
        layer >= first and layer % every == 0 and layer not in dense and step > 0 and (layer + 1) % step == 0
        for layer in range(layers)
    )  # fmt: skip
    return layers - sum(sparse)


def _number(data: Mapping[str, Any], key: str, default: int) -> int:
    value = data.get(key)
    return int(value) if type(value) is int and value >= 0 else default


def _window(data: Mapping[str, Any], size: Size) -> int | None:
    """The sliding window that is in use: Qwen writes one and switches it off."""
    if data.get("use_sliding_window") is False or data.get("sliding_window") in (-1, 0):
        return None
    return size("sliding_window", "sliding_window_size")


def windowed_layers(data: Mapping[str, Any], layers: int | None) -> int | None:
    """How many of `layers` see a window only, by the kinds or the pattern in `data`, else by its model_type."""
    kinds = data.get("layer_types")
    if isinstance(kinds, list) and kinds:
        return len([kind for kind in kinds if kind == "sliding_attention"])
    if layers is None:
        return None
    pattern = _number(data, "sliding_window_pattern", _PATTERN.get(str(data.get("model_type")), 0))
    if pattern:
        return layers - layers // pattern
    if "use_sliding_window" in data:  # Qwen: the layers from max_window_layers on
        return max(0, layers - _number(data, "max_window_layers", 0))
    return layers


def _listed(value: Any, layers: int | None) -> tuple[int, ...] | None:
    """A number for each layer; None when `value` is no such list."""
    if isinstance(value, list) and len(value) == layers and all(map(_is_width, value)):
        return tuple(value)
    return None


def _is_width(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MOST_WIDTH


def _blocks(data: Mapping[str, Any], sizes: Mapping[str, int | None]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """KV heads and MLP width of each layer from `block_configs` (the DeciLM that Nemotron models use)."""
    blocks, hidden, heads = data.get("block_configs"), sizes["hidden"], sizes["heads"]
    if not isinstance(blocks, list) or len(blocks) != sizes["layers"] or not hidden or not heads:
        return None
    if not all(isinstance(block, dict) for block in blocks):
        return None
    return tuple(_block_kv_heads(block, heads) for block in blocks), tuple(_block_width(b, hidden) for b in blocks)


def _part(block: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = block.get(name)
    return section if isinstance(section, dict) else {}


def _block_kv_heads(block: Mapping[str, Any], heads: int) -> int:
    group = _part(block, "attention").get("n_heads_in_group")
    return heads // group if type(group) is int and group > 0 else 0


def _block_width(block: Mapping[str, Any], hidden: int) -> int:
    section = _part(block, "ffn")
    given = section.get("intermediate_size")
    if _is_width(given):
        return given
    factor = section.get("ffn_mult")
    if not isinstance(factor, (int, float)) or isinstance(factor, bool) or not 0 < factor < 1e6:
        return 0
    width = int(2 * factor * hidden / 3)
    return (width + 255) // 256 * 256
