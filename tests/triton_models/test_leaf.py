"""The leaf in the real Triton: NVIDIA's tensors in, the engine's answers out."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

from tests.serving.toy import ToyDeployment
from tests.torch_runtime.engines import reference, reference_greedy
from trtspec.building import engine_path

pytestmark = pytest.mark.triton

PROMPT = [7, 50, 90, 11, 130, 42, 201, 33]
_TYPES = {"int32": "INT32", "float32": "FP32", "bool": "BOOL", "uint64": "UINT64"}


class Leaf:
    """Sends tensors to a leaf over one gRPC stream and collects the responses of each request."""

    def __init__(self, url: str) -> None:
        self.client = grpc.InferenceServerClient(url)
        self._responses: queue.Queue[Any] = queue.Queue()
        self.client.start_stream(callback=lambda result, error: self._responses.put((result, error)))

    def send(self, model: str = "tensorrt_llm", *, request_id: str = "1", **tensors: Any) -> None:
        inputs = []
        for name, value in tensors.items():
            array = np.asarray(value)
            tensor = grpc.InferInput(name, list(array.shape), _TYPES[array.dtype.name])
            tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        self.client.async_stream_infer(model, inputs, request_id=request_id, enable_empty_final_response=True)

    def next(self) -> Any:
        result, error = self._responses.get(timeout=60)
        if error is not None:
            raise error
        return result

    def ask(self, model: str = "tensorrt_llm", **tensors: Any) -> list[dict[str, Any]]:
        """All responses of one request, each as name → array."""
        self.send(model, **tensors)
        responses = []
        while True:
            result = self.next()
            response = result.get_response()
            if response.outputs:
                responses.append({output.name: result.as_numpy(output.name) for output in response.outputs})
            if response.parameters["triton_final_response"].bool_param:
                return responses


@pytest.fixture(scope="module")
def leaf(toy_deployment: ToyDeployment) -> Iterator[Leaf]:
    leaf = Leaf(toy_deployment.server("speculative").grpc_url)
    yield leaf
    leaf.client.stop_stream()
    leaf.client.close()


@pytest.fixture(scope="module")
def expected(toy_deployment: ToyDeployment) -> list[int]:
    folder: Path = engine_path(toy_deployment.spec_file, "target")
    return reference_greedy(reference(folder), PROMPT, 12)


def ids(values: list[int]) -> np.ndarray[Any, Any]:
    return np.array([values], dtype=np.int32)


def request(output_len: int, prompt: list[int] = PROMPT, **more: Any) -> dict[str, Any]:
    return {
        "input_ids": ids(prompt),
        "input_lengths": ids([len(prompt)]),
        "request_output_len": ids([output_len]),
        **more,
    }


def flag() -> np.ndarray[Any, Any]:
    return np.array([[True]])


def test_one_answer_with_the_prompt(leaf: Leaf, expected: list[int]) -> None:
    [answer] = leaf.ask(**request(12))
    assert answer["output_ids"].shape == (1, 1, len(PROMPT) + 12)
    assert answer["output_ids"][0, 0].tolist() == [*PROMPT, *expected]
    assert answer["sequence_length"].tolist() == [[len(PROMPT) + 12]]
    assert answer["num_input_tokens"].tolist() == [[len(PROMPT)]]
    assert answer["num_output_tokens"].tolist() == [[12]]
    assert "generation_logits" not in answer


def test_streaming_sends_each_new_token(leaf: Leaf, expected: list[int]) -> None:
    answers = leaf.ask(**request(12, streaming=flag()))
    assert [answer["output_ids"][0, 0].tolist() for answer in answers] == [[token] for token in expected]


def test_verification(leaf: Leaf, expected: list[int]) -> None:
    draft = [*expected[:2], (expected[2] + 1) % 320, expected[3]]
    more: dict[str, Any] = {
        "exclude_input_in_output": flag(),
        "return_perf_metrics": flag(),
        "return_generation_logits": flag(),
    }
    [answer] = leaf.ask(**request(5, draft_input_ids=ids(draft), **more))
    assert answer["output_ids"][0, 0].tolist() == expected[:3]
    assert answer["total_draft_tokens"].tolist() == [[4]]
    assert answer["total_accepted_draft_tokens"].tolist() == [[2]]
    assert answer["acceptance_rate"].tolist() == [[0.5]]
    assert answer["generation_logits"].shape[:3] == (1, 1, 3)
    assert answer["generation_logits"][0, 0].argmax(-1).tolist() == expected[:3]


def test_draft_model_answers(leaf: Leaf) -> None:
    [answer] = leaf.ask("tensorrt_llm_draft", **request(4, exclude_input_in_output=flag()))
    assert answer["output_ids"].shape == (1, 1, 4)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (request(3, draft_input_ids=ids(list(range(9)))), "9 draft tokens, but this engine was built for at most 8"),
        (request(3, prompt=[5, 99999]), "token id 99999 is not in the vocabulary"),
        (request(9999), "is more than max_seq_len"),
        (request(3, temperature=np.array([[-1.0]], dtype=np.float32)), "temperature -1.0 is negative"),
        ({**request(3), "input_ids": ids([1, 2])}, "input_lengths is 8, but input_ids has 2 ids"),
        ({name: np.repeat(value, 2, axis=0) for name, value in request(3).items()}, "batch size 2"),
    ],
)
def test_one_line_errors(leaf: Leaf, tensors: dict[str, Any], message: str) -> None:
    with pytest.raises(InferenceServerException, match=message) as caught:
        leaf.ask(**tensors)
    assert "\n" not in caught.value.message()
    assert "Traceback" not in caught.value.message()


def test_the_engine_serves_on_after_an_error(leaf: Leaf, expected: list[int]) -> None:
    [answer] = leaf.ask(**request(3, exclude_input_in_output=flag()))
    assert answer["output_ids"][0, 0].tolist() == expected[:3]


def test_a_cancelled_stream_frees_the_engine(toy_deployment: ToyDeployment) -> None:
    url = toy_deployment.server("speculative").grpc_url
    gone = Leaf(url)
    gone.send(**request(400, streaming=flag()))
    gone.next()
    gone.client.stop_stream(cancel_requests=True)
    gone.client.close()
    other = Leaf(url)
    [answer] = other.ask(**request(1, exclude_input_in_output=flag()))
    assert answer["output_ids"].shape == (1, 1, 1)
    other.client.stop_stream()
    other.client.close()
