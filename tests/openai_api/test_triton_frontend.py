"""Our repository behind Triton's own OpenAI frontend: it sends and reads tensors of the frontend model.

Source: `_create_trtllm_generate_request`, `_get_usage_from_response`, `_to_string` and
`_validate_triton_responses_non_streaming` in python/openai/openai_frontend/engine/utils/triton.py of
triton-inference-server/server (2026, commit 6297a6b). It has not been run here: it needs NVIDIA's image.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS
from trtspec.serving import RunningServer
from trtspec.wire import Connection, model_tensors
from trtspec.wire.tensors import Outputs, add_input

# name → type, values; every one with the shape [1, n]
SENT: dict[str, tuple[str, list[Any]]] = {
    "text_input": ("BYTES", ["hello world"]),
    "stream": ("BOOL", [True]),
    "max_tokens": ("INT32", [12]),
    "stop_words": ("BYTES", ["never", "said"]),
    "top_p": ("FP32", [1.0]),
    "frequency_penalty": ("FP32", [0.0]),
    "presence_penalty": ("FP32", [0.0]),
    "seed": ("UINT64", [7]),
    "temperature": ("FP32", [0.7]),
    "exclude_input_in_output": ("BOOL", [True]),
    "return_num_input_tokens": ("BOOL", [True]),
    "return_num_output_tokens": ("BOOL", [True]),
}
READ = {"text_output": "BYTES", "num_input_tokens": "INT32", "num_output_tokens": "INT32"}
# what it always sends; the rest only when a client gives it
ALWAYS = {"text_input", "stream", "max_tokens", "return_num_input_tokens", "return_num_output_tokens"}


def test_the_generated_configuration_has_the_tensors() -> None:
    inputs = {tensor.name: tensor for tensor in FRONTEND_INPUTS}
    assert set(SENT) <= set(inputs)
    needed = {name for name, tensor in inputs.items() if not tensor.optional}
    assert needed <= ALWAYS
    assert set(READ) <= {tensor.name for tensor in FRONTEND_OUTPUTS}


def test_the_running_model_has_them_with_their_types(triton: RunningServer) -> None:
    async def ask() -> Any:
        async with Connection(triton.grpc_url) as connection:
            return await model_tensors(connection)

    tensors = asyncio.run(ask())
    assert {name: tensors.inputs[name] for name in SENT} == {name: kind for name, (kind, _) in SENT.items()}
    assert {name: tensors.outputs[name] for name in READ} == READ


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("given", [set(SENT), ALWAYS])
def test_such_a_request_is_answered_as_it_expects(triton: RunningServer, stream: bool, given: set[str]) -> None:
    responses = asyncio.run(answers(triton.grpc_url, stream, given))
    texts = [Outputs(response).strings("text_output") or [] for response in responses]
    assert all(len(text) == 1 for text in texts)  # it takes one string a response
    assert [response.parameters["triton_final_response"].bool_param for response in responses] == [
        *(False for _ in responses[1:]),
        True,
    ]
    assert (len(responses) > 1) == stream
    last = Outputs(responses[-1])
    assert (last.number("num_input_tokens"), last.number("num_output_tokens")) == (6, 12)


async def answers(url: str, stream: bool, given: set[str]) -> list[Any]:
    message = service_pb2.ModelInferRequest(model_name="tensorrt_llm_bls")
    for name in given:
        kind, values = SENT[name]
        add_input(message, name, kind, [stream] if name == "stream" else values)
    async with Connection(url) as connection, aclosing(connection.messages(message, timeout=60)) as messages:
        return [found.infer_response async for _, found in messages if not found.error_message]
