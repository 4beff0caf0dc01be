"""Frontend and torch leaf together, on a tiny pair: both arms say the same, and a stopped answer stops the leaf."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest

from tests.serving.toy import ToyDeployment
from trtspec.spec import Arm

pytestmark = pytest.mark.triton

PROMPTS = ("hello world", "def add(a", "<|im_start|>user\nhow are you<|im_end|>\n<|im_start|>assistant\n")


def post(deployment: ToyDeployment, arm: Arm, body: Mapping[str, Any]) -> dict[str, Any]:
    url = f"http://{deployment.server(arm).http_url}/v2/models/tensorrt_llm_bls/generate"
    request = urllib.request.Request(url, data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


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
    time.sleep(1.0)
    assert streamed_responses(toy_deployment) - before < 250
