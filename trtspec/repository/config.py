"""config.pbtxt as a protobuf message: built, written as text, and read back before anything is written to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.repository.tensors import Tensor

__all__ = ["ModelSpec", "model_config", "pbtxt"]

_HEADER = "# Written by trtspec repo; it writes this file again, so change trtspec.yaml instead.\n"
_QUEUE = 0  # no limit: requests go to the executor at once, which would refuse beyond the same number


@dataclass(frozen=True)
class ModelSpec:
    """What a generated model's config.pbtxt says: a decoupled model with one instance on the CPU.

    Where its tensors live on a GPU is the model's own affair (for engines a parameter); Triton hands inputs over in
    host memory. batching: Triton may put requests together, up to max_batch_size; off for models that take requests
    one by one.
    """

    name: str
    max_batch_size: int
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    parameters: Mapping[str, str]
    backend: str = "python"
    batching: bool = False


def model_config(spec: ModelSpec) -> Any:
    """The `ModelConfig` message of `spec`."""
    from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

    config = ModelConfig(name=spec.name, backend=spec.backend, max_batch_size=spec.max_batch_size)
    # on in every model: frontend and leaves stream, and each calls the next one in the same way
    config.model_transaction_policy.decoupled = True
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    if spec.batching:
        config.dynamic_batching.preferred_batch_size.append(spec.max_batch_size)
        config.dynamic_batching.default_queue_policy.max_queue_size = _QUEUE
    for tensor in spec.inputs:
        _fill(config.input.add(), tensor)
    for tensor in spec.outputs:
        config.output.add(name=tensor.name, data_type=tensor.type, dims=tensor.dims)
    for key, value in spec.parameters.items():
        config.parameters[key].string_value = value
    return config


def _fill(made: Any, tensor: Tensor) -> None:
    from tritonclient.grpc.model_config_pb2 import DataType

    made.name, made.data_type = tensor.name, DataType.Value(tensor.type)
    made.dims.extend(tensor.dims)
    if tensor.optional:
        made.optional = True
    if tensor.ragged:
        made.allow_ragged_batch = True
    if tensor.scalar:
        made.reshape.SetInParent()  # to []: the batch dimension alone


def pbtxt(config: Any) -> str:
    """`config` as the text of config.pbtxt: the same bytes every time, and proven to parse back to the same message."""
    from google.protobuf import text_format

    text: str = _HEADER + text_format.MessageToString(config, as_utf8=True)
    parsed = text_format.Parse(text, type(config)())
    if parsed != config:
        raise AssertionError(f"config.pbtxt of {config.name} does not parse back to what was written")
    return text
