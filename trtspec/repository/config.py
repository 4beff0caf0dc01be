"""config.pbtxt as a protobuf message: built, written as text, and read back before anything is written to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.repository.tensors import Tensor

__all__ = ["ModelSpec", "model_config", "pbtxt"]

_HEADER = "# Written by trtspec repo; it writes this file again, so change trtspec.yaml instead.\n"


@dataclass(frozen=True)
class ModelSpec:
    """What a generated model's config.pbtxt says: a decoupled Python model with one instance on the CPU.

    Where its tensors live on a GPU is the model's own affair; Triton hands inputs over in host memory.
    """

    name: str
    max_batch_size: int
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    parameters: Mapping[str, str]


def model_config(spec: ModelSpec) -> Any:
    """The `ModelConfig` message of `spec`."""
    from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

    config = ModelConfig(name=spec.name, backend="python", max_batch_size=spec.max_batch_size)
    config.model_transaction_policy.decoupled = True
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    for tensor in spec.inputs:
        made = config.input.add(name=tensor.name, data_type=tensor.type, dims=tensor.dims)
        if tensor.optional:
            made.optional = True
    for tensor in spec.outputs:
        config.output.add(name=tensor.name, data_type=tensor.type, dims=tensor.dims)
    for key, value in spec.parameters.items():
        config.parameters[key].string_value = value
    return config


def pbtxt(config: Any) -> str:
    """`config` as the text of config.pbtxt: the same bytes every time, and proven to parse back to the same message."""
    from google.protobuf import text_format

    text: str = _HEADER + text_format.MessageToString(config, as_utf8=True)
    parsed = text_format.Parse(text, type(config)())
    if parsed != config:
        raise AssertionError(f"config.pbtxt of {config.name} does not parse back to what was written")
    return text
