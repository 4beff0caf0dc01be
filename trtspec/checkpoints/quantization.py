"""How a checkpoint says that its weights are quantised: config.json's section, or ModelOpt's hf_quant_config.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["HF_QUANT", "QuantizationFacts", "read_modelopt", "read_quantization"]

HF_QUANT = "hf_quant_config.json"


@dataclass(frozen=True)
class QuantizationFacts:
    """What a checkpoint says of its quantisation.

    `method` names the tool or format (awq, gptq, fbgemm_fp8, fp8, compressed-tensors, modelopt, bitsandbytes, mxfp4,
    …). `algo` is TensorRT-LLM's name for it (QuantAlgo of 1.2), None where it has none. `bits` of a weight,
    `group_size` weights under one scale (None: per tensor or channel), `block` the rows and columns under one scale.
    `kv_cache_algo` FP8 or INT8 when the checkpoint asks for it. `desc_act` (GPTQ: rows in another order),
    `symmetric`, `dynamic` (activation scales are made at run time), None where it does not say. `excluded` modules
    stay as they are. `source` is the file. `mixed` counts the layers of each algorithm in a mixed checkpoint.
    """

    method: str
    algo: str | None = None
    bits: int | None = None
    group_size: int | None = None
    kv_cache_algo: str | None = None
    desc_act: bool | None = None
    symmetric: bool | None = None
    dynamic: bool | None = None
    block: tuple[int, int] | None = None
    excluded: tuple[str, ...] = ()
    mixed: Mapping[str, int] | None = None
    source: str = "config.json"


# ModelOpt's name → TensorRT-LLM's, where they differ
_SAME_ALGO = {"FP8_PB_WO": "FP8_BLOCK_SCALES", "FP8_PB_REAL": "FP8_BLOCK_SCALES", "INT8_SQ": "W8A8_SQ_PER_CHANNEL"}
_ALGO_BITS = {
    "FP8": 8, "FP8_PER_CHANNEL_PER_TOKEN": 8, "FP8_BLOCK_SCALES": 8, "NVFP4": 4, "INT8": 8, "W8A8_SQ_PER_CHANNEL": 8,
}  # fmt: skip
_EXCLUDED = ("modules_to_not_convert", "exclude_modules", "ignore", "ignored_layers", "llm_int8_skip_modules")


def read_quantization(config: Mapping[str, Any]) -> QuantizationFacts | None:
    """What `quantization_config` of a config.json says; None without one (`compression_config` is its older name)."""
    section = config.get("quantization_config", config.get("compression_config"))
    if not isinstance(section, dict):
        return None
    method = _text(section.get("quant_method")) or ("modelopt" if _text(section.get("quant_algo")) else "unnamed")
    reader = _READERS.get(method.lower(), _plain)
    return reader(method, section)


def read_modelopt(document: Mapping[str, Any]) -> QuantizationFacts | None:
    """What ModelOpt's hf_quant_config.json says; None when it names no algorithm (an unquantised export)."""
    section = document.get("quantization")
    if not isinstance(section, dict) or not _text(section.get("quant_algo")):
        return None
    producer = document.get("producer")
    name = _text(producer.get("name")) if isinstance(producer, dict) else None
    return replace(_modelopt(name or "modelopt", section), source=HF_QUANT)


def _modelopt(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    algo = str(section.get("quant_algo") or "").upper() or None
    algo = _SAME_ALGO.get(algo or "", algo)
    group = _whole(section.get("group_size"))
    layers = section.get("quantized_layers")
    kv = _text(section.get("kv_cache_quant_algo")) or _kv_scheme(section.get("kv_cache_scheme"))
    return QuantizationFacts(
        method,
        algo=algo,
        bits=_ALGO_BITS.get(algo or "", 4 if (algo or "").startswith("W4") else None),
        group_size=group or (16 if algo == "NVFP4" else None),
        kv_cache_algo=kv.upper() if kv and kv.lower() != "none" else None,
        block=(128, 128) if algo == "FP8_BLOCK_SCALES" else None,
        excluded=_excluded(section),
        mixed=_mixed(layers) if isinstance(layers, dict) else None,
    )


def _mixed(layers: Mapping[str, Any]) -> dict[str, int]:
    names = (str(item.get("quant_algo")) for item in layers.values() if isinstance(item, dict))
    return dict(Counter(names).most_common())


def _awq(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    bits = _whole(section.get("bits", section.get("w_bit"))) or 4
    zero = section.get("zero_point")
    return QuantizationFacts(
        method,
        algo="W4A16_AWQ" if bits == 4 else None,
        bits=bits,
        group_size=_whole(section.get("group_size", section.get("q_group_size"))),
        symmetric=not zero if isinstance(zero, bool) else None,
        excluded=_excluded(section),
    )


def _gptq(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    bits = _whole(section.get("bits"))
    return QuantizationFacts(
        method,
        algo={4: "W4A16_GPTQ", 8: "W8A16_GPTQ"}.get(bits or 0),
        bits=bits,
        group_size=_whole(section.get("group_size")),  # -1: one group over the whole column
        desc_act=_flag(section.get("desc_act")),
        symmetric=_flag(section.get("sym")),
        excluded=_excluded(section),
    )


def _fp8(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    block = _block(section.get("weight_block_size"))
    scheme = section.get("activation_scheme")
    return QuantizationFacts(
        method,
        algo="FP8_BLOCK_SCALES" if block else "FP8",
        bits=8,
        block=block,
        kv_cache_algo=_kv_scheme(section.get("kv_cache_scheme")),
        dynamic=scheme == "dynamic" if isinstance(scheme, str) else None,
        excluded=_excluded(section),
    )


def _fbgemm(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    excluded = _excluded(section)
    return QuantizationFacts(method, algo="FP8_PER_CHANNEL_PER_TOKEN", bits=8, dynamic=True, excluded=excluded)


def _compressed(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    groups = section.get("config_groups")
    first = next((g for g in groups.values() if isinstance(g, dict)), {}) if isinstance(groups, dict) else {}
    weights, inputs = _scheme(first)
    block = _block(weights.get("block_structure")) if weights.get("strategy") == "block" else None
    kinds = _group_kinds(groups) if isinstance(groups, dict) else {}
    return QuantizationFacts(
        method,
        algo="MIXED_PRECISION" if len(kinds) > 1 else _compressed_algo(weights, inputs),
        bits=_whole(weights.get("num_bits")),
        group_size=_whole(weights.get("group_size")),
        kv_cache_algo=_kv_scheme(section.get("kv_cache_scheme")),
        desc_act=bool(weights.get("actorder")) if "actorder" in weights else None,
        symmetric=_flag(weights.get("symmetric")),
        dynamic=_flag(inputs.get("dynamic")),
        block=block,
        excluded=_excluded(section),
        mixed=kinds if len(kinds) > 1 else None,
    )


def _scheme(group: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights and activations of a group; empty where it leaves them as they are."""
    weights, inputs = group.get("weights"), group.get("input_activations")
    return weights if isinstance(weights, dict) else {}, inputs if isinstance(inputs, dict) else {}


def _group_kinds(groups: Mapping[str, Any]) -> dict[str, int]:
    """Algorithm → groups that use it, in a compressed-tensors section with several."""
    kinds: Counter[str] = Counter()
    for group in groups.values():
        if isinstance(group, dict):
            kinds[_compressed_algo(*_scheme(group)) or "other"] += 1
    return dict(kinds)


def _compressed_algo(weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> str | None:
    """TensorRT-LLM's algorithm with the same kind of weights, activations and scales; None when it has none."""
    kind = (weights.get("type"), weights.get("num_bits"))
    strategy = weights.get("strategy")
    if kind == ("float", 8) and inputs:
        return {"block": "FP8_BLOCK_SCALES", "channel": "FP8_PER_CHANNEL_PER_TOKEN"}.get(str(strategy), "FP8")
    if kind == ("float", 4) and inputs:
        return "NVFP4" if weights.get("group_size") == 16 else None
    if kind == ("int", 8):
        if inputs:
            return "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN" if inputs.get("dynamic") else "W8A8_SQ_PER_CHANNEL"
        return "W8A16_GPTQ" if strategy == "group" else "W8A16"
    if kind == ("int", 4) and not inputs:
        return "W4A16_GPTQ" if strategy == "group" else "W4A16"
    return None


def _bitsandbytes(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    bits = 4 if section.get("load_in_4bit") or section.get("_load_in_4bit") else 8
    return QuantizationFacts(method, bits=bits, excluded=_excluded(section))


def _mxfp4(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    return QuantizationFacts(method, algo="W4A16_MXFP4", bits=4, group_size=32, excluded=_excluded(section))


def _plain(method: str, section: Mapping[str, Any]) -> QuantizationFacts:
    bits = _whole(section.get("bits", section.get("nbits")))
    return QuantizationFacts(
        method, bits=bits, group_size=_whole(section.get("group_size")), excluded=_excluded(section)
    )


_Reader = Callable[[str, Mapping[str, Any]], QuantizationFacts]
_READERS: dict[str, _Reader] = {
    "awq": _awq,
    "gptq": _gptq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "compressed-tensors": _compressed,
    "compressed_tensors": _compressed,
    "modelopt": _modelopt,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _block(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(type(item) is int and item > 0 for item in value):
        return (value[0], value[1])
    return None


def _kv_scheme(value: Any) -> str | None:
    """The KV cache's type from a compressed-tensors scheme ({type, num_bits}) or a word."""
    if isinstance(value, str):
        return None if value.lower() in ("none", "auto") else value.upper()
    if not isinstance(value, dict):
        return None
    kinds = {("float", 8): "FP8", ("int", 8): "INT8", ("float", 4): "NVFP4"}
    return kinds.get((str(value.get("type")), _whole(value.get("num_bits")) or 0))


def _excluded(section: Mapping[str, Any]) -> tuple[str, ...]:
    for key in _EXCLUDED:
        value = section.get(key)
        if isinstance(value, list):
            return tuple(item for item in value if isinstance(item, str))
    return ()
