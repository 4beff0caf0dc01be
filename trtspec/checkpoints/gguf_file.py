"""Facts from a GGUF file: configuration, tensors and tokenizer from its metadata, read with the `gguf` package."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.checkpoints.config import ModelConfig
from trtspec.checkpoints.geometry import windowed_layers
from trtspec.checkpoints.merges import merges_key
from trtspec.checkpoints.reading import REFETCH, not_readable, open_file
from trtspec.checkpoints.tensors import Tensor
from trtspec.checkpoints.tokenizer_facts import TokenizerFacts
from trtspec.errors import CheckpointError, EnvironmentMissing

__all__ = ["GgufFile", "gguf_config", "gguf_tokenizer", "read_gguf"]

# GGUF's general.architecture → the Hugging Face class that transformers makes of it
_CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
    "qwen2moe": "Qwen2MoeForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen3moe": "Qwen3MoeForCausalLM",
    "phi3": "Phi3ForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3": "Gemma3ForCausalLM", "gpt2": "GPT2LMHeadModel",
    "falcon": "FalconForCausalLM", "bloom": "BloomForCausalLM", "starcoder2": "Starcoder2ForCausalLM",
    "stablelm": "StableLmForCausalLM", "nemotron": "NemotronForCausalLM", "mamba": "MambaForCausalLM",
}  # fmt: skip
_CONTROL, _USER_DEFINED = 3, 4  # tokenizer.ggml.token_type
# no model has more, as in `config`: layers are looked at one by one
_MOST = {"block_count": 1 << 14, "context_length": 1 << 63, "attention.sliding_window": 1 << 63}
_MOST_OTHERS = 1 << 31
_ENDS = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")


@dataclass(frozen=True)
class GgufFile:
    """Metadata (key → value, arrays as lists) and tensors of a GGUF file."""

    path: Path
    metadata: Mapping[str, Any] = field(repr=False)
    tensors: tuple[Tensor, ...] = field(repr=False)


_cache: dict[tuple[str, int, int], GgufFile] = {}


def read_gguf(path: Path) -> GgufFile:
    """Metadata and tensors of `path`; CheckpointError when it is damaged, EnvironmentMissing without `gguf`."""
    try:
        status = path.stat()
        with open_file(path) as stream:
            magic = stream.read(4)
    except OSError as error:
        raise not_readable(path, error) from None
    if magic != b"GGUF":
        raise CheckpointError("is not a GGUF file", where=str(path), fix=REFETCH)
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if key not in _cache:
        _cache.clear()  # one file at a time: the parts of a checkpoint are read one after the other
        _cache[key] = _read(path, status.st_size)
    return _cache[key]


def _read(path: Path, size: int) -> GgufFile:
    try:
        import gguf
    except ImportError:
        message = f"reading {path.name} needs the package gguf"
        raise EnvironmentMissing(message, where=str(path), fix="pip install 'trtspec[local]'") from None
    try:
        reader = gguf.GGUFReader(path)
        metadata = {name: item.contents() for name, item in reader.fields.items() if not name.startswith("GGUF.")}
        tensors = tuple(_tensor(item, path.name) for item in reader.tensors)
        end = max((int(item.data_offset + item.n_bytes) for item in reader.tensors), default=0)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError, OSError, struct.error) as error:
        raise CheckpointError(f"is cut off or damaged: {error}", where=str(path), fix=REFETCH) from None
    if end > size:
        raise CheckpointError(f"is cut off: {size} of {end} bytes are there", where=str(path), fix=REFETCH)
    return GgufFile(path, metadata, tensors)


def _tensor(item: Any, file: str) -> Tensor:
    # GGUF writes the fastest dimension first
    shape = tuple(int(size) for size in reversed(item.shape.tolist()))
    return Tensor(str(item.name), shape, str(item.tensor_type.name), int(item.n_bytes), file)


def gguf_config(file: GgufFile) -> ModelConfig:
    """The configuration that a GGUF file's metadata states."""
    family = str(file.metadata.get("general.architecture", ""))

    def size(key: str) -> int | None:
        value = file.metadata.get(f"{family}.{key}")
        if isinstance(value, list):  # a value per layer
            value = max((item for item in value if type(item) is int), default=None)
        if type(value) is not int or value < 1:
            return None
        if value > _MOST.get(key, _MOST_OTHERS):
            raise CheckpointError(f"{family}.{key} is {value}, more than any model has", where=str(file.path))
        return value

    def number(key: str) -> float | None:
        value = file.metadata.get(f"{family}.{key}")
        return float(value) if isinstance(value, (int, float)) else None

    heads, hidden, layers = size("attention.head_count"), size("embedding_length"), size("block_count")
    window, experts = size("attention.sliding_window"), size("expert_count")
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    bos = _id(file, "tokenizer.ggml.bos_token_id")
    return ModelConfig(
        architecture=_CLASSES.get(family, f"gguf:{family}"),
        model_type=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=size("attention.head_count_kv") or heads,
        vocab_size=size("vocab_size") or (len(tokens) if isinstance(tokens, list) else None),
        max_positions=size("context_length"),
        rope=(),
        rope_theta=number("rope.freq_base"),
        rope_local_theta=None,
        partial_rotary_factor=None,
        head_dim=size("attention.key_length") or (hidden // heads or None if hidden and heads else None),
        intermediate=size("feed_forward_length"),
        sliding_window=window,
        windowed_layers=windowed_layers({"model_type": family}, layers) if window else None,
        experts=experts,
        dense_layers=(size("leading_dense_block_count") or 0) if experts else None,
        experts_per_token=size("expert_used_count"),
        moe_intermediate=size("expert_feed_forward_length"),
        shared_intermediate=size("expert_shared_feed_forward_length"),
        tied=not any(tensor.name == "output.weight" for tensor in file.tensors),
        dtype=None,
        end_ids=tuple(dict.fromkeys(end for key in _ENDS if (end := _id(file, key)) is not None)),
        bos_ids=() if bos is None else (bos,),
        remote_code=False,
        quantization=None,
        quant=None,
        gated_mlp=any(".ffn_gate" in tensor.name for tensor in file.tensors),
        transformers_version=None,
        data={},
    )


def _id(file: GgufFile, key: str) -> int | None:
    """The token id under `key`; None when there is none, CheckpointError for another value."""
    value = file.metadata.get(key)
    if value is not None and type(value) is not int:
        raise CheckpointError(f"{key} is {value!r:.40}, a token id is expected", where=str(file.path), fix=REFETCH)
    return value


def gguf_tokenizer(file: GgufFile) -> TokenizerFacts:
    """The tokenizer in a GGUF file's metadata; CheckpointError when it carries none."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        fix = "put the model's tokenizer.json and tokenizer_config.json beside it"
        raise CheckpointError("carries no tokenizer", where=str(file.path), fix=fix)
    listed = file.metadata.get("tokenizer.ggml.token_type")
    kinds = listed if isinstance(listed, list) else []
    merges = file.metadata.get("tokenizer.ggml.merges")
    return TokenizerFacts(
        source=file.path.name,
        kind=str(file.metadata.get("tokenizer.ggml.model", "unknown")),
        # converters fill padded vocabulary rows with [PAD123]: rows, not tokens
        tokens={index: text for index, text in enumerate(tokens) if text != f"[PAD{index}]"},
        special=frozenset(index for index, kind in enumerate(kinds) if kind == _CONTROL),
        added=frozenset(index for index, kind in enumerate(kinds) if kind in (_CONTROL, _USER_DEFINED)),
        duplicates=(),
        merges=merges_key(merges) if isinstance(merges, list) else None,
        pre_tokenizer=None,
        normalizer=None,
        bos_id=_id(file, "tokenizer.ggml.bos_token_id"),
        end_id=_id(file, _ENDS[0]),
        adds_bos=bool(file.metadata.get("tokenizer.ggml.add_bos_token", False)),
    )
