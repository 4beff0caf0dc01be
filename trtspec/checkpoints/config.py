"""Facts from config.json and generation_config.json, whatever a model family calls its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trtspec.checkpoints.families import family_of
from trtspec.checkpoints.geometry import Geometry, read_geometry, unnested
from trtspec.checkpoints.quantization import HF_QUANT, QuantizationFacts, read_modelopt, read_quantization
from trtspec.checkpoints.reading import REFETCH, read_document
from trtspec.checkpoints.rope import RopeFacts, RopeScaling, read_rope
from trtspec.errors import CheckpointError

__all__ = [
    "ModelConfig",
    "RopeScaling",
    "id_list",
    "language_part",
    "parse_config",
    "read_config",
    "read_generation_ends",
]

# field → the names that model families use for it, the usual one first
_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "multi_query_group_num",
        "kv_n_heads",
    ),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_positions": ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"),
}
# no size is larger: of layers (each is looked at), of positions (some files write the largest integer), of any other
_MOST_LAYERS, _MOST_POSITIONS, _MOST = 1 << 14, 1 << 63, 1 << 31
# kinds that stretch positions beyond the length in the config; others are already counted in it
_STRETCHING = ("linear", "dynamic", "yarn")
# Gemma 3 writes a linear factor for its global layers; its length already counts it
_LENGTH_COUNTS_FACTOR = ("gemma3", "gemma3_text")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Geometry, RopeFacts):
    """What config.json says; None is what it leaves to the model family's defaults.

    `gated_mlp` comes from the family (three MLP matrices, not two); `quant` are the facts behind `quantization`.
    """

    architecture: str | None
    model_type: str | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    vocab_size: int | None
    max_positions: int | None
    tied: bool | None
    dtype: str | None
    end_ids: tuple[int, ...]
    bos_ids: tuple[int, ...]
    remote_code: bool
    quantization: str | None
    quant: QuantizationFacts | None
    gated_mlp: bool | None
    transformers_version: str | None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def usable_positions(self) -> int | None:
        """Positions that the model may use: `max_positions`, stretched where the rope scaling does it.

        Linear, dynamic and yarn scaling multiply by their factor, from `original_max_position_embeddings` where it is
        given; llama3, longrope and others already stand in `max_position_embeddings`.
        """
        if self.max_positions is None or self.model_type in _LENGTH_COUNTS_FACTOR or len(self.rope) != 1:
            return self.max_positions
        scaling = self.rope[0]
        factor = scaling.fields.get("factor")
        if scaling.kind not in _STRETCHING or not isinstance(factor, (int, float)) or not 1 <= factor < 1e6:
            return self.max_positions
        original = scaling.fields.get("original_max_position_embeddings")
        base = original if isinstance(original, int) else self.max_positions
        return max(self.max_positions, int(base * factor))


def read_config(folder: Path) -> ModelConfig:
    """The facts of `folder`/config.json, and of hf_quant_config.json where that is; CheckpointError for faults."""
    path = folder / "config.json"
    config = parse_config(read_document(path), str(path))
    if config.quant is not None or not (folder / HF_QUANT).exists():
        return config
    quant = read_modelopt(read_document(folder / HF_QUANT))
    return replace(config, quant=quant, quantization=quant.method if quant else None)


def parse_config(data: Mapping[str, Any], where: str) -> ModelConfig:
    """The facts in a config.json; values of the wrong type raise CheckpointError naming the key."""
    inner = unnested(language_part(data, where))
    model_type = _text(inner.get("model_type")) or _text(data.get("model_type"))
    architecture = _architecture(data, where)
    family = family_of(architecture, model_type)
    sizes = _sizes(inner, where)
    geometry = read_geometry(inner, lambda *keys: _size(inner, keys, where), sizes)
    if geometry.layer_kv_heads:
        sizes["kv_heads"] = max(geometry.layer_kv_heads) or sizes["kv_heads"]
    rope = read_rope(inner, geometry.head_dim, lambda key, value, wanted: _malformed(key, value, wanted, where))
    tied = data.get("tie_word_embeddings", inner.get("tie_word_embeddings"))
    quant = read_quantization(data)
    return ModelConfig(
        architecture=architecture,
        model_type=model_type,
        **sizes,  # type: ignore[arg-type]  # sizes by name
        **vars(geometry),
        **vars(rope),
        tied=tied if isinstance(tied, bool) else None,
        dtype=_dtype(data) or _dtype(inner),
        end_ids=id_list(inner.get("eos_token_id", data.get("eos_token_id")), "eos_token_id", where),
        bos_ids=id_list(inner.get("bos_token_id", data.get("bos_token_id")), "bos_token_id", where),
        remote_code=bool(data.get("auto_map")),
        quantization=quant.method if quant else None,
        quant=quant,
        gated_mlp=family.gated if family else None,
        transformers_version=_text(data.get("transformers_version")),
        data=data,
    )


def _sizes(inner: Mapping[str, Any], where: str) -> dict[str, int | None]:
    sizes = {name: _size(inner, keys, where) for name, keys in _NAMES.items()}
    # Falcon and GPT-BigCode say "one KV head" with a flag, whatever num_kv_heads is; Falcon's newer form does not
    if inner.get("multi_query") is True and inner.get("new_decoder_architecture") is not True:
        sizes["kv_heads"] = 1
    elif sizes["kv_heads"] is None or inner.get("multi_query_attention") is False:
        sizes["kv_heads"] = sizes["heads"]
    return sizes


def language_part(data: Mapping[str, Any], where: str = "config.json") -> Mapping[str, Any]:
    """The language model's section: the whole of it, or `text_config` of a model with several parts."""
    inner = data.get("text_config", data.get("llm_config"))
    if inner is None:
        return data
    if not isinstance(inner, dict):
        raise _malformed("text_config", inner, "an object", where)
    return inner


def _malformed(key: str, value: Any, expected: str, where: str) -> CheckpointError:
    shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
    return CheckpointError(f"{key} is {shown}, {expected} is expected", where=where, fix=REFETCH, code="malformed")


def _size(data: Mapping[str, Any], keys: tuple[str, ...], where: str) -> int | None:
    for key in keys:
        value = data.get(key)
        if value is None:
            continue
        if isinstance(value, list):  # a value per layer (DeciLM): the largest bounds them all
            numbers = [item for item in value if type(item) is int]
            value = max(numbers) if numbers else value
        if type(value) is not int or value < 1:
            raise _malformed(key, value, "a positive whole number", where)
        if value > _most(key):
            raise _malformed(key, value, f"at most {_most(key)}", where)
        return value
    return None


def _most(key: str) -> int:
    if key in _NAMES["layers"]:
        return _MOST_LAYERS
    return _MOST_POSITIONS if key in _NAMES["max_positions"] or "window" in key else _MOST


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _architecture(data: Mapping[str, Any], where: str) -> str | None:
    names = data.get("architectures")
    if names is None or names == []:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _malformed("architectures", names, "a list of class names", where)
    return str(names[0])


def _dtype(data: Mapping[str, Any]) -> str | None:
    """`dtype` (transformers 5) or `torch_dtype`, without a `torch.` in front."""
    value = _text(data.get("dtype")) or _text(data.get("torch_dtype"))
    return value.removeprefix("torch.") if value else None


def id_list(value: Any, key: str, where: str) -> tuple[int, ...]:
    """Token ids given as one number, a list of them or nothing."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(item) is not int for item in items):
        raise _malformed(key, value, "a token id or a list of them", where)
    return tuple(dict.fromkeys(items))


def read_generation_ends(folder: Path, names: list[str]) -> tuple[int, ...] | None:
    """`eos_token_id` of generation_config.json as a tuple; None when the file is not there."""
    if "generation_config.json" not in names:
        return None
    path = folder / "generation_config.json"
    return id_list(read_document(path).get("eos_token_id"), "eos_token_id", str(path))
