"""A leaf model for the frontend's tests: continues known prompts with known ids; writes down every call.

Model parameters: `script` (JSON file: list of {"prompt": [ids], "output": [ids]}), `log` (JSON lines), `delay_ms` (for
each token), `mode` (target | draft | broken: raises from its second call on | hanging).
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from trtspec.triton_models.frontend_deployment import BIRTH

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
STOP_DELAY = 0.002


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        self.birth = [BIRTH, *divmod(int(time.monotonic() * 1000), 1000)]
        config = json.loads(args["model_config"])
        values = {key: value["string_value"] for key, value in config["parameters"].items()}
        self.name = config["name"]
        self.mode = values["mode"]
        self.delay = float(values["delay_ms"]) / 1000
        self.echo = values.get("echo") == "yes"
        self.scripts = json.loads(Path(values["script"]).read_text())
        self.log = Path(values["log"])
        self.lock = threading.Lock()
        self.calls = 0
        self.running: dict[str, threading.Event] = {}

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            tensors = {tensor.name(): tensor.as_numpy()[0].tolist() for tensor in request.inputs()}
            sender = request.get_response_sender()
            self.calls += 1
            if self.mode == "broken" and self.calls > 1:
                raise RuntimeError("the draft has no memory left")
            if tensors.get("stop") == [True]:
                self.running.setdefault(request.request_id(), threading.Event()).set()
                self.write(request.request_id(), {"stop": True})
                sender.send(self.response(self.birth, []), flags=FINAL)
                continue
            stopped = self.running.setdefault(request.request_id(), threading.Event())
            self.write(request.request_id(), tensors)
            new = self.continuation(tensors)
            threading.Thread(target=self.serve, args=(tensors, new, sender, stopped), daemon=True).start()

    def serve(self, tensors: dict[str, Any], new: list[int], sender: Any, stopped: threading.Event) -> None:
        while self.mode == "hanging":
            time.sleep(0.1)
        ids = tensors["input_ids"]
        prompt = ids if self.echo or tensors.get("exclude_input_in_output") != [True] else []
        if tensors.get("streaming") != [True]:
            time.sleep(self.delay * len(new))
            sender.send(self.response([*prompt, *new], self.extra(tensors, new)), flags=FINAL)
            return
        sent = 0
        for token in new:
            time.sleep(max(self.delay, STOP_DELAY))
            if stopped.is_set():
                break
            sender.send(self.response([token], self.extra(tensors, [token])))
            sent += 1
        self.write("", {"streamed": sent})
        sender.send(flags=FINAL)

    def continuation(self, tensors: dict[str, Any]) -> list[int]:
        ids, limit = tensors["input_ids"], tensors["request_output_len"][0]
        ends = {tensors["end_id"][0], *(tensors["stop_words_list"][0] if "stop_words_list" in tensors else ())}
        draft = tensors.get("draft_input_ids", [])
        new: list[int] = []
        while len(new) < limit:
            token = self.following([*ids, *new], next(iter(tensors["end_id"])))
            new.append(token)
            if token in ends:
                break
            if "draft_input_ids" in tensors and (len(new) > len(draft) or token != draft[len(new) - 1]):
                break
        return new

    def following(self, ids: list[int], end: int) -> int:
        for script in self.scripts:
            prompt, output = script["prompt"], script["output"]
            if ids[: len(prompt)] == prompt:
                made = len(ids) - len(prompt)
                right: int = output[made] if made < len(output) else max(end, 2)
                # wrong at places that do not fall in step with any draft length
                wrong = self.mode != "target" and (made * made + made // 7) % 5 == 1
                return output[0] if wrong else right
        raise RuntimeError(f"{self.name}: no script for a prompt of {len(ids)} tokens")

    def extra(self, tensors: dict[str, Any], new: list[int]) -> list[Any]:
        """Outputs on request: logits [1, 1, n, 4] and log-probabilities [1, 1, n] that tell the tokens."""
        made = []
        if tensors.get("return_generation_logits") == [True]:
            rows = np.array([[token, 0.25, 0.5, 1.0] for token in new], np.float32)
            made.append(pb_utils.Tensor("generation_logits", rows.reshape(1, 1, -1, 4)))
        if tensors.get("return_log_probs") == [True]:
            made.append(pb_utils.Tensor("output_log_probs", -np.array([[new]], np.float32)))
        return made

    def response(self, ids: list[int], more: list[Any]) -> Any:
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("output_ids", np.array([[ids]], np.int32)),
                pb_utils.Tensor("sequence_length", np.array([[len(ids)]], np.int32)),
                *more,
            ]
        )

    def write(self, request_id: str, tensors: dict[str, Any]) -> None:
        line = json.dumps({"model": self.name, "id": request_id, "t": time.time(), "inputs": tensors})
        with self.lock, self.log.open("a") as stream:
            stream.write(line + "\n")
