"""A TensorRT-LLM checkpoint folder of the right shape from a Hugging Face config.json, without its weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.building.tensorrt.stand_in.behaviour import Stage, write_slowly, write_tensors

__all__ = ["Parallel", "checkpoint_config", "hugging_face_config", "resolved_dtype", "write_checkpoint"]


@dataclass(frozen=True)
class Parallel:
    """Ranks of a checkpoint; moe sizes of -1 are left to the converter: tensor parallel experts."""

    tp: int = 1
    pp: int = 1
    moe_tp: int = -1
    moe_ep: int = -1

    def mapping(self) -> dict[str, int]:
        """As it stands in config.json; AssertionError for expert sizes that do not multiply to tp."""
        moe_tp, moe_ep = self.moe_tp, self.moe_ep
        if moe_tp == -1:
            moe_tp = self.tp // moe_ep if moe_ep != -1 else self.tp
        if moe_ep == -1:
            moe_ep = self.tp // moe_tp
        assert moe_tp * moe_ep == self.tp, f"tp_size must equal to moe_tp_size * moe_ep_size, but got {self}"
        return {
            "world_size": self.tp * self.pp, "tp_size": self.tp, "pp_size": self.pp, "cp_size": 1,
            "moe_tp_size": moe_tp, "moe_ep_size": moe_ep,
        }  # fmt: skip


def hugging_face_config(folder: str) -> dict[str, Any]:
    """config.json of a Hugging Face folder, the language model's part."""
    data: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    return {**data, **data.get("text_config", {}), "architectures": data["architectures"]}


def resolved_dtype(dtype: str, config: dict[str, Any]) -> str:
    """`auto` is the checkpoint's own type; float32 becomes float16, as the converters do."""
    if dtype != "auto":
        return dtype
    own = str(config.get("torch_dtype") or config.get("dtype") or "float16").removeprefix("torch.")
    return "float16" if own == "float32" else own


def checkpoint_config(config: dict[str, Any], dtype: str, parallel: Parallel, quant: dict[str, Any]) -> dict[str, Any]:
    """config.json of a checkpoint; AssertionError where the ranks do not divide the model."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    inner = config.get("intermediate_size") or 4 * config["hidden_size"]
    assert heads % parallel.tp == 0, f"num_attention_heads {heads} must be divisible by tp_size {parallel.tp}"
    assert kv_heads % parallel.tp == 0 or parallel.tp % kv_heads == 0, f"kv heads {kv_heads}, tp {parallel.tp}"
    assert inner % parallel.tp == 0, f"intermediate_size {inner} must be divisible by tp_size {parallel.tp}"
    assert config["num_hidden_layers"] >= parallel.pp, "more pipeline ranks than layers"
    return {
        "architecture": config["architectures"][0],
        "dtype": dtype,
        "logits_dtype": "float32",
        "vocab_size": config["vocab_size"],
        "max_position_embeddings": config.get("max_position_embeddings"),
        "hidden_size": config["hidden_size"],
        "num_hidden_layers": config["num_hidden_layers"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_size": config.get("head_dim") or config["hidden_size"] // heads,
        "intermediate_size": inner,
        "norm_epsilon": config.get("rms_norm_eps", 1e-5),
        "position_embedding_type": "rope_gpt_neox",
        "rotary_base": config.get("rope_theta", 10000.0),
        "rotary_scaling": config.get("rope_scaling"),
        "use_parallel_embedding": False,
        "embedding_sharding_dim": 0,
        "mapping": parallel.mapping(),
        "quantization": {
            "quant_algo": None, "kv_cache_quant_algo": None, "group_size": 128, "smoothquant_val": 0.5,
            "clamp_val": None, "use_meta_recipe": False, "has_zero_point": False, "pre_quant_scale": False,
            "exclude_modules": None, "mamba_ssm_cache_dtype": None, **quant,
        },
    }  # fmt: skip


def write_checkpoint(stage: Stage, folder: Path, config: dict[str, Any]) -> None:
    """config.json and one rankN.safetensors per rank."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"transformer.layers.{layer}.attention.qkv.weight" for layer in range(config["num_hidden_layers"])]
    names += ["transformer.vocab_embedding.weight", "transformer.ln_f.weight", "lm_head.weight"]
    ranks = range(config["mapping"]["world_size"])

    def whole() -> None:
        (folder / "config.json").write_text(json.dumps(config, indent=4), encoding="utf-8")
        for rank in ranks:
            write_tensors(folder / f"rank{rank}.safetensors", names)

    write_slowly(stage, lambda: write_tensors(folder / "rank0.safetensors", names[:1]), whole)
