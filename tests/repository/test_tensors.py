"""The tensor tables against NVIDIA's templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS, LEAF_INPUTS, LEAF_OUTPUTS, Tensor

NVIDIA: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "nvidia_tensors.json").read_text())["models"]

# NVIDIA leaves the type of logits to the template; the torch runtime sends FP32
_FILLED = {"${logits_datatype}": "TYPE_FP32"}


@pytest.mark.parametrize(
    ("model", "kind", "tensors"),
    [
        ("tensorrt_llm", "inputs", LEAF_INPUTS),
        ("tensorrt_llm", "outputs", LEAF_OUTPUTS),
        ("tensorrt_llm_bls", "inputs", FRONTEND_INPUTS),
        ("tensorrt_llm_bls", "outputs", FRONTEND_OUTPUTS),
    ],
)
def test_names_types_and_shapes_are_nvidias(model: str, kind: str, tensors: tuple[Tensor, ...]) -> None:
    known = NVIDIA[model][kind]
    for tensor in tensors:
        if tensor.own:
            assert tensor.name not in known
            continue
        type_, dims, *optional = known[tensor.name]
        assert (tensor.type, list(tensor.dims)) == (_FILLED.get(type_, type_), dims), tensor.name
        if optional and tensor.name != "text_input":  # here messages may stand in its place
            assert tensor.optional == optional[0], tensor.name


@pytest.mark.parametrize("tensors", [LEAF_INPUTS, LEAF_OUTPUTS, FRONTEND_INPUTS, FRONTEND_OUTPUTS])
def test_no_name_twice(tensors: tuple[Tensor, ...]) -> None:
    names = [tensor.name for tensor in tensors]
    assert len(names) == len(set(names))


def test_what_nvidias_clients_send_is_declared() -> None:
    """The OpenAI frontend and the load tools send these."""
    sent = {
        "text_input", "max_tokens", "stream", "stop_words", "top_p", "temperature", "frequency_penalty",
        "presence_penalty", "seed", "exclude_input_in_output", "return_num_input_tokens", "return_num_output_tokens",
    }  # fmt: skip
    assert sent <= {tensor.name for tensor in FRONTEND_INPUTS}
