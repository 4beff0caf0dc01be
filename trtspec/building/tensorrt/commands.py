"""The commands that make an engine, as data: what to run, in which environment, and which files must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trtspec.building.tensorrt.build_command import build_argv
from trtspec.building.tensorrt.convert import convert_argv, convert_env
from trtspec.building.tensorrt.quantize import quantize_argv
from trtspec.building.tensorrt.request import EngineRequest
from trtspec.building.tensorrt.tools import Tools

__all__ = ["Command", "Stage", "build_commands", "checkpoint_commands"]

Stage = Literal["convert", "quantize", "build", "inspect"]


@dataclass(frozen=True)
class Command:
    """One program to run; `outputs` are the files that it must leave in its output folder."""

    stage: Stage
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def checkpoint_commands(request: EngineRequest, source: str, output: str, tools: Tools) -> tuple[Command, ...]:
    """What turns the Hugging Face folder `source` into the TensorRT-LLM checkpoint `output`, all ranks in one run.

    Nothing in it depends on the role: roles of the same checkpoint, precision and ranks share one.
    """
    outputs = ("config.json", *(f"rank{rank}.safetensors" for rank in range(request.world_size)))
    if request.precision.route == "quantizer":
        return (Command("quantize", quantize_argv(request, source, output, tools), {}, outputs),)
    return (Command("convert", convert_argv(request, source, output, tools), convert_env(request), outputs),)


def build_commands(request: EngineRequest, checkpoint: str, output: str, tools: Tools) -> tuple[Command, ...]:
    """What builds the engine of `request` from its TensorRT-LLM checkpoint into `output`, all ranks in one run."""
    ranks = range(request.world_size)
    outputs = ["config.json", *(f"rank{rank}.engine" for rank in ranks)]
    if request.fast_build:
        outputs += [f"rank{rank}_managed_weights.safetensors" for rank in ranks]
    return (Command("build", build_argv(request, checkpoint, output, tools), {}, tuple(outputs)),)
