"""A frontend that answers by script, with the generated frontend's tensors: for tests of what shows answers."""

from __future__ import annotations

from pathlib import Path

from trtspec.repository.config import ModelSpec, model_config, pbtxt
from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["scripted_frontend"]

# Two rounds. The first answers with what arrived, as JSON, in a token of the target's; then two tokens each.
# The text lags behind the tokens, as it does while a character is incomplete. `fail` and `hang` do what they say.
_MODEL = """
import json
import time
import numpy as np
import triton_python_backend_utils as pb

NAMES = ("text_input", "max_tokens", "stream", "num_draft_tokens", "temperature", "top_k", "top_p", "seed",
         "return_token_details")


def tensor(name, values, kind):
    return pb.Tensor(name, np.array([values], dtype=kind))


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.answer(request)

    def answer(self, request):
        sender = request.get_response_sender()
        given = {}
        for name in NAMES:
            value = pb.get_input_tensor_by_name(request, name)
            if value is not None:
                item = value.as_numpy().flat[0]
                given[name] = item.decode() if isinstance(item, bytes) else item.item()
        words = pb.get_input_tensor_by_name(request, "stop_words")
        if words is not None:
            given["stop_words"] = [word.decode() for word in words.as_numpy().flat]
        if "fail" in given["text_input"]:
            error = pb.InferenceResponse(error=pb.TritonError("prompt_too_long: 99 tokens, at most 64 fit"))
            sender.send(error, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        if "hang" in given["text_input"]:
            time.sleep(60)
        first = [(json.dumps(given) + "\\n", 0), (" green", 1)]
        second = [(" also", 1), (" \\x1b[31mplain", 0)]
        text = "".join(t for t, _ in first + second)
        cut = len(text) - 20
        details = given.get("return_token_details", False)
        sender.send(self.response(first, text[:cut], (2, 1, 4, 1), "", details))
        time.sleep(0.05)
        sender.send(self.response(second, text[cut:], (4, 2, 8, 2), "stop", details),
                    flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def response(self, tokens, text, counts, reason, details):
        produced, rounds, drafted, accepted = counts
        outputs = [
            tensor("text_output", [text.encode()], np.object_),
            tensor("num_input_tokens", [7], np.int32),
            tensor("num_output_tokens", [produced], np.int32),
            tensor("total_draft_tokens", [drafted], np.int32),
            tensor("total_accepted_draft_tokens", [accepted], np.int32),
            tensor("acceptance_rate", [accepted / drafted], np.float32),
            tensor("num_spec_steps", [rounds], np.int32),
            tensor("acceptance_histogram", [0, accepted], np.int32),
            tensor("finish_reason", [reason.encode()], np.object_),
        ]
        if details:
            outputs += [
                tensor("token_ids", list(range(len(tokens))), np.int32),
                tensor("token_texts", [t.encode() for t, _ in tokens], np.object_),
                tensor("token_sources", [s for _, s in tokens], np.int32),
            ]
        return pb.InferenceResponse(outputs)
"""


def scripted_frontend(folder: Path, engine: Path | None = None) -> Path:
    """Write a repository whose only model is the scripted frontend, made for the target engine `engine`."""
    parameters = {"tokenizer_dir": str(engine)} if engine else {}
    config = model_config(ModelSpec(FRONTEND_MODEL, 4, FRONTEND_INPUTS, FRONTEND_OUTPUTS, parameters))
    version = folder / FRONTEND_MODEL / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(_MODEL)
    (folder / FRONTEND_MODEL / "config.pbtxt").write_text(pbtxt(config))
    return folder
