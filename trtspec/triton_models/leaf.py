"""Triton Python model of the torch runtime: NVIDIA's `tensorrt_llm` tensors in front of a trtspec engine.

Parameters: `gpt_model_path` (engine folder), and those of `trtspec.torch_runtime.config.RuntimeOptions`. A request with
the parameter `trtspec_continues` goes on with an answer that was begun: it is never refused as one too many.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.loading import ignored_options, load_engine
from trtspec.torch_runtime.request import Update
from trtspec.torch_runtime.tensors import Answer, error_line, parse_request
from trtspec.triton_models.frontend_deployment import BIRTH, reachable
from trtspec.triton_models.leaf_metrics import LeafMetrics

_POLL_SECONDS = 0.05  # asking whether a client is gone is a call to the server's process


class TritonPythonModel:
    """Hands requests to the engine; answers leave from the engine's thread through response senders."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the engine that the model's configuration names."""
        self._birth = np.array([[[BIRTH, *divmod(int(time.monotonic() * 1000), 1000)]]], np.int32)
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        self._inputs = [entry["name"] for entry in config["input"]]
        self._outputs = {entry["name"] for entry in config["output"]}
        self._running: dict[str, threading.Event] = {}  # request id → set when it is to end
        folder = reachable(parameters["gpt_model_path"])
        options = RuntimeOptions.from_parameters(parameters)
        for sentence in ignored_options(options):
            pb_utils.Logger.log_warn(sentence)
        self._threshold = options.confidence_threshold
        self._engine = load_engine(folder, options)
        self._metrics = LeafMetrics(config["name"], args["model_version"], lambda: self._engine.load)

    def execute(self, requests: list[Any]) -> None:
        """Queue the requests and return at once (decoupled)."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                self._submit(request, sender)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one request ends that request only
                _send_error(sender, error)

    def finalize(self) -> None:
        """Stop the threads."""
        self._metrics.close()
        self._engine.close()

    def _submit(self, request: Any, sender: Any) -> None:
        given = ((name, pb_utils.get_input_tensor_by_name(request, name)) for name in self._inputs)
        tensors = {name: tensor.as_numpy() for name, tensor in given if tensor is not None}
        stop = tensors.pop("stop", None)
        if stop is not None and stop.any():
            self._stop(request.request_id(), sender)
            return
        parsed = parse_request(tensors)
        answer, generation = Answer(parsed), replace(parsed.generation, confidence_threshold=self._threshold)
        request_id, stopped, begun = request.request_id(), threading.Event(), threading.Event()
        self._running[request_id] = stopped

        def listen(update: Update) -> None:
            if update.final and self._running.get(request_id) is stopped:
                del self._running[request_id]
            if update.error is not None and begun.is_set():
                self._break_off(sender, stopped=stopped.is_set())
                return
            if update.error is not None:
                _send_error(sender, update.error)
                return
            try:
                outputs = answer.take(update)
            except Exception as error:
                self._running.pop(request_id, None)
                _send_error(sender, error)
                raise  # the engine then ends the request
            if outputs is not None:
                begun.set()
                self._send(sender, outputs, final=update.final)

        gone = _polled(sender.is_cancelled)
        try:
            self._engine.submit(generation, listen, lambda: stopped.is_set() or gone(), continues=_continues(request))
        except Exception:
            self._running.pop(request_id, None)
            raise

    def _stop(self, request_id: str, sender: Any) -> None:
        """End the running request with this id, as NVIDIA's models do; the answer to the stop request is empty.

        When there is none, it tells since when this process is there (see `Calls._probe` of the frontend).
        """
        if running := self._running.get(request_id):
            running.set()
            sender.send(flags=_FINAL)
        else:
            self._send(sender, {"output_ids": self._birth, "sequence_length": np.full((1, 1), 3, np.int32)}, final=True)

    def _break_off(self, sender: Any, *, stopped: bool) -> None:
        """End a stream that has begun: with nothing when it was `stopped`, else with a token id that is none.

        Triton 2.51 never hands a calling model an error that comes after a response; the caller would wait for ever.
        """
        if stopped:
            sender.send(flags=_FINAL)
        else:
            self._send(sender, {"output_ids": _BROKEN, "sequence_length": np.ones((1, 1), np.int32)}, final=True)

    def _send(self, sender: Any, tensors: Mapping[str, Any], *, final: bool) -> None:
        outputs = [pb_utils.Tensor(name, value) for name, value in tensors.items() if name in self._outputs]
        sender.send(pb_utils.InferenceResponse(output_tensors=outputs), flags=_FINAL if final else 0)


_BROKEN = np.full((1, 1, 1), -1, np.int32)
_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def _send_error(sender: Any, error: Exception) -> None:
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(error_line(error))), flags=_FINAL)


def _continues(request: Any) -> bool:
    parameters = request.parameters()
    return bool(parameters) and bool(json.loads(parameters).get("trtspec_continues"))


def _polled(ask: Callable[[], bool]) -> Callable[[], bool]:
    """`ask`, but at most once every `_POLL_SECONDS`."""
    last = [time.monotonic(), False]

    def cancelled() -> bool:
        now = time.monotonic()
        if now - last[0] >= _POLL_SECONDS:
            last[:] = [now, ask()]
        return bool(last[1])

    return cancelled
