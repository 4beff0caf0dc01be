"""The frontend model's requests and responses as KServe v2 messages."""

from __future__ import annotations

import re
from typing import Any

from trtspec.errors import RequestFailed
from trtspec.spec.names import FRONTEND_MODEL
from trtspec.wire.messages import Chunk, Counters, FrontendRequest, TokenDetails
from trtspec.wire.tensors import Outputs, add_input

__all__ = ["ChunkReader", "infer_request", "stream_error"]

# An empty last response that only says "this was all": without it a stream cut off cleanly looks complete.
EMPTY_FINAL = "triton_enable_empty_final_response"
FINAL = "triton_final_response"

# field of FrontendRequest → (tensor, datatype)
_OPTIONAL = {
    "num_draft_tokens": ("num_draft_tokens", "INT32"),
    "temperature": ("temperature", "FP32"),
    "top_k": ("top_k", "INT32"),
    "top_p": ("top_p", "FP32"),
    "seed": ("seed", "UINT64"),
    "min_tokens": ("min_tokens", "INT32"),
    "repetition_penalty": ("repetition_penalty", "FP32"),
    "presence_penalty": ("presence_penalty", "FP32"),
    "frequency_penalty": ("frequency_penalty", "FP32"),
}
_FLAGS = ("return_num_input_tokens", "return_num_output_tokens", "return_perf_metrics")
_ON_REQUEST = {"token_details": "return_token_details", "log_probs": "return_log_probs"}
_COUNTERS = {
    "num_input_tokens": "num_input_tokens",
    "num_output_tokens": "num_output_tokens",
    "num_spec_steps": "num_spec_steps",
    "num_draft_tokens": "total_draft_tokens",
    "num_accepted_tokens": "total_accepted_draft_tokens",
}


def infer_request(request: FrontendRequest) -> Any:
    """The `ModelInferRequest` of a frontend request; ends with an empty final response."""
    from tritonclient.grpc import service_pb2

    message = service_pb2.ModelInferRequest(model_name=FRONTEND_MODEL, id=request.request_id)
    message.parameters[EMPTY_FINAL].bool_param = True
    if request.messages is None:
        add_input(message, "text_input", "BYTES", [request.prompt])
    else:
        add_input(message, "messages", "BYTES", [request.messages])
    add_input(message, "max_tokens", "INT32", [request.max_tokens])
    add_input(message, "stream", "BOOL", [request.stream])
    for field, (tensor, datatype) in _OPTIONAL.items():
        value = getattr(request, field)
        if value is not None:
            add_input(message, tensor, datatype, [value])
    if request.stop_words:
        add_input(message, "stop_words", "BYTES", request.stop_words)
    for flag in (*_FLAGS, *(flag for field, flag in _ON_REQUEST.items() if getattr(request, field))):
        add_input(message, flag, "BOOL", [True])
    return message


def stream_error(text: str) -> RequestFailed:
    """RequestFailed for the error text of a response; its code is the word before the first colon, if it is one."""
    match = re.match(r"(?:.*?message: )?([a-z][a-z0-9_]*): (.+)", text, re.DOTALL)
    if match:
        return RequestFailed(" ".join(match[2].split()), code=match[1])
    return RequestFailed(" ".join(text.split()), code="server_error")


class ChunkReader:
    """Makes chunks of the messages of one stream: running counts become counts per chunk."""

    def __init__(self) -> None:
        self._seen_tokens = 0

    def read(self, t_ns: int, message: Any) -> Chunk:
        """The chunk in a `ModelStreamInferResponse`; RequestFailed when it carries an error."""
        if message.error_message:
            raise stream_error(message.error_message)
        response = message.infer_response
        outputs = Outputs(response)
        counters = _counters(outputs)
        return Chunk(
            t_ns=t_ns,
            text=outputs.text("text_output"),
            tokens=self._new_tokens(counters),
            counters=counters,
            details=_details(outputs),
            final=response.parameters[FINAL].bool_param if FINAL in response.parameters else False,
            finish_reason=outputs.text("finish_reason"),
            log_probs=outputs.numbers("output_log_probs"),
        )

    def _new_tokens(self, counters: Counters | None) -> int | None:
        if counters is None or counters.num_output_tokens is None:
            return None
        new = counters.num_output_tokens - self._seen_tokens
        self._seen_tokens = counters.num_output_tokens
        return new


def _counters(outputs: Outputs) -> Counters | None:
    values = {field: outputs.number(tensor) for field, tensor in _COUNTERS.items()}
    histogram = outputs.numbers("acceptance_histogram")
    if histogram is None and all(value is None for value in values.values()):
        return None
    return Counters(**values, acceptance_histogram=histogram)


def _details(outputs: Outputs) -> TokenDetails | None:
    ids = outputs.numbers("token_ids")
    if ids is None:
        return None
    texts = outputs.strings("token_texts") or []
    sources = outputs.numbers("token_sources") or ()
    return TokenDetails(ids, tuple(texts), tuple(bool(s) for s in sources), outputs.numbers("prompt_token_ids"))
