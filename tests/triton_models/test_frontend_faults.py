"""What goes wrong around the frontend, in the real Triton: late, leaving and dying, and what a bystander notices."""

from __future__ import annotations

import contextlib
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import ServeRepository
from tests.triton_models.deployment import ANSWERS, Deployment, eventually, make_deployment

pytestmark = pytest.mark.triton

SLOW = {"text_input": "Long", "num_draft_tokens": 0, "max_tokens": 150}


@contextlib.contextmanager
def served(serve: ServeRepository, folder: Path, **options: Any) -> Iterator[tuple[Deployment, int]]:
    deployment = make_deployment(folder, **options)
    with serve(deployment.repository) as server:
        deployment.url, deployment.grpc_url = f"http://{server.http_url}", server.grpc_url
        deployment.metrics_url = f"http://127.0.0.1:{server.ports.metrics}/metrics"
        yield deployment, server.pid


def leaf_process(server_pid: int, model: str) -> psutil.Process:
    for child in psutil.Process(server_pid).children(recursive=True):
        if child.status() != psutil.STATUS_ZOMBIE and f"/{model}/" in " ".join(child.cmdline()):
            return child
    raise AssertionError(f"no process of {model}")


def refusal(answer: Future[tuple[int, str]]) -> str:
    return answer.result(timeout=20)[1]


def test_late_leaving_and_dying(serve_repository: ServeRepository, tmp_path: Path) -> None:
    options = {"delay_ms": 40, "request_timeout_seconds": "4", "max_output_tokens": "190"}
    with served(serve_repository, tmp_path, **options) as (deployment, pid), ThreadPoolExecutor(8) as pool:
        one_bad_request_harms_no_other(deployment, pool)
        deployment.forget()
        a_request_that_takes_too_long_ends_and_so_do_its_calls(deployment)
        a_client_that_leaves_during_a_long_call_ends_it(deployment)
        a_client_that_leaves_during_a_round_ends_its_call(deployment)
        the_request_goes_on_when_the_draft_dies(deployment, pid, pool)
        no_request_waits_for_a_target_that_has_died(deployment, pid, pool)


def one_bad_request_harms_no_other(deployment: Deployment, pool: ThreadPoolExecutor) -> None:
    good = [pool.submit(deployment.generate, {"text_input": "Say hello", "max_tokens": 8}) for _ in range(4)]
    bad = [
        pool.submit(deployment.refused, {"text_input": "Say hello", **body})
        for body in ({"max_tokens": 0}, {"temperature": -1.0}, {"stop_words": ["x"] * 65}, {"max_tokens": 191})
    ]
    assert all(refusal(answer).startswith("invalid_request: ") for answer in bad)
    texts = {answer.result(timeout=20)["text_output"] for answer in good}
    assert texts == {deployment.tokenizer.decode(deployment.ids(ANSWERS["Say hello"])[:8])}


def a_request_that_takes_too_long_ends_and_so_do_its_calls(deployment: Deployment) -> None:
    for draft in (0, 4):
        started = time.monotonic()
        status, text = deployment.refused({**SLOW, "num_draft_tokens": draft})
        assert text.startswith("timeout: the request took longer")
        assert status in {400, 503}  # generate answers 400 to every error up to some Triton version
        assert time.monotonic() - started > 3.9
    assert eventually(lambda: len(deployment.streamed()) == 1)  # the inner stream was stopped
    assert deployment.streamed()[0] < 150
    assert deployment.comes_to_rest()


def a_client_that_leaves_during_a_long_call_ends_it(deployment: Deployment) -> None:
    deployment.forget()
    events = deployment.events(SLOW)
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert eventually(lambda: len(deployment.streamed()) == 1)
    assert deployment.streamed()[0] < 80  # long before its time was up
    assert len(deployment.stops()) == 1


def a_client_that_leaves_during_a_round_ends_its_call(deployment: Deployment) -> None:
    deployment.forget()
    events = deployment.events({**SLOW, "num_draft_tokens": 8})
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert eventually(lambda: len(deployment.stops()) == 1)
    assert deployment.comes_to_rest()
    (stop,) = deployment.stops()
    # the call that is stopped is the last one that was made, whichever model it went to
    last = [call for call in deployment.calls() if "input_ids" in call["inputs"]][-1]
    assert (stop["model"], stop["id"]) == (last["model"], last["id"])


def the_request_goes_on_when_the_draft_dies(deployment: Deployment, pid: int, pool: ThreadPoolExecutor) -> None:
    body = {"text_input": "Say hello", "max_tokens": 6}
    expected = deployment.generate(body)["text_output"]
    under_way = [pool.submit(deployment.generate, body) for _ in range(3)]
    time.sleep(0.2)
    leaf_process(pid, "tensorrt_llm_draft").kill()
    for answer in (*under_way, pool.submit(deployment.generate, body)):
        result = answer.result(timeout=20)
        assert result["text_output"] == expected
    assert result["num_draft_fallbacks"] == 1
    assert result["num_spec_steps"] == 0


def no_request_waits_for_a_target_that_has_died(deployment: Deployment, pid: int, pool: ThreadPoolExecutor) -> None:
    under_way = [pool.submit(deployment.refused, {**SLOW, "max_tokens": 190}) for _ in range(3)]
    time.sleep(0.3)
    leaf_process(pid, "tensorrt_llm").kill()
    started = time.monotonic()
    late = pool.submit(deployment.refused, SLOW)
    for answer in (*under_way, late):
        assert refusal(answer).startswith(("target_failed: Stub process", "timeout: "))
    assert time.monotonic() - started < 15
    with urllib.request.urlopen(f"{deployment.url}/v2/health/live", timeout=10) as response:
        assert response.status == 200


def test_a_target_that_dies_is_noticed_without_any_time_limit(
    serve_repository: ServeRepository, tmp_path: Path
) -> None:
    """Triton says nothing to a caller that waits; a question about the leaf's health does."""
    with served(serve_repository, tmp_path, delay_ms=100) as (deployment, pid), ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(deployment.refused, {**SLOW, "num_draft_tokens": draft}) for draft in (0, 0, 8)]
        time.sleep(0.5)
        leaf_process(pid, "tensorrt_llm").kill()
        for answer in waiting:
            assert refusal(answer).startswith("target_failed: Stub process")


def test_logits_go_from_the_draft_to_the_target(serve_repository: ServeRepository, tmp_path: Path) -> None:
    with served(serve_repository, tmp_path, logits=True) as (deployment, _):
        body = {"text_input": "Code", "num_draft_tokens": 3, "temperature": 0.5, "seed": 9}
        assert deployment.generate(body)["text_output"] == ANSWERS["Code"]
        verified = [call for call in deployment.inner("tensorrt_llm") if "draft_input_ids" in call]
        assert len(verified) > 3
        for call in verified:
            assert call["draft_logits"] == [[token, 0.25, 0.5, 1.0] for token in call["draft_input_ids"]]
            assert "return_generation_logits" not in call
        # drawn as the target's tokens are: the target needs to know from what distribution
        assert all(call["temperature"] == [0.5] for call in deployment.inner("tensorrt_llm_draft"))
        deployment.forget()
        assert deployment.generate({**body, "use_draft_logits": False})["text_output"] == ANSWERS["Code"]
        calls = [*deployment.inner("tensorrt_llm"), *deployment.inner("tensorrt_llm_draft")]
        assert not any({"draft_logits", "return_generation_logits"} & call.keys() for call in calls)
        assert "temperature" not in deployment.inner("tensorrt_llm_draft")[0]
        # where no token is drawn, logits would decide nothing
        for greedy in ({}, {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.7, "top_k": 1}, {"seed": 3}):
            deployment.forget()
            deployment.generate({"text_input": "Code", "num_draft_tokens": 3, **greedy})
            calls = [*deployment.inner("tensorrt_llm"), *deployment.inner("tensorrt_llm_draft")]
            assert not any({"draft_logits", "return_generation_logits"} & call.keys() for call in calls)


def test_a_draft_that_was_looked_up_has_no_logits(serve_repository: ServeRepository, tmp_path: Path) -> None:
    options = {"lookup": "true", "lookup_length": "6"}
    with served(serve_repository, tmp_path, logits=True, **options) as (deployment, _):
        body = {"text_input": "Long", "num_draft_tokens": 3, "temperature": 0.5, "return_token_details": True}
        answer = deployment.generate(body)
        assert answer["text_output"] == ANSWERS["Long"]
        assert {1, 2} <= set(answer["token_sources"])
        verified = [call for call in deployment.inner("tensorrt_llm") if "draft_input_ids" in call]
        with_logits = sum("draft_logits" in call for call in verified)
        assert 0 < with_logits < len(verified) == answer["num_spec_steps"]
        # a round whose draft was found asks no model
        assert len(deployment.inner("tensorrt_llm_draft")) == with_logits


def test_a_lookup_goes_on_when_the_draft_model_fails(serve_repository: ServeRepository, tmp_path: Path) -> None:
    with served(serve_repository, tmp_path, draft_mode="broken", lookup="true") as (deployment, _):
        answer = deployment.generate({"text_input": "Long", "num_draft_tokens": 3, "return_token_details": True})
        assert answer["text_output"] == ANSWERS["Long"]
        assert answer["num_draft_fallbacks"] == 1
        assert answer["num_spec_steps"] > 3
        assert len(deployment.inner("tensorrt_llm_draft")) == 1  # the call that fails writes nothing down


def test_a_draft_draws_with_the_targets_random_numbers_where_they_are_shared(
    serve_repository: ServeRepository, tmp_path: Path
) -> None:
    with served(serve_repository, tmp_path, draft_sampling="shared") as (deployment, _):
        body = {"text_input": "Code", "num_draft_tokens": 3, "temperature": 0.5, "seed": 9, "top_k": 4}
        assert deployment.generate({**body, "return_log_probs": True})["text_output"] == ANSWERS["Code"]
        for call in deployment.inner("tensorrt_llm_draft"):
            assert (call["temperature"], call["seed"], call["runtime_top_k"]) == ([0.5], [9], [4])
            assert not {"return_generation_logits", "return_log_probs"} & call.keys()


def test_every_call_has_random_numbers_of_its_own(serve_repository: ServeRepository, tmp_path: Path) -> None:
    """TensorRT-LLM starts them from the seed of each inner request, and from 0 without one."""
    options = {"seed_per_call": "true"}
    with served(serve_repository, tmp_path, logits=True, **options) as (deployment, _):
        asked: list[list[int]] = []
        for given in ({"seed": 9}, {"seed": 9}, {"seed": 10}, {}):
            deployment.forget()
            body = {"text_input": "Code", "num_draft_tokens": 3, "temperature": 0.5, **given}
            assert deployment.generate(body)["text_output"] == ANSWERS["Code"]
            first, *others = deployment.inner("tensorrt_llm")
            assert first.get("seed") == ([given["seed"]] if given else None)
            asked.append([call["seed"][0] for call in (*others, *deployment.inner("tensorrt_llm_draft"))])
            assert len(set(asked[-1])) == len(asked[-1]) > 6
        assert asked[0] == asked[1]
        assert not set(asked[0]) & set(asked[2])
        deployment.forget()
        deployment.generate({"text_input": "Code", "num_draft_tokens": 3, "repetition_penalty": 1.5})
        assert not any("seed" in call for call in deployment.inner("tensorrt_llm"))


def test_by_logits_a_draft_has_random_numbers_of_its_own_in_every_round(
    serve_repository: ServeRepository, tmp_path: Path
) -> None:
    """Else tokens that were dropped say something about the next ones, and so does a policy that has counted them."""
    with served(serve_repository, tmp_path, logits=True) as (deployment, _):
        body = {"text_input": "Code", "num_draft_tokens": 3, "temperature": 0.5, "seed": 9}
        assert deployment.generate(body)["text_output"] == ANSWERS["Code"]
        assert {call["seed"][0] for call in deployment.inner("tensorrt_llm")} == {9}
        seeds = [call["seed"][0] for call in deployment.inner("tensorrt_llm_draft")]
        assert len({9, *seeds}) == len(seeds) + 1 > 3


def test_log_probs_belong_to_the_tokens(serve_repository: ServeRepository, tmp_path: Path) -> None:
    """Leaves that send minus the id as each token's log-probability."""
    old = {"min_tokens_input": "min_tokens", "seed_input": "seed"}
    with served(serve_repository, tmp_path, **old) as (deployment, _):
        body = {"text_input": "Code", "return_log_probs": True, "return_token_details": True}
        for more in ({"num_draft_tokens": 0}, {"num_draft_tokens": 4}, {"stop_words": ["\n"]}, {"min_tokens": 9}):
            answer = deployment.generate({**body, **more})
            assert answer["output_log_probs"] == [-token for token in answer["token_ids"]]
            assert answer["cum_log_probs"] == -sum(answer["token_ids"])
            events = deployment.stream({**body, **more})
            parts = [part if isinstance(part, list) else [part] for part in (e["output_log_probs"] for e in events)]
            assert [value for part in parts for value in part] == [-token for token in answer["token_ids"]]
        assert "output_log_probs" not in deployment.generate({"text_input": "Code"})
        deployment.forget()
        deployment.generate({"text_input": "Code", "min_tokens": 9, "num_draft_tokens": 4})
        prompt = len(deployment.ids("Code"))
        for call in deployment.inner("tensorrt_llm"):
            made = len(call["input_ids"]) - prompt
            # the second end id is a bad word until then, and no call reaches across
            assert ("bad_words_list" in call) == (made < 9)
            assert made >= 9 or made + call["request_output_len"][0] <= 9


def test_a_schedule_follows_the_running_requests(serve_repository: ServeRepository, tmp_path: Path) -> None:
    policy = {"draft_policy": "schedule", "draft_schedule": "1:4,2:2"}
    with served(serve_repository, tmp_path, delay_ms=2, **policy) as (deployment, _), ThreadPoolExecutor(4) as pool:
        body = {"text_input": "Long"}
        alone = deployment.generate(body)
        assert alone["text_output"] == ANSWERS["Long"]
        assert {call["request_output_len"][0] for call in deployment.inner("tensorrt_llm_draft")[:-3]} == {4}
        deployment.forget()
        answers = list(pool.map(lambda _: deployment.generate(body), range(4)))
        assert {answer["text_output"] for answer in answers} == {ANSWERS["Long"]}
        plain = [call for call in deployment.inner("tensorrt_llm") if "streaming" in call]
        assert len(plain) >= 4
        assert max(call["request_output_len"][0] for call in plain) == 32
        # an explicit number is the request's own business
        deployment.forget()
        list(pool.map(lambda _: deployment.generate({**body, "num_draft_tokens": 3}), range(4)))
        assert not [call for call in deployment.inner("tensorrt_llm") if "streaming" in call]
