"""From a request body to what the frontend model is sent."""

from __future__ import annotations

from typing import Any

from trtspec.openai_api.bodies import Body, ChatBody, CompletionBody
from trtspec.wire import FrontendRequest

__all__ = ["frontend_request"]

_SEEDS = 1 << 64


def frontend_request(body: Body, request_id: str, max_tokens: int) -> FrontendRequest:
    """The frontend's request for `body`, of at most `max_tokens` tokens."""
    return FrontendRequest(
        prompt=body.text if isinstance(body, CompletionBody) else "",
        messages=body.conversation if isinstance(body, ChatBody) else None,
        max_tokens=max_tokens,
        stream=bool(body.stream),
        stop_words=body.stop_words,
        seed=None if body.seed is None else body.seed % _SEEDS,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        repetition_penalty=body.repetition_penalty,
        min_tokens=body.min_tokens,
        num_draft_tokens=body.num_draft_tokens,
        token_details=body.wants_log_probs,
        log_probs=body.wants_log_probs,
        request_id=request_id,
        **_choice(body),
    )


def _choice(body: Body) -> dict[str, Any]:
    """temperature, top_p and top_k as the runtimes understand them.

    OpenAI's temperature 0 is greedy: top_k 1 says so to every runtime. A temperature alone samples from the whole
    vocabulary, which TensorRT-LLM does only when top_p is given. None of the three: the deployment's default, greedy.
    """
    if body.temperature == 0:
        return {"top_k": 1}
    alone = body.temperature is not None and body.top_p is None and not body.top_k
    return {"temperature": body.temperature, "top_p": 1.0 if alone else body.top_p, "top_k": body.top_k}
