"""Facts from config.json and generation_config.json, whatever a model family calls its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.checkpoints.reading import REFETCH, read_document
from trtspec.errors import CheckpointError

__all__ = ["ModelConfig", "RopeScaling", "id_list", "parse_config", "read_config", "read_generation_ends"]

# field → the names that model families use for it, the usual one first
_NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_positions": ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"),
}
# kinds that stretch positions beyond the length in the config; others are already counted in it
_STRETCHING = ("linear", "dynamic", "yarn")
# Gemma 3 writes a linear factor for its global layers; its length already counts it
_LENGTH_COUNTS_FACTOR = ("gemma3", "gemma3_text")
_OLD_KINDS = {"su": "longrope"}


@dataclass(frozen=True)
class RopeScaling:
    """How rotary positions are scaled: kind (None: not given), its fields, and where they stand in config.json."""

    kind: str | None
    fields: Mapping[str, Any]
    where: str


@dataclass(frozen=True)
class ModelConfig:
    """What config.json says; None is what it leaves to the model family's defaults."""

    architecture: str | None
    model_type: str | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    vocab_size: int | None
    max_positions: int | None
    rope: tuple[RopeScaling, ...]
    tied: bool | None
    dtype: str | None
    end_ids: tuple[int, ...]
    bos_ids: tuple[int, ...]
    remote_code: bool
    quantization: str | None
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
    """The facts of `folder`/config.json; CheckpointError when it is missing or malformed."""
    path = folder / "config.json"
    return parse_config(read_document(path), str(path))


def parse_config(data: Mapping[str, Any], where: str) -> ModelConfig:
    """The facts in a config.json; values of the wrong type raise CheckpointError naming the key."""
    inner = _language_part(data, where)
    sizes = {name: _size(inner, keys, where) for name, keys in _NAMES.items()}
    # GPT-BigCode and Falcon say "one KV head" with a flag
    if sizes["kv_heads"] is None:
        sizes["kv_heads"] = 1 if inner.get("multi_query") is True else sizes["heads"]
    tied = data.get("tie_word_embeddings", inner.get("tie_word_embeddings"))
    return ModelConfig(
        architecture=_architecture(data, where),
        model_type=_text(inner.get("model_type")) or _text(data.get("model_type")),
        **sizes,
        rope=_rope(inner, where),
        tied=tied if isinstance(tied, bool) else None,
        dtype=_dtype(data) or _dtype(inner),
        end_ids=id_list(inner.get("eos_token_id", data.get("eos_token_id")), "eos_token_id", where),
        bos_ids=id_list(inner.get("bos_token_id", data.get("bos_token_id")), "bos_token_id", where),
        remote_code=bool(data.get("auto_map")),
        quantization=_quantization(data),
        transformers_version=_text(data.get("transformers_version")),
        data=data,
    )


def _language_part(data: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The language model's section: the whole of it, or `text_config` of a model with several parts."""
    inner = data.get("text_config", data.get("llm_config"))
    if inner is None:
        return data
    if not isinstance(inner, dict):
        raise _malformed("text_config", inner, "an object", where)
    return inner


def _malformed(key: str, value: Any, expected: str, where: str) -> CheckpointError:
    shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
    return CheckpointError(f"{key} is {shown}, {expected} is expected", where=where, fix=REFETCH)


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
        return value
    return None


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


def _quantization(data: Mapping[str, Any]) -> str | None:
    section = data.get("quantization_config")
    if not isinstance(section, dict):
        return None
    return _text(section.get("quant_method")) or _text(section.get("quant_algo")) or "unnamed"


def id_list(value: Any, key: str, where: str) -> tuple[int, ...]:
    """Token ids given as one number, a list of them or nothing."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(item) is not int for item in items):
        raise _malformed(key, value, "a token id or a list of them", where)
    return tuple(dict.fromkeys(items))


def _rope(data: Mapping[str, Any], where: str) -> tuple[RopeScaling, ...]:
    """Scaling from `rope_scaling` (until transformers 4) or `rope_parameters` (5), per layer kind where nested."""
    found = []
    for key in ("rope_parameters", "rope_scaling"):
        section = data.get(key)
        if section is None or section == {}:
            continue
        if not isinstance(section, dict):
            raise _malformed(key, section, "an object", where)
        nested = {name: part for name, part in section.items() if isinstance(part, dict)}
        parts = nested if nested and len(nested) == len(section) else {"": section}
        found += [_scaling(f"{key}.{name}".rstrip("."), part, data) for name, part in parts.items()]
        break  # a file that carries both was written for old and new readers: they say the same
    return tuple(scaling for scaling in found if scaling.kind != "default")


def _scaling(where: str, part: Mapping[str, Any], config: Mapping[str, Any]) -> RopeScaling:
    kind = part.get("rope_type", part.get("type"))
    if kind == "default" and "mrope_section" in part:
        kind = "mrope"
    if kind is None and where.startswith("rope_parameters") and not part.keys() - _PLAIN_ROPE:
        kind = "default"
    fields = {key: value for key, value in part.items() if key not in ("rope_type", "type")}
    # Phi-3 keeps this one beside the section
    if "original_max_position_embeddings" not in fields and "original_max_position_embeddings" in config:
        fields["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    name = _text(kind)
    return RopeScaling(_OLD_KINDS.get(name, name) if name else None, fields, where)


_PLAIN_ROPE = {"rope_theta", "partial_rotary_factor"}


def read_generation_ends(folder: Path, names: list[str]) -> tuple[int, ...] | None:
    """`eos_token_id` of generation_config.json as a tuple; None when the file is not there."""
    if "generation_config.json" not in names:
        return None
    path = folder / "generation_config.json"
    return id_list(read_document(path).get("eos_token_id"), "eos_token_id", str(path))
