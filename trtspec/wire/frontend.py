"""The frontend model's requests and responses, over either protocol."""

from __future__ import annotations

from typing import Any

from trtspec.spec.names import FRONTEND_MODEL
from trtspec.wire.inputs import EMPTY_FINAL, FINAL, Input, infer_message
from trtspec.wire.messages import Chunk, Counters, FrontendRequest, TokenDetails
from trtspec.wire.outputs import NamedOutputs, server_stamps
from trtspec.wire.refusals import stream_error
from trtspec.wire.tensors import Outputs

__all__ = ["EMPTY_FINAL", "ChunkReader", "frontend_inputs", "infer_request", "sampling_inputs", "stream_error"]

# field of FrontendRequest → (tensor, datatype)
_SAMPLING = {
    "temperature": ("temperature", "FP32"),
    "top_k": ("top_k", "INT32"),
    "top_p": ("top_p", "FP32"),
    "seed": ("seed", "UINT64"),
    "min_tokens": ("min_tokens", "INT32"),
    "repetition_penalty": ("repetition_penalty", "FP32"),
    "presence_penalty": ("presence_penalty", "FP32"),
    "frequency_penalty": ("frequency_penalty", "FP32"),
}
_DETAILS, _LOG_PROBS, *_FLAGS = (
    Input(name, "BOOL", (True,))
    for name in (
        *("return_token_details", "return_log_probs"),
        *("return_num_input_tokens", "return_num_output_tokens", "return_perf_metrics"),
    )
)
_COUNTS = (
    "num_input_tokens",
    "num_output_tokens",
    "num_spec_steps",
    "total_draft_tokens",
    "total_accepted_draft_tokens",
)
_UNCOUNTED: list[Any] = [None] * len(_COUNTS)
_LOOKUPS = ("num_lookup_steps", "total_lookup_draft_tokens", "total_accepted_lookup_draft_tokens")


def frontend_inputs(request: FrontendRequest) -> list[Input]:
    """What the frontend is sent: only what was given, and the counts and details that are wanted back."""
    prompt = Input("text_input", "BYTES", [request.prompt])
    chat = None if request.messages is None else Input("messages", "BYTES", [request.messages])
    inputs = [chat or prompt, Input("max_tokens", "INT32", [request.max_tokens])]
    inputs.append(Input("stream", "BOOL", [request.stream]))
    if request.num_draft_tokens is not None:
        inputs.append(Input("num_draft_tokens", "INT32", [request.num_draft_tokens]))
    inputs += sampling_inputs(request)
    inputs += _FLAGS
    if request.token_details:
        inputs.append(_DETAILS)
    if request.log_probs:
        inputs.append(_LOG_PROBS)
    return inputs


def sampling_inputs(request: FrontendRequest) -> list[Input]:
    """Sampling fields and stop words that were given."""
    inputs = []
    for field, (name, datatype) in _SAMPLING.items():
        value = getattr(request, field)
        if value is not None:
            inputs.append(Input(name, datatype, (value,)))
    if request.stop_words:
        inputs.append(Input("stop_words", "BYTES", request.stop_words, many=True))
    return inputs


def infer_request(request: FrontendRequest) -> Any:
    """The `ModelInferRequest` of a frontend request; ends with an empty final response."""
    return infer_message(FRONTEND_MODEL, request.request_id, frontend_inputs(request))


class ChunkReader:
    """Makes chunks of the messages of one stream: running counts become counts per chunk."""

    def __init__(self) -> None:
        self._seen_tokens = 0

    def read(self, t_ns: int, message: Any) -> Chunk:
        """The chunk in a `ModelStreamInferResponse`; RequestFailed when it carries an error."""
        if message.error_message:
            raise stream_error(message.error_message)
        response = message.infer_response
        final = response.parameters[FINAL].bool_param if FINAL in response.parameters else False
        return self.chunk(t_ns, Outputs(response), final=final)

    def chunk(self, t_ns: int, outputs: NamedOutputs, *, final: bool) -> Chunk:
        """The chunk of one response."""
        counters = _counters(outputs)
        return Chunk(
            t_ns=t_ns,
            text=outputs.text("text_output"),
            tokens=self._new_tokens(counters),
            counters=counters,
            details=_details(outputs),
            final=final,
            finish_reason=outputs.text("finish_reason"),
            log_probs=outputs.numbers("output_log_probs"),
            perf=server_stamps(outputs),
        )

    def _new_tokens(self, counters: Counters | None) -> int | None:
        if counters is None or counters.num_output_tokens is None:
            return None
        new = counters.num_output_tokens - self._seen_tokens
        self._seen_tokens = counters.num_output_tokens
        return new


def _counters(outputs: NamedOutputs) -> Counters | None:
    asked, made, steps, drafted, accepted = values = [outputs.number(name) for name in _COUNTS]
    histogram = outputs.numbers("acceptance_histogram")
    if histogram is None and values == _UNCOUNTED:
        return None
    looked_up = [outputs.number(name) for name in _LOOKUPS] if _LOOKUPS[0] in outputs else ()
    return Counters(asked, made, steps, drafted, accepted, histogram, *looked_up)


def _details(outputs: NamedOutputs) -> TokenDetails | None:
    ids = outputs.numbers("token_ids")
    if ids is None:
        return None
    texts = outputs.strings("token_texts") or []
    sources = outputs.numbers("token_sources") or ()
    return TokenDetails(ids, tuple(texts), tuple(map(_source, sources)), outputs.numbers("prompt_token_ids"))


def _source(value: Any) -> int:
    return value if type(value) is int else int(bool(value))
