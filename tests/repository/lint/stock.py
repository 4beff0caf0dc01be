"""Repositories as NVIDIA's templates give them once filled in, for any release, with whatever is to be wrong in them.

Tensors and parameters are those of the facts files, not of the product's tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInstanceGroup

from tests.building.inspection.engines import engine_folder

__all__ = ["BATCH", "Stock", "stock_repository"]

FACTS = Path(__file__).parents[2] / "facts"
BATCH = 8
FULL = {"0.19": "0.19.0", "0.20": "0.20.0", "0.21": "0.21.0", "1.0": "1.0.0", "1.1": "1.1.0", "1.2": "1.2.1"}
_PLAIN: dict[str, Any] = {"build_config__speculative_decoding_mode": 1, "build_config__max_draft_len": 0}
_TYPES = {
    "logits": "FP32",
    "prompt_table": "FP16",
    "prompt table": "FP16",
    "prompt_embedding_table": "FP16",
    "encoder_input_features": "FP16",
}


@dataclass(frozen=True)
class Stock:
    """A repository on disk, and how its files are changed."""

    folder: Path
    engines: Path

    def text(self, model: str) -> str:
        return (self.folder / model / "config.pbtxt").read_text()

    def write(self, model: str, text: str) -> None:
        (self.folder / model / "config.pbtxt").write_text(text)

    def replace(self, model: str, old: str, new: str) -> None:
        text = self.text(model)
        assert old in text, f"{old!r} is not in {model}"
        self.write(model, text.replace(old, new))

    def config(self, model: str) -> Any:
        return text_format.Parse(self.text(model), ModelConfig())

    def save(self, model: str, config: Any) -> None:
        self.write(model, text_format.MessageToString(config))

    def set(self, model: str, **parameters: str | None) -> None:
        """Give parameters a value, or take them out (None)."""
        config = self.config(model)
        for key, value in parameters.items():
            if value is None:
                del config.parameters[key]
            else:
                config.parameters[key].string_value = value
        self.save(model, config)

    def drop(self, model: str, side: str, name: str) -> None:
        """Take a tensor out."""
        config = self.config(model)
        tensors = getattr(config, side)
        kept = [tensor for tensor in tensors if tensor.name != name]
        assert len(kept) < len(tensors)
        del tensors[:]
        tensors.extend(kept)
        self.save(model, config)

    def retype(self, model: str, name: str, type_: str) -> None:
        """Give a tensor another type, on whichever side it is."""
        config = self.config(model)
        found = [tensor for side in (config.input, config.output) for tensor in side if tensor.name == name]
        assert found
        for tensor in found:
            tensor.data_type = DataType.Value(type_)
        self.save(model, config)

    def rebuild(self, role: str, version: str = "1.2.1", **changes: Any) -> None:
        """Another engine in the place of one."""
        folder = self.engines / role
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        engine_folder(folder, version, **({} if role == "target" else _PLAIN), **changes)


def stock_repository(root: Path, version: str = "1.2", *, draft: bool = True) -> Stock:
    """The models of a walk-through done right: GPU 0 for the target, GPU 1 for the draft, eight BLS instances."""
    made = Stock(root / "repository", root / "engines")
    engine_folder(made.engines / "target", FULL[version], **({} if draft else _PLAIN))
    leaves = {"tensorrt_llm": ("target", "0")}
    if draft:
        engine_folder(made.engines / "draft", FULL[version], build_config__max_seq_len=8192, **_PLAIN)
        leaves["tensorrt_llm_draft"] = ("draft", "1")
    for name, (role, gpu) in leaves.items():
        _write(made, _leaf(name, version, {"gpt_model_path": str(made.engines / role), "gpu_device_ids": gpu}))
    facts = json.loads((FACTS / "triton_stock_models.json").read_text())
    for name in ("preprocessing", "postprocessing", "tensorrt_llm_bls", "ensemble"):
        _write(made, _python(name, facts[name], version, draft=draft))
    return made


def _write(made: Stock, config: Any) -> None:
    folder = made.folder / config.name / "1"
    folder.mkdir(parents=True)
    if config.backend == "python":
        (folder / "model.py").write_text("# NVIDIA's\n")
    made.save(config.name, config)


def _leaf(name: str, version: str, given: Mapping[str, str]) -> Any:
    facts = json.loads((FACTS / f"triton_model_{version}.json").read_text())
    config = ModelConfig(name=name, backend="tensorrtllm", max_batch_size=BATCH)
    _tensors(config, facts, version)
    config.dynamic_batching.preferred_batch_size.append(BATCH)
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    values = {
        "gpt_model_type": "inflight_fused_batching",
        "kv_cache_free_gpu_mem_fraction": "0.9",
        "enable_kv_cache_reuse": "true",
        **given,
    }
    for key, row in facts["parameters"].items():
        if row["template"]:
            config.parameters[key].string_value = values.get(key, row["default"] or "")
    return config


def _python(name: str, facts: Mapping[str, Any], version: str, *, draft: bool) -> Any:
    config = ModelConfig(name=name, max_batch_size=BATCH)
    _tensors(config, facts, version)
    if name == "ensemble":
        config.platform = "ensemble"
        _steps(config, facts["steps"], version)
        return config
    config.backend = "python"
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=BATCH if name.endswith("bls") else 1)
    values = {
        "tokenizer_dir": "/models/tokenizer",
        "tensorrt_llm_model_name": "tensorrt_llm",
        "tensorrt_llm_draft_model_name": "tensorrt_llm_draft" if draft else "",
    }
    for key in facts["parameters"]:
        config.parameters[key].string_value = values.get(key, "")
    return config


def _steps(config: Any, steps: Iterable[Mapping[str, Any]], version: str) -> None:
    renamed = {"min_tokens": "min_length", "seed": "random_seed"} if version == "0.19" else {}
    left_out = {name for name in _NUMBERS if not _has(version, "since 1.0")}
    for step in steps:
        made = config.ensemble_scheduling.step.add(model_name=step["model"], model_version=-1)
        for side, kind in ((made.input_map, "inputs"), (made.output_map, "outputs")):
            for key, value in step[kind].items():
                if key not in left_out:
                    side[renamed.get(key, key)] = renamed.get(value, value)


_NUMBERS = ("return_num_input_tokens", "return_num_output_tokens", "num_input_tokens", "num_output_tokens")


def _tensors(config: Any, facts: Mapping[str, Any], version: str) -> None:
    for side, made in (("inputs", config.input), ("outputs", config.output)):
        for name, type_, dims, *rest in facts[side]:
            flags, when = (*rest, "", "")[:2]
            if not _has(version, when):
                continue
            tensor = made.add(name=name, data_type=DataType.Value(f"TYPE_{_TYPES.get(type_, type_)}"), dims=dims)
            if "optional" in flags:
                tensor.optional = True
            if "ragged" in flags:
                tensor.allow_ragged_batch = True
            if "scalar" in flags:
                tensor.reshape.SetInParent()


def _has(version: str, when: str) -> bool:
    if not when:
        return True
    word, other = when.split()
    mine, bound = ([int(part) for part in text.split(".")] for text in (version, other))
    return mine >= bound if word == "since" else mine <= bound
