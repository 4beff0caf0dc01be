"""The frontend in the real Triton, on leaves whose answers are known."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.conftest import ServeRepository
from tests.triton_models.deployment import ANSWERS, END_ID, Deployment, GrpcStream, eventually, make_deployment

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def start(serve_repository: ServeRepository, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Starts a deployment for the length of the module, each set of options once."""
    made: dict[str, tuple[Any, Deployment]] = {}

    def deploy(**options: Any) -> Deployment:
        key = repr(sorted(options.items()))
        if key not in made:
            deployment = make_deployment(tmp_path_factory.mktemp("deployment"), **options)
            context = serve_repository(deployment.repository)
            server = context.__enter__()
            deployment.url = f"http://{server.http_url}"
            deployment.grpc_url = server.grpc_url
            made[key] = (context, deployment)
        made[key][1].forget()
        return made[key][1]

    yield deploy
    for context, _ in made.values():
        context.__exit__(None, None, None)


@pytest.fixture
def arm(start: Callable[..., Deployment]) -> Deployment:
    return start()


@pytest.mark.parametrize("prompt", ["Say hello", "Unicode", "Code", "Long"])
@pytest.mark.parametrize("draft", [0, 1, 4, 8])
def test_streamed_and_whole_answers_are_the_targets_text(arm: Deployment, prompt: str, draft: int) -> None:
    body = {"text_input": prompt, "num_draft_tokens": draft}
    whole = arm.generate(body)
    events = arm.stream(body)
    assert whole["text_output"] == ANSWERS[prompt] == "".join(event["text_output"] for event in events)
    assert all("\ufffd" not in event["text_output"] for event in events)
    assert all(event["text_output"] for event in events[:-1])
    assert len(events) > 1
    expected = len(arm.ids(ANSWERS[prompt])) + 1
    for last in (whole, events[-1]):
        assert last["num_output_tokens"] == expected
        assert last["num_input_tokens"] == len(arm.ids(prompt))
        assert last["finish_reason"] == "stop"
    assert all(event["finish_reason"] == "" for event in events[:-1])


def test_counters_add_up_and_grow(arm: Deployment) -> None:
    events = arm.stream({"text_input": "Long", "num_draft_tokens": 3})
    for event in events:
        histogram = event["acceptance_histogram"]
        assert len(histogram) == 4
        assert sum(histogram) == event["num_spec_steps"]
        accepted = sum(k * rounds for k, rounds in enumerate(histogram))
        assert accepted == event["total_accepted_draft_tokens"]
        assert event["acceptance_rate"] == pytest.approx(accepted / event["total_draft_tokens"], abs=1e-6)
    steps = [event["num_spec_steps"] for event in events]
    assert steps == sorted(steps)
    last = events[-1]
    assert 0.3 < last["acceptance_rate"] < 0.9
    drafts = arm.inner("tensorrt_llm_draft")
    verified = [call for call in arm.inner("tensorrt_llm") if "draft_input_ids" in call]
    assert len(verified) == last["num_spec_steps"] == len(drafts)
    assert sum(len(call["draft_input_ids"]) for call in verified) == last["total_draft_tokens"]
    assert last["num_draft_fallbacks"] == 0


def test_plain_generation_is_one_streaming_inner_request(arm: Deployment) -> None:
    answer = arm.generate({"text_input": "Long", "num_draft_tokens": 0})
    assert answer["total_draft_tokens"] == answer["num_spec_steps"] == 0
    assert answer["acceptance_rate"] == 0.0
    assert not arm.inner("tensorrt_llm_draft")
    (call,) = arm.inner("tensorrt_llm")
    assert call["streaming"] == [True]
    assert call["request_output_len"] == [200]


def test_the_default_draft_length_is_the_deployments(arm: Deployment) -> None:
    arm.generate({"text_input": "Long"})
    assert {call["request_output_len"][0] for call in arm.inner("tensorrt_llm_draft")[:-2]} == {4}


def test_the_baseline_arm_has_no_draft_and_says_so(start: Callable[..., Deployment]) -> None:
    baseline = start(draft_mode=None)
    assert baseline.generate({"text_input": "Unicode"})["text_output"] == ANSWERS["Unicode"]
    assert baseline.generate({"text_input": "Unicode", "num_draft_tokens": 0})["num_spec_steps"] == 0
    status, text = baseline.refused({"text_input": "Unicode", "num_draft_tokens": 3})
    assert status == 400
    assert text == "invalid_request: num_draft_tokens is 3, but this deployment has no draft model"


@pytest.mark.parametrize("draft", [0, 4])
def test_max_tokens(arm: Deployment, draft: int) -> None:
    answer = arm.generate({"text_input": "Long", "max_tokens": 5, "num_draft_tokens": draft})
    assert answer["num_output_tokens"] == 5
    assert answer["finish_reason"] == "length"
    assert answer["text_output"] == arm.tokenizer.decode(arm.ids(ANSWERS["Long"])[:5])


@pytest.mark.parametrize("draft", [0, 4])
def test_stop_words(arm: Deployment, draft: int) -> None:
    """Any number of them, and nothing runs on after one."""
    body = {
        "text_input": "Long",
        "num_draft_tokens": draft,
        "stop_words": ["never there", "lazy dog", "", "jumps over"],
    }
    events = arm.stream(body)
    assert "".join(event["text_output"] for event in events) == "the quick brown fox "
    assert events[-1]["finish_reason"] == "stop_word"
    kept = len(arm.ids("the quick brown fox "))
    assert kept - 1 <= events[-1]["num_output_tokens"] <= kept
    assert arm.generate(body)["text_output"] == "the quick brown fox "


def test_a_stop_word_ends_the_inner_stream(start: Callable[..., Deployment]) -> None:
    slow = start(delay_ms=20)
    slow.generate({"text_input": "Long", "num_draft_tokens": 0, "stop_words": "quick"})
    assert eventually(lambda: len(slow.streamed()) == 1)
    assert slow.streamed()[0] < len(slow.ids(ANSWERS["Long"])) / 2


def test_a_leaf_that_cannot_be_stopped_does_no_harm(start: Callable[..., Deployment]) -> None:
    stubborn = start(can_stop=False)
    for _ in range(2):
        answer = stubborn.generate({"text_input": "Long", "num_draft_tokens": 0, "stop_words": "quick"})
        assert answer["text_output"] == "the "


def test_an_empty_stop_word_stops_nothing(arm: Deployment) -> None:
    assert arm.generate({"text_input": "Say hello", "stop_words": [""]})["text_output"] == ANSWERS["Say hello"]


@pytest.mark.parametrize("draft", [0, 4])
def test_a_special_token_can_be_a_stop_word(arm: Deployment, draft: int) -> None:
    answer = arm.generate({"text_input": "End", "num_draft_tokens": draft, "stop_words": "<|im_start|>"})
    assert (answer["text_output"], answer["finish_reason"]) == ("it ends", "stop_word")
    assert arm.generate({"text_input": "End", "num_draft_tokens": draft})["text_output"] == "it ends here"


def test_token_details(arm: Deployment) -> None:
    events = arm.stream({"text_input": "Code", "return_token_details": True})
    ids = [token for event in events for token in _list(event["token_ids"])]
    texts = [text for event in events for text in _list(event["token_texts"])]
    sources = [source for event in events for source in _list(event["token_sources"])]
    assert ids == [*arm.ids(ANSWERS["Code"]), END_ID]
    assert "".join(texts) == ANSWERS["Code"]
    assert sum(sources) == events[-1]["total_accepted_draft_tokens"] > 0
    assert events[0]["prompt_token_ids"] == arm.ids("Code")
    assert all("prompt_token_ids" not in event for event in events[1:])
    for event in events:
        assert "".join(_list(event["token_texts"])) == event["text_output"]
    assert "token_ids" not in arm.generate({"text_input": "Code"})


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_a_draft_that_raises_costs_nothing_but_speed(start: Callable[..., Deployment]) -> None:
    broken = start(draft_mode="broken")
    answers = [broken.generate({"text_input": "Unicode"}) for _ in range(2)]
    assert [answer["text_output"] for answer in answers] == [ANSWERS["Unicode"]] * 2
    assert [answer["num_draft_fallbacks"] for answer in answers] == [1, 1]
    assert [answer["num_spec_steps"] for answer in answers] == [1, 0]


def test_a_draft_that_hangs_is_given_up(start: Callable[..., Deployment]) -> None:
    hanging = start(draft_mode="hanging", draft_timeout_seconds="0.3")
    answer = hanging.generate({"text_input": "Say hello"})
    assert (answer["text_output"], answer["num_draft_fallbacks"]) == (ANSWERS["Say hello"], 1)


def test_a_target_that_echoes_the_prompt(start: Callable[..., Deployment]) -> None:
    """The draft returns new tokens only, the target the prompt as well."""
    echoing = start(echo=True)
    for draft in (0, 2):
        answer = echoing.generate({"text_input": "Code", "num_draft_tokens": draft})
        assert answer["text_output"] == ANSWERS["Code"]


def test_an_error_of_the_target_is_one_line(arm: Deployment) -> None:
    for draft in (0, 4):
        status, text = arm.refused({"text_input": "unknown prompt", "num_draft_tokens": draft})
        assert status in {400, 500}  # generate answers 400 to every error up to some Triton version
        assert text.startswith("target_failed: ")
        assert "no script" in text
        assert "\n" not in text
        assert "Traceback" not in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"num_draft_token": 3}, "unknown input num_draft_token; did you mean num_draft_tokens?"),
        ({"beam_width": 2}, "beam_width must be 1: speculation has one beam"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"num_draft_tokens": -1}, "num_draft_tokens must be at least 0"),
        ({"num_draft_tokens": 9}, "num_draft_tokens 9 is more than the max_draft_length 8"),
        ({"temperature": -0.5}, "temperature must be a number of at least 0"),
        ({"top_p": 1.5}, "top_p must be at most 1"),
        ({"text_input": ""}, "text_input has no tokens"),
    ],
)
def test_mistakes_are_named(arm: Deployment, body: dict[str, Any], message: str) -> None:
    status, text = arm.refused({"text_input": "Say hello", **body})
    assert status == 400
    assert text.startswith(f"invalid_request: {message}")
    assert not arm.calls()


def test_a_prompt_that_is_too_long(arm: Deployment) -> None:
    status, text = arm.refused({"text_input": "the cat " * 400})
    assert status == 400
    assert text.startswith("prompt_too_long: the prompt has ")
    assert "512" in text


def test_several_requests_at_a_time(start: Callable[..., Deployment]) -> None:
    """All of twelve slow requests have begun before the first one ends, on one instance."""
    slow = start(delay_ms=30)

    def one(_: int) -> str:
        return str(slow.generate({"text_input": "Long", "max_tokens": 40})["text_output"])

    with ThreadPoolExecutor(12) as pool:
        texts = list(pool.map(one, range(12)))
    assert len(set(texts)) == 1
    calls = [call for call in slow.calls() if call["model"] == "tensorrt_llm"]
    longest = max(len(call["inputs"]["input_ids"]) for call in calls)
    begun = [call["t"] for call in calls if len(call["inputs"]["input_ids"]) == len(slow.ids("Long"))]
    ended = [call["t"] for call in calls if len(call["inputs"]["input_ids"]) == longest]
    assert len(begun) == len(ended) == 12
    assert max(begun) < min(ended)


def test_a_client_that_leaves_causes_no_more_calls(start: Callable[..., Deployment]) -> None:
    """Neither draft nor target is called after the client has gone."""
    slow = start(delay_ms=40)
    stream = GrpcStream(
        slow.grpc_url,
        {"text_input": ["Long"], "max_tokens": [60], "stream": [True], "num_draft_tokens": [2]},
        {"text_input": "BYTES", "max_tokens": "INT32", "stream": "BOOL", "num_draft_tokens": "INT32"},
    )
    stream.next()
    stream.next()
    stream.close(cancel=True)
    assert slow.comes_to_rest()
    assert len(slow.inner("tensorrt_llm")) < 16  # the whole answer takes more than twenty


def test_a_client_that_leaves_ends_the_plain_stream(start: Callable[..., Deployment]) -> None:
    slow = start(delay_ms=40)
    events = slow.events({"text_input": "Long", "num_draft_tokens": 0})
    for _ in range(3):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert eventually(lambda: len(slow.streamed()) == 1)
    assert slow.streamed()[0] < len(slow.ids(ANSWERS["Long"])) / 2


def test_grpc_streaming(arm: Deployment) -> None:
    stream = GrpcStream(
        arm.grpc_url,
        {"text_input": ["Unicode"], "max_tokens": [200], "stream": [True], "stop_words": ["done", "zzz"]},
        {"text_input": "BYTES", "max_tokens": "INT32", "stream": "BOOL", "stop_words": "BYTES"},
    )
    texts, final = [], False
    while not final:
        result = stream.next()
        assert not isinstance(result, Exception), result
        response = result.get_response()
        final = response.parameters["triton_final_response"].bool_param
        texts.append(result.as_numpy("text_output").reshape(-1)[0].decode())
    stream.close()
    assert "".join(texts) == ANSWERS["Unicode"].removesuffix("done")
    assert result.as_numpy("finish_reason").reshape(-1)[0] == b"stop_word"


def test_a_batch_is_refused(arm: Deployment) -> None:
    from tritonclient.grpc import InferenceServerClient, InferInput

    answers: queue.Queue[Any] = queue.Queue()
    client = InferenceServerClient(arm.grpc_url)
    client.start_stream(lambda result, error: answers.put(error or result), stream_timeout=20)
    inputs = []
    for name, array, kind in (
        ("text_input", np.array([["a"], ["b"]], np.object_), "BYTES"),
        ("max_tokens", np.array([[3], [3]], np.int32), "INT32"),
    ):
        made = InferInput(name, list(array.shape), kind)
        made.set_data_from_numpy(array)
        inputs.append(made)
    client.async_stream_infer("tensorrt_llm_bls", inputs)
    answer = answers.get(timeout=20)
    client.stop_stream()
    client.close()
    assert "invalid_request: text_input has batch size 2" in str(answer)


_FORWARDED = {
    "temperature": (0.5, "temperature", 0.5),
    "top_k": (7, "runtime_top_k", 7),
    "top_p": (0.25, "runtime_top_p", 0.25),
    "repetition_penalty": (1.5, "repetition_penalty", 1.5),
    "presence_penalty": (-0.5, "presence_penalty", -0.5),
    "frequency_penalty": (0.5, "frequency_penalty", 0.5),
    "seed": (123456789012, "seed", 123456789012),
    "pad_id": (3, "pad_id", 3),
    "end_id": (5, "end_id", 5),
}


@pytest.mark.parametrize("name", _FORWARDED)
def test_sampling_inputs_reach_the_target(arm: Deployment, name: str) -> None:
    sent, leaf_name, received = _FORWARDED[name]
    arm.generate({"text_input": "Say hello", "max_tokens": 6, name: sent})
    arm.generate({"text_input": "Say hello", "max_tokens": 6, "num_draft_tokens": 0, name: sent})
    calls = arm.inner("tensorrt_llm")
    assert len(calls) > 2
    assert [call[leaf_name] for call in calls] == [[received]] * len(calls)
    choice = {"temperature", "runtime_top_k", "runtime_top_p", "seed"}
    assert all(not choice & call.keys() for call in arm.inner("tensorrt_llm_draft"))


def test_min_tokens_counts_over_all_rounds(arm: Deployment) -> None:
    arm.generate({"text_input": "Long", "max_tokens": 20, "min_tokens": 9})
    prompt = len(arm.ids("Long"))
    for call in arm.inner("tensorrt_llm"):
        made = len(call["input_ids"]) - prompt
        assert call.get("min_tokens", [0]) == [max(0, 9 - made)]


def test_bad_words_reach_both_leaves_as_ids(arm: Deployment) -> None:
    from trtspec.speculation import unpack_words

    arm.generate({"text_input": "Say hello", "bad_words": ["quick", "fox"]})
    for model in ("tensorrt_llm", "tensorrt_llm_draft"):
        words = unpack_words(arm.inner(model)[0]["bad_words_list"])
        assert words == [arm.ids(word) for word in ("quick", " quick", "fox", " fox")]


def test_end_id_minus_one_means_no_end(arm: Deployment) -> None:
    answer = arm.generate({"text_input": "Say hello", "max_tokens": 40, "end_id": -1})
    assert answer["num_output_tokens"] == 40
    assert answer["finish_reason"] == "length"


def test_several_end_ids_go_to_the_leaf(arm: Deployment) -> None:
    arm.generate({"text_input": "Say hello"})
    call = arm.inner("tensorrt_llm")[0]
    assert call["end_id"] == [END_ID]
    assert call["stop_words_list"] == [[0], [1]]


def test_the_prompt_is_returned_when_asked_for(arm: Deployment) -> None:
    body = {"text_input": "Say hello", "exclude_input_in_output": False}
    assert arm.generate(body)["text_output"] == "Say hello" + ANSWERS["Say hello"]
    assert "".join(event["text_output"] for event in arm.stream(body)) == "Say hello" + ANSWERS["Say hello"]
    assert arm.generate({**body, "exclude_input_in_output": True})["text_output"] == ANSWERS["Say hello"]


@pytest.mark.parametrize(
    ("switch", "output"),
    [
        ("return_num_input_tokens", "num_input_tokens"),
        ("return_num_output_tokens", "num_output_tokens"),
        ("return_perf_metrics", "acceptance_histogram"),
    ],
)
def test_switches_leave_outputs_out(arm: Deployment, switch: str, output: str) -> None:
    body = {"text_input": "Say hello"}
    assert output in arm.generate(body)
    assert output in arm.generate({**body, switch: True})
    assert output not in arm.generate({**body, switch: False})


def test_thousands_of_inner_calls(arm: Deployment) -> None:
    """The Python backend frees finished response iterators in a thread of its own, which once killed the frontend."""

    def one(_: int) -> str:
        return str(arm.generate({"text_input": "Long", "num_draft_tokens": 2})["text_output"])

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, range(40))) == {ANSWERS["Long"]}
    assert len(arm.calls()) > 4000
