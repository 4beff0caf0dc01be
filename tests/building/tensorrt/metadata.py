"""Checkpoint folders without weights: config.json of a real model, index, tokenizer and generation config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.builders import tiny_tokenizer_files
from tests.building.tensorrt.stand_in import FACTS
from trtspec.spec import SpecFile, load_spec

__all__ = ["metadata_folder", "pair_spec", "real_config"]


def real_config(model: str) -> dict[str, Any]:
    """config.json of a model in tests/facts/configs."""
    config: dict[str, Any] = json.loads((FACTS / "configs" / f"{model}.json").read_text(encoding="utf-8"))
    return config


def metadata_folder(folder: Path, config: dict[str, Any], shards: int = 4) -> Path:
    """All of a checkpoint but its weight files; the tokenizer is a small one, the same for every model."""
    folder.mkdir(parents=True)
    tiny_tokenizer_files(folder)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id") if key in config}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    shapes = dict(_shapes(config))
    names = sorted(shapes)
    files = [f"model-{index + 1:05d}-of-{shards:05d}.safetensors" for index in range(shards)]
    index = {
        "metadata": {"total_size": sum(2 * rows * columns for rows, columns in shapes.values())},
        "weight_map": {name: files[index * shards // len(names)] for index, name in enumerate(names)},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    return folder


def _shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Name and shape (a vector is one row) of the tensors of a Llama, Qwen2 or Gemma 2."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim") or hidden // heads
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    yield "model.norm.weight", (1, hidden)
    if config.get("tie_word_embeddings", True) is False:
        yield "lm_head.weight", (config["vocab_size"], hidden)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] == "gemma2":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            yield f"{prefix}self_attn.{name}_proj.weight", (rows * head, hidden)
            if config["model_type"] == "qwen2":
                yield f"{prefix}self_attn.{name}_proj.bias", (1, rows * head)
        yield f"{prefix}self_attn.o_proj.weight", (hidden, heads * head)
        for name, shape in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            yield f"{prefix}mlp.{name}_proj.weight", shape
        for norm in norms:
            yield f"{prefix}{norm}.weight", (1, hidden)


def pair_spec(
    folder: Path,
    target: str | dict[str, Any],
    draft: str | dict[str, Any],
    *,
    target_options: dict[str, Any] | None = None,
    draft_options: dict[str, Any] | None = None,
    **overrides: Any,
) -> SpecFile:
    """A spec for two models (names in tests/facts/configs, or configs) whose folders lie beside it."""
    for role, model in (("target", target), ("draft", draft)):
        metadata_folder(folder / role, real_config(model) if isinstance(model, str) else model)
    data: dict[str, Any] = {
        "version": 1,
        "name": "pair",
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": "target", **(target_options or {})},
        "draft": {"checkpoint": "draft", **(draft_options or {})},
        **overrides,
    }
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_spec(path)
