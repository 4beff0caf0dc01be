"""Drafts from the text itself, on the real Triton: the same answers, told apart from a model's drafts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.toy import ToyDeployment
from tests.triton_models.scraping import settled, total
from tests.triton_models.toys import built_toy, post, served, stream
from trtspec.serving import RunningServer
from trtspec.serving.served import frontend_parameters
from trtspec.serving.warmup import warmup_requests
from trtspec.wire import FrontendRequest, ask

pytestmark = pytest.mark.triton

REPEATED = "the cat sat on the mat and the cat sat on the mat and the cat"
# a negative penalty: the answer repeats itself
REPEATING = {"text_input": REPEATED, "max_tokens": 60, "end_id": -1, "frequency_penalty": -1.0}
PROMPTS = (REPEATED, "hello world", "<|im_start|>user\nhow are you<|im_end|>\n<|im_start|>assistant\n")


@pytest.fixture(scope="module")
def ngram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    spec_file = built_toy(tmp_path_factory.mktemp("ngram"), draft={"method": "ngram"}, speculation={"draft_length": 6})
    with served(spec_file) as server:
        yield server


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    draft = {"method": "lookup", "checkpoint": "draft", "lookup_match": 3}
    spec_file = built_toy(tmp_path_factory.mktemp("lookup"), draft=draft, speculation={"draft_length": 2})
    with served(spec_file) as server:
        yield server


@pytest.fixture(params=["ngram", "lookup"])
def server(request: pytest.FixtureRequest) -> RunningServer:
    found: RunningServer = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"end_id": -1},
        {"end_id": -1, "temperature": 0.8, "seed": 7},
        {"repetition_penalty": 1.3, "min_tokens": 20},
        {"frequency_penalty": -1.0, "bad_words": ["the", " w"]},
        {"end_id": -1, "frequency_penalty": -1.0, "stop_words": ["a"]},
    ],
    ids=str,
)
def test_the_answer_is_the_baselines(
    toy_deployment: ToyDeployment, server: RunningServer, options: dict[str, Any]
) -> None:
    for prompt in PROMPTS:
        body = {"text_input": prompt, "max_tokens": 40, **options}
        baseline = post(toy_deployment.server("baseline"), body)
        for length in (None, 0, 1, 8):
            answer = post(server, body if length is None else {**body, "num_draft_tokens": length})
            for name in ("text_output", "num_output_tokens", "num_input_tokens", "finish_reason"):
                assert answer[name] == baseline[name]
            assert answer["num_draft_fallbacks"] == 0
            assert length != 0 or answer["num_spec_steps"] == answer["num_lookup_steps"] == 0


def test_the_counts_tell_who_drafted(ngram: RunningServer, lookup: RunningServer) -> None:
    body = {**REPEATING, "return_token_details": True}
    for server, others in ((ngram, False), (lookup, True)):
        answer = post(server, body)
        found = [answer[name] for name in _LOOKUPS]
        whole = [answer[name] for name in _ALL]
        assert 0 < found[0] <= whole[0]
        assert (found == whole) != others
        assert sum(answer["acceptance_histogram"]) == answer["num_spec_steps"]
        sources = answer["token_sources"]
        assert sources.count(2) == answer["total_accepted_lookup_draft_tokens"] > 0
        assert sources.count(1) + sources.count(2) == answer["total_accepted_draft_tokens"]
        assert len(sources) == answer["num_output_tokens"] == 60


_LOOKUPS = ("num_lookup_steps", "total_lookup_draft_tokens", "total_accepted_lookup_draft_tokens")
_ALL = ("num_spec_steps", "total_draft_tokens", "total_accepted_draft_tokens")


def test_a_client_is_told_too(ngram: RunningServer) -> None:
    request = FrontendRequest(REPEATED, 30, token_details=True, frequency_penalty=-1.0)
    answer = asyncio.run(ask(ngram.grpc_url, request, timeout=60, on_chunk=lambda _: None))
    counters = answer.counters
    assert counters.num_lookup_steps == counters.num_spec_steps
    assert answer.sources.count(2) == counters.num_accepted_lookup_tokens == counters.num_accepted_tokens
    assert (counters.num_accepted_tokens or 0) > 0


def test_the_first_requests_verify_drafts_of_every_source(ngram: RunningServer, lookup: RunningServer) -> None:
    """What `serve` sends before clients do."""
    for server in (ngram, lookup):
        assert len(server.warm_up(60)) == 2 * (2 if server is ngram else 3)
        bodies = list(warmup_requests(server.models, frontend_parameters(server.plan.repository)))
        plain, *drafting = (post(server, {**body, "stream": False, "end_id": -1}) for body in bodies)
        assert plain["num_spec_steps"] == 0
        assert drafting[-1]["num_lookup_steps"] > 0
        if server is lookup:
            assert drafting[0]["num_spec_steps"] > drafting[0]["num_lookup_steps"]


def test_lengths_of_lookup_and_model_are_their_own(lookup: RunningServer) -> None:
    answer = post(lookup, REPEATING)
    looked_up = answer["total_lookup_draft_tokens"], answer["num_lookup_steps"]
    modelled = (answer["total_draft_tokens"] - looked_up[0], answer["num_spec_steps"] - looked_up[1])
    assert looked_up[0] > 2 * looked_up[1]
    assert modelled[0] <= 2 * modelled[1]
    assert len(answer["acceptance_histogram"]) == 9
    # a request's own length holds for both
    answer = post(lookup, {**REPEATING, "num_draft_tokens": 1})
    assert answer["total_draft_tokens"] == answer["num_spec_steps"]
    assert len(answer["acceptance_histogram"]) == 2


def test_text_streams_also_where_nothing_is_found(ngram: RunningServer) -> None:
    body = {"text_input": "hello world", "max_tokens": 40, "end_id": -1, "temperature": 1.5, "seed": 3}
    events, answer = stream(ngram, body), post(ngram, body)
    assert "".join(event["text_output"] for event in events) == answer["text_output"]
    assert len(events) > 10


def test_metrics_tell_lookups_apart(ngram: RunningServer, lookup: RunningServer) -> None:
    answer = post(lookup, REPEATING)
    assert 0 < answer["total_lookup_draft_tokens"] < answer["total_draft_tokens"]
    post(ngram, REPEATING)
    post(ngram, {"text_input": "hello world", "max_tokens": 40, "end_id": -1, "temperature": 1.5, "seed": 3})
    for server, alone in ((ngram, True), (lookup, False)):
        samples = settled(
            f"http://{server.metrics_url}/metrics",
            lambda now: total(now, "trtspec_lookups_total", result="nothing") > 0,
        )
        found, rounds = (total(samples, name, **labels) for name, labels in _ROUNDS)
        assert 0 < found <= rounds
        assert (found == rounds) == alone
        for name in ("drafted", "accepted"):
            whole = total(samples, f"trtspec_{name}_tokens_total")
            part = total(samples, f"trtspec_lookup_{name}_tokens_total")
            assert 0 < part <= whole
            assert (part == whole) == alone


_ROUNDS: tuple[tuple[str, dict[str, str]], ...] = (
    ("trtspec_lookups_total", {"result": "found"}),
    ("trtspec_rounds_total", {}),
)
