"""A request's inputs, free of any protocol, and their two encodings: KServe v2 message and `generate_stream` body."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from trtspec.errors import RequestFailed
from trtspec.wire.tensors import add_input

__all__ = ["EMPTY_FINAL", "FINAL", "Input", "generate_body", "infer_message"]

# An empty last response that only says "this was all": without it a stream cut off cleanly looks complete.
EMPTY_FINAL = "triton_enable_empty_final_response"
FINAL = "triton_final_response"


class Input(NamedTuple):
    """One input tensor."""

    name: str
    datatype: str
    values: Sequence[Any]
    many: bool = False  # a list also when it has one element


def infer_message(model: str, request_id: str, inputs: Iterable[Input], *, batched: bool = True) -> Any:
    """A `ModelInferRequest` that ends with an empty final response; shapes [1, n], or [n] where nothing is batched."""
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    message.parameters[EMPTY_FINAL].bool_param = True
    for tensor in inputs:
        add_input(message, tensor.name, tensor.datatype, tensor.values)
    if not batched:
        for sent in message.inputs:
            del sent.shape[0]
    return message


def generate_body(request_id: str, inputs: Iterable[Input]) -> bytes:
    """The JSON of a `generate_stream` request; RequestFailed when a value cannot be written."""
    import orjson

    body: dict[str, Any] = {"id": request_id} if request_id else {}
    for tensor in inputs:
        value: Any = tensor.values if tensor.many else tensor.values[0]
        if tensor.datatype == "FP32" and not math.isfinite(value):
            raise RequestFailed(f"{tensor.name} {value} is no JSON number", code="invalid_request")
        body[tensor.name] = value
    try:
        return orjson.dumps(body)
    except (TypeError, ValueError) as error:
        raise RequestFailed(f"the request cannot be written as JSON: {error}", code="invalid_request") from None
