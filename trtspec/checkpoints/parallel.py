"""How many ranks a model can be split over: heads, MLP width, quantization groups, layers.

Tensor parallelism splits attention by heads and the MLP by its width; what does not divide fails in the converter after
minutes (NVIDIA/TensorRT-LLM#98, #374, #301), so it is computed here first. KV heads that are fewer than the ranks are
copied, which needs the ranks to be a multiple of them. The vocabulary is padded by the converters that read models in
TensorRT-LLM's own way; the older scripts for OPT and MPT split it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trtspec.checkpoints.config import ModelConfig

__all__ = ["Misfit", "group_of", "largest_tp", "nearest_tps", "padded_vocabulary", "pp_misfit", "tp_misfits"]

_UNPADDED_VOCABULARY = ("OPTForCausalLM", "MptForCausalLM", "MPTForCausalLM")
# weights under one scale along a row, by the quantization of a spec; ModelOpt's block size for AWQ, NVFP4's own
_GROUPS = {"int4_awq": 128, "w4a8_awq": 128, "nvfp4": 16}


@dataclass(frozen=True)
class Misfit:
    """A size of the model that `tp` ranks do not divide."""

    what: str
    size: int
    tp: int
    detail: str

    def __str__(self) -> str:
        return f"{self.size} {self.what} {self.detail}"


def group_of(config: ModelConfig, quantization: str) -> int | None:
    """Weights under one scale: of the quantization that is asked for, else of the one the checkpoint carries."""
    if quantization in _GROUPS:
        return _GROUPS[quantization]
    carried = config.quant.group_size if config.quant is not None else None
    return carried if carried is not None and carried > 0 else None


def tp_misfits(config: ModelConfig, tp: int, group: int | None = None) -> tuple[Misfit, ...]:
    """What keeps `config` from being split over `tp` ranks; empty when nothing does, or nothing is known.

    `group` is the number of weights under one scale along a row (`group_of`): the attention output and the second MLP
    matrix are cut along their rows, and a group may not be cut.
    """
    return tuple(dict.fromkeys(_misfits(config, tp, group))) if tp > 1 or group is not None else ()


def _misfits(config: ModelConfig, tp: int, group: int | None) -> Iterator[Misfit]:
    if config.heads and config.heads % tp:
        yield Misfit("attention heads", config.heads, tp, f"cannot be shared by {tp} ranks")
    for heads in _kv_heads(config):
        if heads % tp and tp % heads:
            detail = f"can neither be shared by {tp} ranks nor copied to them"
            yield Misfit("KV heads", heads, tp, detail)
    for name, width in _mlp_widths(config):
        if width % tp:
            yield Misfit(f"columns of {name}", width, tp, f"cannot be shared by {tp} ranks")
        elif group and (width // tp) % group:
            yield _cut(name, width, tp, group)
    rows = _attention_rows(config)
    if group and rows and rows % tp == 0 and (rows // tp) % group:
        yield _cut("the attention output", rows, tp, group)
    if config.architecture in _UNPADDED_VOCABULARY and config.vocab_size and config.vocab_size % tp:
        detail = f"cannot be shared by {tp} ranks; this family's converter does not pad them"
        yield Misfit("rows of the vocabulary", config.vocab_size, tp, detail)


def _cut(name: str, width: int, tp: int, group: int) -> Misfit:
    detail = f"over {tp} ranks are {width // tp} each, no whole number of quantization groups of {group}"
    return Misfit(f"columns of {name}", width, tp, detail)


def _kv_heads(config: ModelConfig) -> tuple[int, ...]:
    """Different numbers of KV heads in the layers that have attention."""
    listed = tuple(count for count in config.layer_kv_heads or () if count > 0)
    return tuple(dict.fromkeys(listed or ((config.kv_heads,) if config.kv_heads else ())))


def _mlp_widths(config: ModelConfig) -> tuple[tuple[str, int], ...]:
    listed = tuple(width for width in config.layer_intermediate or () if width > 0)
    dense = listed or ((config.intermediate,) if config.intermediate and _has_dense_mlp(config) else ())
    widths = [("the MLP", width) for width in dense]
    if config.experts:
        parts = (("an expert", config.moe_intermediate), ("the shared expert", config.shared_intermediate))
        widths += [(name, width) for name, width in parts if width]
    return tuple(dict.fromkeys(widths))


def _has_dense_mlp(config: ModelConfig) -> bool:
    return not config.experts or bool(config.dense_layers)


def _attention_rows(config: ModelConfig) -> int | None:
    if config.v_head_dim and config.heads:  # latent attention: what comes out is heads × v_head_dim
        return config.heads * config.v_head_dim
    return config.heads * config.head_dim if config.heads and config.head_dim else None


def largest_tp(config: ModelConfig, at_most: int, group: int | None = None) -> int | None:
    """The most ranks, `at_most` or fewer, that the model can be split over; None when not even one fits its groups."""
    return next((tp for tp in range(at_most, 0, -1) if not tp_misfits(config, tp, group)), None)


def nearest_tps(config: ModelConfig, tp: int, group: int | None = None) -> tuple[int, ...]:
    """The numbers of ranks around `tp` that the model can be split over: the next smaller, the next larger up to 16."""
    smaller = largest_tp(config, tp, group)
    larger = next((more for more in range(tp + 1, 17) if not tp_misfits(config, more, group)), None)
    return tuple(found for found in (smaller, larger) if found is not None)


def pp_misfit(config: ModelConfig, pp: int) -> str | None:
    """Why `pp` pipeline ranks do not fit; None when they do.

    TensorRT-LLM deals the layers out unevenly where they do not divide (tensorrt_llm/mapping.py, `pp_layers`), so each
    rank only needs one.
    """
    if pp <= 1 or config.layers is None or config.layers >= pp:
        return None
    return f"{config.layers} layers cannot be dealt to {pp} pipeline ranks"


def padded_vocabulary(rows: int, tp: int) -> int:
    """Rows of the head after padding to a multiple of `tp`."""
    return -(-rows // tp) * tp
