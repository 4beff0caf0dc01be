"""Asking a leaf model (`tensorrt_llm`) directly: the scores of the next token after a given sequence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from trtspec.errors import RequestFailed
from trtspec.spec.names import TARGET_MODEL
from trtspec.wire.connection import Connection
from trtspec.wire.frontend import EMPTY_FINAL, stream_error
from trtspec.wire.tensors import Outputs, add_input

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["next_token_logits"]


async def next_token_logits(
    connection: Connection, ids: Sequence[int], *, timeout: float, model: str = TARGET_MODEL
) -> NDArray[Any]:
    """Logits [vocabulary] (float32) of the token that follows `ids`; RequestFailed when the model gives none."""
    import numpy as np

    async with aclosing(connection.messages(_request(model, ids), timeout=timeout)) as messages:
        async for _, message in messages:
            if message.error_message:
                raise stream_error(message.error_message)
            outputs = Outputs(message.infer_response)
            raw = outputs.raw("generation_logits")
            if raw:
                return np.frombuffer(raw, dtype="<f4")
    raise RequestFailed(f"{model} returned no generation_logits", code="no_logits")


def _request(model: str, ids: Sequence[int]) -> Any:
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest(model_name=model)
    message.parameters[EMPTY_FINAL].bool_param = True
    add_input(message, "input_ids", "INT32", ids)
    add_input(message, "input_lengths", "INT32", [len(ids)])
    add_input(message, "request_output_len", "INT32", [1])
    add_input(message, "exclude_input_in_output", "BOOL", [True])
    add_input(message, "return_generation_logits", "BOOL", [True])
    return message
