"""NVIDIA's stock models: what they take, how they answer, and what their answers cannot tell.

* `tensorrt_llm_bls` (inflight_batcher_llm): with a draft it answers once, at the end, so there is nothing to say about
  streaming; its counts are those of the last round only and are not used.
* `ensemble`: streams where the models behind it do; it has no draft inputs.
* llmapi (`all_models/llmapi/tensorrt_llm`): its own input names, no batch dimension; every response carries the text so
  far, numbers come as texts, an absent one as "None".

Facts: triton-inference-server/tensorrtllm_backend v0.19.0 and TensorRT-LLM's triton_backend: config.pbtxt, model.py.
"""

from __future__ import annotations

from collections.abc import Collection

from trtspec.errors import RequestFailed
from trtspec.wire.frontend import sampling_inputs
from trtspec.wire.inputs import Input
from trtspec.wire.messages import Chunk, Counters, FrontendRequest
from trtspec.wire.outputs import NamedOutputs, server_stamps, whole_number

__all__ = ["LlmapiReader", "StockReader", "declared", "llmapi_inputs", "stock_inputs"]

# names until 0.19 of what is sent under its newer name
_OLDER = {"seed": "random_seed", "min_tokens": "min_length"}
# asked for where a model offers it
_WISHES = frozenset({"return_perf_metrics", "return_num_input_tokens", "return_num_output_tokens"})
_LLMAPI = {
    "temperature": "sampling_param_temperature",
    "top_k": "sampling_param_top_k",
    "top_p": "sampling_param_top_p",
    "seed": "sampling_param_seed",
    "presence_penalty": "sampling_param_presence_penalty",
    "frequency_penalty": "sampling_param_frequency_penalty",
    "stop_words": "sampling_param_stop",
}


def stock_inputs(request: FrontendRequest) -> list[Input]:
    """What the BLS and the ensemble are sent; a speculative request must not ask for a stream."""
    if request.messages is not None:
        raise RequestFailed("this model takes no chats; give a checkpoint whose template renders them", code="no_chat")
    inputs = [
        Input("text_input", "BYTES", [request.prompt]),
        Input("max_tokens", "INT32", [request.max_tokens]),
        Input("stream", "BOOL", [request.stream and not request.num_draft_tokens]),
    ]
    if request.num_draft_tokens is not None:
        inputs.append(Input("num_draft_tokens", "INT32", [request.num_draft_tokens]))
    return [*inputs, *sampling_inputs(request), *(Input(name, "BOOL", [True]) for name in sorted(_WISHES))]


def llmapi_inputs(request: FrontendRequest) -> list[Input]:
    """What the llmapi model is sent."""
    if request.messages is not None:
        raise RequestFailed("this model takes no chats; give a checkpoint whose template renders them", code="no_chat")
    if request.num_draft_tokens is not None:
        message = "the llmapi model has no draft length per request; it is set in model.yaml (speculative_config)"
        raise RequestFailed(message, code="invalid_request")
    inputs = [
        Input("text_input", "BYTES", [request.prompt]),
        Input("streaming", "BOOL", [request.stream]),
        Input("sampling_param_max_tokens", "INT32", [request.max_tokens]),
        Input("sampling_param_exclude_input_from_output", "BOOL", [True]),
        Input("sampling_param_return_perf_metrics", "BOOL", [True]),
        Input("return_finish_reason", "BOOL", [True]),
    ]
    sampling = sampling_inputs(request)
    return inputs + [tensor._replace(name=_LLMAPI.get(tensor.name, tensor.name)) for tensor in sampling]


def declared(inputs: list[Input], names: Collection[str]) -> list[Input]:
    """`inputs` under the names that this model declares; RequestFailed for one that was given and has none."""
    found = []
    for tensor in inputs:
        name = tensor.name if tensor.name in names else _OLDER.get(tensor.name, "")
        if name in names:
            found.append(tensor._replace(name=name))
        elif tensor.name not in _WISHES:
            raise RequestFailed(f"this model has no input {tensor.name}", code="invalid_request")
    return found


class StockReader:
    """Reads the BLS and the ensemble: the prompt is cut from the front of the answer, as both may repeat it."""

    def __init__(self, request: FrontendRequest) -> None:
        self._prompt = request.prompt
        self._seen_tokens = 0

    def chunk(self, t_ns: int, outputs: NamedOutputs, *, final: bool) -> Chunk:
        """The chunk of one response."""
        text = outputs.text("text_output")
        if self._prompt and text:
            text, self._prompt = text.removeprefix(self._prompt), ""
        counters = self._counters(outputs)
        return Chunk(t_ns, text, self._new_tokens(counters), counters, final=final, perf=server_stamps(outputs))

    def _counters(self, outputs: NamedOutputs) -> Counters | None:
        # declared since 1.0, but the C++ backend leaves them 0
        made, asked = whole_number(outputs, "num_output_tokens"), whole_number(outputs, "num_input_tokens")
        return Counters(asked or None, made) if made else None

    def _new_tokens(self, counters: Counters | None) -> int | None:
        if counters is None or counters.num_output_tokens is None:
            return None
        new = counters.num_output_tokens - self._seen_tokens
        self._seen_tokens = counters.num_output_tokens
        return new


class LlmapiReader:
    """Reads the llmapi model: what the text has grown by, and numbers written as texts."""

    def __init__(self, request: FrontendRequest) -> None:  # noqa: ARG002 - as the other readers are made
        self._seen = ""

    def chunk(self, t_ns: int, outputs: NamedOutputs, *, final: bool) -> Chunk:
        """The chunk of one response; an end of the text that was taken back is not undone."""
        text = outputs.text("text_output")
        new = _growth(self._seen, text)
        self._seen = text or self._seen
        reason = outputs.text("finish_reason")
        counters = _draft_counts(outputs)
        perf = server_stamps(outputs)
        reason = "" if reason == "None" else reason
        return Chunk(t_ns, new, None, counters, final=final, finish_reason=reason, perf=perf)


def _growth(before: str, text: str) -> str:
    """What `text` has behind the part that it shares with `before`."""
    if text.startswith(before):
        return text[len(before) :]
    shared = next((at for at, (old, new) in enumerate(zip(before, text, strict=False)) if old != new), len(text))
    return text[shared:]


def _draft_counts(outputs: NamedOutputs) -> Counters | None:
    drafted = whole_number(outputs, "total_draft_tokens")
    accepted = whole_number(outputs, "total_accepted_draft_tokens")
    # 0 where nothing was drafted, also without speculation: not a measurement
    return Counters(num_draft_tokens=drafted, num_accepted_tokens=accepted) if drafted else None
