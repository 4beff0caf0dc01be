"""Frontend and torch leaf together, on a tiny pair: both arms say the same, and a stopped answer stops the leaf."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.toy import ToyDeployment
from tests.speculation.test_stopping import character_by_character
from trtspec.spec import ARMS, Arm

pytestmark = pytest.mark.triton

PROMPTS = ("hello world", "def add(a", "<|im_start|>user\nhow are you<|im_end|>\n<|im_start|>assistant\n")


def post(deployment: ToyDeployment, arm: Arm, body: Mapping[str, Any]) -> dict[str, Any]:
    url = f"http://{deployment.server(arm).http_url}/v2/models/tensorrt_llm_bls/generate"
    given = {name: value for name, value in body.items() if value is not None}
    request = urllib.request.Request(url, data=json.dumps(given).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def stream(deployment: ToyDeployment, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    url = f"http://{deployment.server('speculative').http_url}/v2/models/tensorrt_llm_bls/generate_stream"
    request = urllib.request.Request(url, data=json.dumps({**body, "stream": True}).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        return [json.loads(line[6:]) for line in response if line.startswith(b"data: ")]


def streamed_responses(deployment: ToyDeployment) -> int:
    """Responses of the baseline's leaf so far, over all requests."""
    url = f"http://{deployment.server('baseline').http_url}/v2/models/tensorrt_llm/stats"
    with urllib.request.urlopen(url, timeout=60) as response:
        (stats,) = json.loads(response.read())["model_stats"]
    return sum(int(entry["success"]["count"]) for entry in stats["response_stats"].values())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.8, "seed": 7},
        {"temperature": 1.2, "top_k": 20, "top_p": 0.9, "seed": 3},
        {"repetition_penalty": 1.3},
        {"presence_penalty": 0.7, "frequency_penalty": 0.4},
        {"min_tokens": 30},
        {"bad_words": ["the", " w", "@"]},
        {"end_id": -1},
    ],
    ids=str,
)
def test_both_arms_give_the_same_answer(toy_deployment: ToyDeployment, options: dict[str, Any]) -> None:
    for prompt in PROMPTS:
        body = {"text_input": prompt, "max_tokens": 40, **options}
        baseline = post(toy_deployment, "baseline", body)
        for draft in (1, 4, 8):
            answer = post(toy_deployment, "speculative", {**body, "num_draft_tokens": draft})
            for name in ("text_output", "num_output_tokens", "num_input_tokens", "finish_reason"):
                assert answer[name] == baseline[name]
            assert answer["num_spec_steps"] > 0
            assert answer["num_draft_fallbacks"] == 0


def test_an_answer_as_long_as_the_engine_allows(toy_deployment: ToyDeployment) -> None:
    """Both arms stop at the same token, although the target engine has room for drafts on top."""
    body = {"text_input": "the cat " * 100, "max_tokens": 4000, "end_id": -1}
    baseline, answer = (post(toy_deployment, arm, body) for arm in ("baseline", "speculative"))
    assert answer["text_output"] == baseline["text_output"]
    assert answer["num_input_tokens"] + answer["num_output_tokens"] == 512
    assert answer["finish_reason"] == baseline["finish_reason"] == "length"


def test_a_stop_word_stops_the_leaf(toy_deployment: ToyDeployment) -> None:
    # a sampled answer has all its characters spread out, so that a late stop word is no early one
    body = {"text_input": "hello world", "max_tokens": 400, "end_id": -1, "temperature": 1.0, "seed": 5}
    text = post(toy_deployment, "baseline", body)["text_output"]
    before = streamed_responses(toy_deployment)
    answer = post(toy_deployment, "baseline", {**body, "stop_words": [text[30:40], "never there"]})
    assert answer["finish_reason"] == "stop_word"
    assert text.startswith(answer["text_output"])
    seen = -1
    while seen != (seen := streamed_responses(toy_deployment)):
        time.sleep(1.0)
    assert seen - before < 400


PIECES = ["the ", "fox ", "你好", "🎉", "👩‍👩‍👧", "e\u0301", "नमस्ते", "שלום", "\n", " ", "a"]


@st.composite
def prompts(draw: st.DrawFn) -> str:
    return draw(
        st.lists(st.sampled_from(PIECES) | st.text(min_size=1, max_size=3), min_size=1, max_size=6).map("".join)
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), prompt=prompts(), draft=st.integers(1, 8), seed=st.integers(0, 1000))
def test_any_text_streamed_whole_and_from_the_baseline_is_the_same(
    toy_deployment: ToyDeployment, data: st.DataObject, prompt: str, draft: int, seed: int
) -> None:
    """Sampled bytes: parts of characters, invalid ones, and stop words that lie across tokens and rounds."""
    body = {"text_input": prompt, "max_tokens": 30, "end_id": -1, "temperature": 1.5, "seed": seed}
    text = post(toy_deployment, "baseline", body)["text_output"]
    places = st.tuples(st.integers(0, max(0, len(text) - 1)), st.integers(1, 5))
    words = [text[start : start + size] for start, size in data.draw(st.lists(places, max_size=3))]
    words = [word for word in words if word and "\ufffd" not in word]
    if words:
        body["stop_words"] = words
    answers = [post(toy_deployment, "baseline", body)]
    answers.append(post(toy_deployment, "speculative", {**body, "num_draft_tokens": draft}))
    events = stream(toy_deployment, {**body, "num_draft_tokens": draft})
    answers.append({**events[-1], "text_output": "".join(event["text_output"] for event in events)})
    cut = character_by_character(words, text)
    for answer in answers:
        assert answer["text_output"] == cut[0]
        assert answer["finish_reason"] == ("length" if cut[1] is None else "stop_word")
        assert answer["num_output_tokens"] == answers[0]["num_output_tokens"]


def test_messages_are_the_templated_prompt(toy_deployment: ToyDeployment) -> None:
    messages = [{"role": "user", "content": "how are you"}]
    chat = {"messages": json.dumps(messages), "max_tokens": 20, "return_token_details": True}
    for arm in ARMS:
        answer, same = (
            post(toy_deployment, arm, {**chat, **given}) for given in ({}, {"text_input": PROMPTS[2], "messages": None})
        )
        assert answer["text_output"] == same["text_output"]
        assert answer["prompt_token_ids"] == same["prompt_token_ids"]


def test_log_probs_of_both_arms_are_the_models(toy_deployment: ToyDeployment) -> None:
    body = {"text_input": "hello world", "max_tokens": 25, "end_id": -1, "return_log_probs": True}
    baseline = post(toy_deployment, "baseline", body)
    assert len(baseline["output_log_probs"]) == 25
    assert all(value < 0 for value in baseline["output_log_probs"])
    assert sum(baseline["output_log_probs"]) == pytest.approx(baseline["cum_log_probs"], abs=1e-3)
    answer = post(toy_deployment, "speculative", {**body, "num_draft_tokens": 3})
    assert answer["output_log_probs"] == pytest.approx(baseline["output_log_probs"], abs=1e-3)
