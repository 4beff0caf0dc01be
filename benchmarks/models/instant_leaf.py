"""A leaf that answers at once, inside `execute`: a draft of consecutive ids, a target that accepts every draft."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
FIRST, LAST = 97, 120  # ids of plain letters, none of them an end id


class TritonPythonModel:
    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            if pb_utils.get_input_tensor_by_name(request, "stop") is not None:
                sender.send(flags=FINAL)
                continue
            last = int(pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy()[0, -1])
            count = int(pb_utils.get_input_tensor_by_name(request, "request_output_len").as_numpy()[0, 0])
            new = FIRST + (last - FIRST + 1 + np.arange(count, dtype=np.int32)) % (LAST - FIRST)
            outputs = [
                pb_utils.Tensor("output_ids", new.astype(np.int32)[None, None]),
                pb_utils.Tensor("sequence_length", np.array([[count]], np.int32)),
            ]
            sender.send(pb_utils.InferenceResponse(outputs), flags=FINAL)
