"""Completions, chat, models, health and metrics, with the official client before the real Triton."""

from __future__ import annotations

import math
from typing import Any

import openai
import pytest

from tests.openai_api.http import get, post
from trtspec.openai_api import OpenaiServer

PROMPT = "the quick brown fox"
MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello world"}]
# what the toy's chat template makes of them
RENDERED = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n"


def complete(client: openai.OpenAI, **fields: Any) -> Any:
    return client.completions.create(**{"model": "toy", "prompt": PROMPT, "max_tokens": 24, **fields})


def text(client: openai.OpenAI, **fields: Any) -> str:
    return str(complete(client, **fields).choices[0].text)


def test_a_completion(client: openai.OpenAI) -> None:
    answer = complete(client)
    assert answer.id.startswith("cmpl-")
    assert (answer.object, answer.model) == ("text_completion", "toy")
    (choice,) = answer.choices
    assert choice.text
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24


def test_usage_counts_what_the_draft_proposed(client: openai.OpenAI) -> None:
    details = complete(client).usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 0
    assert details.rejected_prediction_tokens > 0
    without = complete(client, extra_body={"num_draft_tokens": 0})
    assert without.usage.completion_tokens_details.accepted_prediction_tokens == 0
    assert without.usage.completion_tokens_details.rejected_prediction_tokens == 0
    assert without.choices[0].text == text(client)


def test_a_streamed_completion_is_the_whole_one(client: openai.OpenAI) -> None:
    chunks = list(complete(client, stream=True))
    assert len(chunks) > 2
    assert "".join(chunk.choices[0].text for chunk in chunks) == text(client)
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("chat", [False, True])
def test_a_stream_with_usage(client: openai.OpenAI, chat: bool) -> None:
    create: Any = client.chat.completions.create if chat else client.completions.create
    content = {"messages": MESSAGES} if chat else {"prompt": PROMPT}
    whole = create(model="toy", max_tokens=16, **content)
    *chunks, last = create(model="toy", max_tokens=16, stream=True, stream_options={"include_usage": True}, **content)
    assert last.choices == []
    assert last.usage == whole.usage
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in chunks)


def test_chat_is_rendered_by_the_models_template(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="toy", messages=MESSAGES, max_completion_tokens=16)
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == text(client, prompt=RENDERED, max_tokens=16)
    assert choice.finish_reason == "length"


def test_a_streamed_chat_is_the_whole_one(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="toy", messages=MESSAGES, max_tokens=16)
    first, *chunks = client.chat.completions.create(model="toy", messages=MESSAGES, max_tokens=16, stream=True)
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"
    assert chunks[-1].choices[0].delta.content is None


def test_an_answer_goes_back_into_the_conversation(client: openai.OpenAI) -> None:
    """What the client dumps of a message (null fields included) is a message again."""
    first = client.chat.completions.create(model="toy", messages=MESSAGES, max_tokens=4)
    history = [*MESSAGES, first.choices[0].message.model_dump(exclude={"annotations", "audio"})]
    history.append({"role": "user", "content": [{"type": "text", "text": "again"}]})
    assert client.chat.completions.create(model="toy", messages=history, max_tokens=4).choices[0].message.content


def test_a_stop_word_ends_the_answer_and_is_not_in_it(client: openai.OpenAI) -> None:
    whole = text(client)
    for stop in (whole[4:6], [whole[4:6], "never"]):
        answer = complete(client, stop=stop).choices[0]
        assert answer.text == whole[: whole.index(whole[4:6])]
        assert answer.finish_reason == "stop"
        streamed = "".join(chunk.choices[0].text for chunk in complete(client, stop=stop, stream=True))
        assert streamed == answer.text


def test_without_a_limit_the_answer_takes_what_fits(client: openai.OpenAI) -> None:
    usage = complete(client, prompt="hello world", max_tokens=openai.omit).usage
    assert usage.total_tokens == 512


def test_sampling_fields_reach_the_model(client: openai.OpenAI) -> None:
    greedy = text(client)
    assert text(client, temperature=0) == greedy
    assert text(client, temperature=0.0, seed=5) == greedy
    hot = text(client, temperature=2, seed=5)
    assert hot != greedy
    assert text(client, temperature=2, seed=5) == hot
    assert text(client, temperature=2, seed=6) != hot
    assert text(client, temperature=2, seed=-6) != hot
    assert text(client, temperature=2, seed=5, top_p=0.01) == greedy
    assert text(client, temperature=2, seed=5, extra_body={"top_k": 1}) == greedy
    assert text(client, presence_penalty=2.0) != greedy
    assert text(client, frequency_penalty=2.0) != greedy
    assert text(client, extra_body={"repetition_penalty": 5.0}) != greedy


def test_fields_without_effect_are_taken(client: openai.OpenAI) -> None:
    neutral: dict[str, Any] = {
        "n": 1,
        "best_of": 1,
        "echo": False,
        "logit_bias": {},
        "suffix": None,
        "user": "somebody",
        "extra_body": {"metadata": {"a": "b"}, "store": False, "service_tier": "auto"},
    }
    assert text(client, **neutral) == text(client)


def test_log_probabilities_of_a_completion(client: openai.OpenAI) -> None:
    found = complete(client, logprobs=0).choices[0].logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.text_offset) == 24
    assert all(math.isfinite(value) and value <= 0 for value in found.token_logprobs)
    assert "".join(found.tokens) == text(client)
    streamed = [chunk.choices[0].logprobs for chunk in complete(client, logprobs=0, stream=True)]
    parts = [part for part in streamed if part is not None]
    assert [value for part in parts for value in part.token_logprobs] == pytest.approx(found.token_logprobs)
    assert [offset for part in parts for offset in part.text_offset] == found.text_offset


def test_log_probabilities_of_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="toy", messages=MESSAGES, max_tokens=8, logprobs=True)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(token.token for token in logprobs.content) == answer.choices[0].message.content
    assert all(token.bytes is None or bytes(token.bytes).decode() == token.token for token in logprobs.content)


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["toy", "tensorrt_llm_bls"]
    assert client.models.retrieve("toy").object == "model"
    with pytest.raises(openai.NotFoundError, match="there is toy"):
        client.models.retrieve("gpt/5")
    assert text(client, model="tensorrt_llm_bls") == text(client)


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/health/live"])
def test_health(front: OpenaiServer, path: str) -> None:
    assert get(front, path).status == 200


def test_metrics_are_tritons(front: OpenaiServer) -> None:
    reply = get(front, "/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    assert b"nv_inference_request_success" in reply.body
    assert b"trtspec_requests_total" in reply.body


def test_the_schema_names_our_extensions(front: OpenaiServer) -> None:
    paths = get(front, "/openapi.json").document["paths"]
    schema = paths["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"messages", "top_k", "num_draft_tokens"} <= set(schema["properties"])


def test_a_request_has_an_id(front: OpenaiServer) -> None:
    reply = post(front, "/v1/completions", {"model": "toy", "prompt": PROMPT, "max_tokens": 1})
    assert reply.headers["x-request-id"] == reply.document["id"]
