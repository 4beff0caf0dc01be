"""A model that answers on a plan: each response leaves at a known time and carries the server's own stamps.

The prompt is the plan as JSON: `at_ms` (times of the responses after the request arrived), `tokens` (each response's),
`end`: "stop", "error" after the last response, or "cut" (the stream ends without saying why). The text of a response is
the times (ns) at which the request was received and the response was sent, on the clock of time.perf_counter_ns.

`execute` only puts plans on a heap; one thread takes from it by absolute time.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002
        self._count = itertools.count()
        self._due: list[tuple[int, int, Any]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._send_all, daemon=True).start()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            received = time.perf_counter_ns()
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().reshape(-1)[0]
            plan = Plan(json.loads(text), received, request.get_response_sender())
            self._push(plan)

    def _push(self, plan: Plan) -> None:
        with self._changed:
            heapq.heappush(self._due, (plan.due(), next(self._count), plan))
            self._changed.notify()

    def _send_all(self) -> None:
        while True:
            with self._changed:
                while not self._due or (left := self._due[0][0] - time.perf_counter_ns()) > 0:
                    self._changed.wait(left / 1e9 if self._due else None)
                plan = heapq.heappop(self._due)[2]
            if plan.send():
                self._push(plan)


class Plan:
    def __init__(self, plan: dict[str, Any], received: int, sender: Any) -> None:
        self.times = [received + int(at * 1e6) for at in plan["at_ms"]]
        self.tokens = plan["tokens"]
        self.end = plan.get("end", "stop")
        self.received, self.sender, self.step = received, sender, 0

    def due(self) -> int:
        return self.times[self.step]

    def send(self) -> bool:
        """True when more is to come."""
        last = self.step + 1 == len(self.times)
        self.sender.send(pb_utils.InferenceResponse(self._outputs(last)), flags=FINAL if last and self.whole else 0)
        self.step += 1
        if last and self.end == "error":
            self.sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("boom")), flags=FINAL)
        elif last and not self.whole:
            self.sender.send(flags=FINAL)
        return not last

    @property
    def whole(self) -> bool:
        return bool(self.end == "stop")

    def _outputs(self, last: bool) -> list[Any]:
        now = time.perf_counter_ns()
        reason = b"stop" if last and self.whole else b""
        outputs = [
            pb_utils.Tensor("text_output", np.array([[f"{self.received} {now}\n".encode()]], np.object_)),
            pb_utils.Tensor("num_output_tokens", np.array([[sum(self.tokens[: self.step + 1])]], np.int32)),
            pb_utils.Tensor("finish_reason", np.array([[reason]], np.object_)),
        ]
        if last:
            stamps = {"arrival_time_ns": self.received, "first_scheduled_time_ns": self.received}
            stamps |= {"first_token_time_ns": self.times[0], "last_token_time_ns": now}
            outputs += [pb_utils.Tensor(name, np.array([[value]], np.int64)) for name, value in stamps.items()]
        return outputs
