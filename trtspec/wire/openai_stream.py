"""The pieces of an OpenAI-compatible stream as chunks, and the request that asks for it.

What servers do differently (read in vllm-project/vllm's openai protocol and serving modules, sgl-project/sglang's
serving_chat, serving_completions and usage_processor, NVIDIA/TensorRT-LLM's openai_protocol and postprocess_handlers):

* vLLM, SGLang and trtllm-serve give running counts with every piece for `continuous_usage_stats`; others refuse it or
  tell once, in a last piece without choices (llama.cpp in the piece with the finish_reason).
* A first piece has only a role; reasoning comes as `reasoning_content` or `reasoning`; trtllm-serve sends pieces that
  have tokens and no text yet.
* Errors come as events (`refusals`), after which SGLang and vLLM still send `[DONE]`; "abort" and "error" are
  finish_reasons of answers that were cut off.
* Left to themselves they sample: temperature 0 has to be said.
* SGLang (and trtspec) tell accepted and rejected draft tokens in `completion_tokens_details`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.errors import RequestFailed
from trtspec.wire.http import parse_json
from trtspec.wire.messages import Chunk, Counters, FrontendRequest
from trtspec.wire.readable import count
from trtspec.wire.refusals import document_error

__all__ = ["DONE", "PieceReader", "openai_body"]

DONE = b"[DONE]"
_CUT_OFF = frozenset({"abort", "error", "cancelled"})
# field of FrontendRequest → field of the body
_OPTIONAL = {
    "top_p": "top_p",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    # not OpenAI's, but taken by all servers of open models
    "top_k": "top_k",
    "min_tokens": "min_tokens",
    "repetition_penalty": "repetition_penalty",
    # trtspec's
    "num_draft_tokens": "num_draft_tokens",
}


def openai_body(request: FrontendRequest, model: str, *, chat: bool, continuous: bool) -> bytes:
    """The JSON of a request; `continuous`: this server counts tokens with every piece. RequestFailed as for Triton."""
    import orjson

    body: dict[str, Any] = {
        "model": model,
        **(_conversation(request) if chat else {"prompt": request.prompt}),
        "max_tokens": request.max_tokens,
        "temperature": 0 if request.temperature is None else request.temperature,
        "stream": request.stream,
    }
    given = ((name, getattr(request, field)) for field, name in _OPTIONAL.items())
    body |= {name: value for name, value in given if value is not None}
    if request.stop_words:
        body["stop"] = list(request.stop_words)
    if request.stream and request.include_usage:
        body["stream_options"] = {"include_usage": True, **({"continuous_usage_stats": True} if continuous else {})}
    try:
        return orjson.dumps(body)
    except (TypeError, ValueError) as error:
        raise RequestFailed(f"the request cannot be written as JSON: {error}", code="invalid_request") from None


def _conversation(request: FrontendRequest) -> dict[str, Any]:
    if request.messages is None:
        return {"messages": [{"role": "user", "content": request.prompt}]}
    return {"messages": parse_json(request.messages.encode())}


class PieceReader:
    """Reads the events of one stream, or the one document of an answer that is not streamed."""

    def __init__(self) -> None:
        self._seen_tokens = 0
        self._reason = ""

    def read(self, t_ns: int, event: bytes) -> Chunk:
        """The chunk in an event, `final` for `[DONE]`; RequestFailed when it is an error or no answer."""
        if event == DONE:
            return Chunk(t_ns, "", final=True)
        try:
            document = parse_json(event)
        except ValueError:
            raise RequestFailed("stream ended early: inside an event", code="ended_early") from None
        if not isinstance(document, dict) or "choices" not in document or "error" in document:
            error = document_error(document)
            if error is not None:
                raise error
        choices = document.get("choices") or [{}]
        reason = str(choices[0].get("finish_reason") or "")
        if reason in _CUT_OFF:
            raise RequestFailed(f"the server cut the answer off (finish_reason {reason})", code=reason)
        usage = document.get("usage")
        counters = _counters(usage) if usage else None
        text = _text(choices[0])
        return Chunk(t_ns, text, self._new_tokens(counters), counters, finish_reason=reason)

    def _new_tokens(self, counters: Counters | None) -> int | None:
        if counters is None or counters.num_output_tokens is None:
            return None
        new = counters.num_output_tokens - self._seen_tokens
        self._seen_tokens = counters.num_output_tokens
        return new


def _text(choice: Mapping[str, Any]) -> str:
    """What was generated: of a completion, a piece of a chat or a whole message, its reasoning first."""
    text = choice.get("text")
    if text is not None:
        return str(text)
    message = choice.get("delta") or choice.get("message") or {}
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return str(reasoning) + str(message.get("content") or "")


def _counters(usage: Mapping[str, Any]) -> Counters:
    details = usage.get("completion_tokens_details") or {}
    accepted, rejected = (count(details.get(f"{name}_prediction_tokens")) for name in ("accepted", "rejected"))
    drafted = None if accepted is None or rejected is None else accepted + rejected
    return Counters(
        num_input_tokens=count(usage.get("prompt_tokens")),
        num_output_tokens=count(usage.get("completion_tokens")),
        # 0 and 0 is what a server without speculation says
        num_draft_tokens=drafted or None,
        num_accepted_tokens=accepted if drafted else None,
    )
