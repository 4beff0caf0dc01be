"""What an engine folder's config.json says.

TensorRT-LLM 0.19 to 1.2 write `version`, `pretrained_config` and `build_config` (with `plugin_config` inside); engines
of trtspec's own torch runtime have the same shape and `runtime: "torch"`. Spellings differ between versions:
`kv_cache_type` is upper case until BuildConfig became a pydantic model (NVIDIA/TensorRT-LLM#8330), lower case in 1.2;
`speculative_decoding_mode` is the integer of an IntFlag, `gather_*` are integers or booleans.
Source: tensorrt_llm/builder.py (EngineConfig, BuildConfig), tensorrt_llm/models/modeling_utils.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.building.inspection.fields import MOST, Fields
from trtspec.errors import BuildError, Problem
from trtspec.files import read_json
from trtspec.spec.names import Runtime

__all__ = [
    "CONFIG",
    "DRAFT_TOKENS_EXTERNAL",
    "NO_MODE",
    "EngineConfig",
    "load_engine_config",
    "parse_engine_config",
    "read_engine_config",
]

CONFIG = "config.json"
NO_MODE = "NONE"
DRAFT_TOKENS_EXTERNAL = "DRAFT_TOKENS_EXTERNAL"
_MOST_RANKS, _MOST_LAYERS, _MOST_NUMBER = 1024, 1 << 14, 1e18
# SpeculativeDecodingMode is an IntFlag with automatic values; 0 is how the torch runtime writes "none"
_MODES = {
    0: NO_MODE,
    1: NO_MODE,
    2: DRAFT_TOKENS_EXTERNAL,
    4: "MEDUSA",
    8: "LOOKAHEAD_DECODING",
    16: "EXPLICIT_DRAFT_TOKENS",
    32: "EAGLE",
    64: "NGRAM",
    128: "USER_PROVIDED",
    256: "SAVE_HIDDEN_STATES",
    512: "AUTO",
}


@dataclass(frozen=True)
class EngineConfig:
    """The facts of one engine; None is what its config.json does not say.

    `max_seq_len` and `max_num_tokens` are as the runtime uses them: with a speculative mode they hold the draft tokens.
    `built_on` is the name of the GPU that versions before 1.2 recorded. `data` is the document itself.
    """

    runtime: Runtime
    version: str
    architecture: str
    dtype: str
    logits_dtype: str | None
    vocab_size: int
    quant_algo: str | None
    kv_cache_quant_algo: str | None
    tp: int
    pp: int
    cp: int
    world_size: int
    max_batch_size: int
    max_seq_len: int
    max_num_tokens: int
    max_input_len: int | None
    max_beam_width: int
    max_draft_len: int
    speculative_mode: str
    paged_context_fmha: bool | None
    context_fmha: bool | None
    paged_kv: bool | None
    tokens_per_block: int | None
    manage_weights: bool
    gather_context_logits: bool
    rotary_scaling: Mapping[str, Any] | None
    rotary_base: float | None
    max_position_embeddings: int | None
    hidden_size: int | None
    layers: int | None
    heads: int | None
    kv_heads: int | None
    head_size: int | None
    built_on: str | None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def speculates(self) -> bool:
        """True for an engine that takes draft tokens from outside."""
        return self.speculative_mode == DRAFT_TOKENS_EXTERNAL


def read_engine_config(folder: Path) -> EngineConfig:
    """The facts in `folder`/config.json; BuildError names the file and every key at fault."""
    config, problems = load_engine_config(folder)
    if config is None:
        raise BuildError(_listed(problems), where=_where(folder), fix="give the folder that trtllm-build wrote")
    return config


def load_engine_config(folder: Path) -> tuple[EngineConfig | None, tuple[Problem, ...]]:
    """The facts in `folder`/config.json; None and every problem when it is not one of an engine. Never raises."""
    path = folder / CONFIG
    try:
        if not path.is_file():
            return None, (Problem("", _absent(folder)),)
        data = read_json(path)
        json.dumps(data, allow_nan=False)  # NaN and infinity are no JSON, and nothing that we print may hold them
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return None, (Problem("", f"{CONFIG} cannot be read as JSON: {reason}"),)
    return parse_engine_config(data)


def parse_engine_config(data: Any) -> tuple[EngineConfig | None, tuple[Problem, ...]]:
    """The facts of a parsed config.json; None, and every problem with its key, when it is not one of an engine."""
    if not isinstance(data, dict):
        return None, (Problem("", f"holds {type(data).__name__}, an object is expected"),)
    if "pretrained_config" not in data and (other := _other_kind(data)):
        return None, (Problem("", f"is that of {other}, not of an engine"),)
    top = Fields(data)
    runtime: Runtime = "torch" if data.get("runtime") == "torch" else "tensorrt_llm"
    model = top.section("pretrained_config", required=True)
    build = top.section("build_config", required=True)
    if top.problems:
        return None, tuple(top.problems)
    values = {
        "runtime": runtime,
        "version": top.text("version", required=True),
        **_model_values(model, runtime),
        **_build_values(build),
        **_plugin_values(build),
        "data": data,
    }
    if (values["max_draft_len"] or 0) >= (values["max_seq_len"] or MOST):
        build.problem("max_draft_len", f"is {values['max_draft_len']}, max_seq_len {values['max_seq_len']} has no room")
    return (None if top.problems else EngineConfig(**values)), tuple(top.problems)


def _other_kind(data: Mapping[str, Any]) -> str | None:
    """What a config.json belongs to that is easily taken for an engine's."""
    if "architectures" in data or "model_type" in data:
        return "a Hugging Face checkpoint"
    return "a converted checkpoint" if "architecture" in data and "mapping" in data else None


def _model_values(model: Fields, runtime: Runtime) -> dict[str, Any]:
    mapping = model.section("mapping", required=runtime != "torch")
    quantization = model.section("quantization")
    tp, pp, cp = (mapping.whole(f"{name}_size", least=1, most=_MOST_RANKS) or 1 for name in ("tp", "pp", "cp"))
    return {
        "architecture": model.text("architecture", required=True),
        "dtype": model.text("dtype", required=True),
        "logits_dtype": model.text("logits_dtype"),
        "vocab_size": model.whole("vocab_size", required=True, least=1),
        "quant_algo": _algo(quantization, "quant_algo"),
        "kv_cache_quant_algo": _algo(quantization, "kv_cache_quant_algo"),
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "world_size": mapping.whole("world_size", least=1, most=_MOST_RANKS) or tp * pp * cp,
        "rotary_scaling": model.mapping("rotary_scaling"),
        "rotary_base": _number(model.data.get("rotary_base")),
        "max_position_embeddings": model.whole("max_position_embeddings"),
        "hidden_size": model.whole("hidden_size"),
        "layers": model.whole("num_hidden_layers", most=_MOST_LAYERS),
        "heads": model.whole("num_attention_heads"),
        "kv_heads": _largest(model, "num_key_value_heads"),
        "head_size": model.whole("head_size"),
    }


def _build_values(build: Fields) -> dict[str, Any]:
    return {
        "max_batch_size": build.whole("max_batch_size", required=True, least=1),
        "max_seq_len": build.whole("max_seq_len", required=True, least=1),
        "max_num_tokens": build.whole("max_num_tokens", required=True, least=1),
        "max_input_len": build.whole("max_input_len"),
        "max_beam_width": build.whole("max_beam_width", required=True, least=1),
        "max_draft_len": build.whole("max_draft_len", required=True),
        "speculative_mode": _mode(build),
        "gather_context_logits": build.flag("gather_context_logits") or False,
        "built_on": _built_on(build),
    }


def _plugin_values(build: Fields) -> dict[str, Any]:
    plugins = build.section("plugin_config")
    return {
        "paged_context_fmha": plugins.flag("use_paged_context_fmha"),
        "context_fmha": plugins.flag("context_fmha"),
        "paged_kv": _paged(build, plugins),
        "tokens_per_block": plugins.whole("tokens_per_block"),
        "manage_weights": plugins.flag("manage_weights") or False,
    }


def _mode(build: Fields) -> str:
    """The mode's name, whether it is written as a number, as `SpeculativeDecodingMode.X` or as the command's word."""
    value = build.data.get("speculative_decoding_mode")
    if isinstance(value, str) and value:
        return value.rpartition(".")[2].upper()
    if value is None:
        return NO_MODE
    if type(value) is int and value >= 0:
        return _MODES.get(value, f"unknown mode {value}")
    build.problem("speculative_decoding_mode", f"is {value!r}, a number or a name is expected")
    return NO_MODE


def _paged(build: Fields, plugins: Fields) -> bool | None:
    """True for a paged KV cache: `kv_cache_type` in any case, in older files the plugin's flag."""
    kind = build.text("kv_cache_type")
    return plugins.flag("paged_kv_cache") if kind is None else kind.rpartition(".")[2].lower() == "paged"


def _algo(quantization: Fields, key: str) -> str | None:
    """The algorithm's name in capitals; None for none, which some writers call NO_QUANT."""
    value = quantization.text(key)
    name = value.rpartition(".")[2].upper() if value else None
    return None if name in {None, "NO_QUANT", "NONE"} else name


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_NUMBER
    return float(value) if known else None


def _largest(model: Fields, key: str) -> int | None:
    """A number, or the largest of one per layer (DeciLM)."""
    value = model.data.get(key)
    if isinstance(value, list):
        numbers = [item for item in value if type(item) is int and item <= MOST]
        return max(numbers, default=None)
    return model.whole(key)


def _built_on(build: Fields) -> str | None:
    section = build.data.get("auto_parallel_config")
    key = section.get("cluster_key") if isinstance(section, dict) else None
    return key if isinstance(key, str) and key else None


def _absent(folder: Path) -> str:
    if not folder.exists():
        return "there is no such folder"
    if not folder.is_dir():
        return "is a file, an engine is a folder"
    return "is empty" if not any(folder.iterdir()) else f"is not an engine folder: it has no {CONFIG}"


def _where(folder: Path) -> str:
    path = folder / CONFIG
    return str(path) if os.access(path, os.F_OK) else str(folder)


def _listed(problems: Sequence[Problem]) -> str:
    if len(problems) == 1:
        return str(problems[0])
    return f"{len(problems)} problems: " + "; ".join(str(problem) for problem in problems)
