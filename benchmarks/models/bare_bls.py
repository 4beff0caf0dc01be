"""The least that a speculative BLS can do: a draft call and a target call a round, the same tensors every time.

No tokenizer, no text, no accounting, no cancellation: what it costs is the server's price of two inner calls. Each
request runs in a thread of its own, so that no event loop stands between the calls either.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
KEEP_SECONDS = 2.0


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002 - Triton passes them
        self.pool = ThreadPoolExecutor(64)
        self.used: deque[tuple[float, Any]] = deque()  # as in the frontend: finished iterators are kept for a while
        self.lock = threading.Lock()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            length = int(pb_utils.get_input_tensor_by_name(request, "num_draft_tokens").as_numpy()[0, 0])
            tokens = int(pb_utils.get_input_tensor_by_name(request, "max_tokens").as_numpy()[0, 0])
            prompt = len(pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0, 0])
            self.pool.submit(self.serve, request.get_response_sender(), length, tokens // (length + 1), prompt)

    def serve(self, sender: Any, length: int, rounds: int, prompt: int) -> None:
        ids = np.full((1, prompt), 97, np.int32)
        draft = np.full((1, length), 98, np.int32)
        for _ in range(rounds):
            self.call("tensorrt_llm_draft", ids, length)
            self.call("tensorrt_llm", ids, length + 1, draft)
            ids = np.concatenate([ids, draft, draft[:, :1]], 1)
        text = np.array([[b""]], np.object_)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]), flags=FINAL)

    def call(self, model: str, ids: Any, count: int, draft: Any = None) -> None:
        tensors = {
            "input_ids": ids,
            "input_lengths": np.array([[ids.shape[1]]], np.int32),
            "request_output_len": np.array([[count]], np.int32),
            "end_id": np.array([[2]], np.int32),
            "exclude_input_in_output": np.ones((1, 1), np.bool_),
        }
        if draft is not None:
            tensors["draft_input_ids"] = draft
        request = pb_utils.InferenceRequest(
            model_name=model,
            requested_output_names=["output_ids", "sequence_length"],
            inputs=[pb_utils.Tensor(name, array) for name, array in tensors.items()],
        )
        responses = request.exec(decoupled=True)
        for response in responses:
            for tensor in response.output_tensors():
                tensor.as_numpy()
        now = time.monotonic()
        with self.lock:
            self.used.append((now, responses))
            while self.used[0][0] < now - KEEP_SECONDS:
                self.used.popleft()
