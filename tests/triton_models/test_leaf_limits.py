"""Limits of the torch leaf in the real Triton: who is refused, who never is, and what the metrics say meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.builders import toy_spec
from tests.serving.toy import ToyDeployment
from tests.triton_models.scraping import Samples, settled, total
from trtspec.errors import RequestFailed
from trtspec.progress import SilentReporter
from trtspec.serving import free_ports
from trtspec.triton_models.leaf_metric_table import LEAF_METRICS
from trtspec.wire import Answer, FrontendRequest, ask

pytestmark = pytest.mark.triton

MANY = 24
LENGTH = 80
REQUEST = FrontendRequest("the quick brown fox", LENGTH, num_draft_tokens=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyDeployment]:
    """One place, one that may wait."""
    from trtspec.building import build_engines
    from trtspec.repository import generate

    http, grpc, metrics = (port for _, port in free_ports().items())
    spec_file = toy_spec(
        tmp_path_factory.mktemp("small"),
        serving={"http_port": http, "grpc_port": grpc, "metrics_port": metrics},
        build={"max_batch_size": 1, "max_seq_len": 256},
        torch={"max_waiting": 1, "kv_tokens": 600},
    )
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    deployment = ToyDeployment(spec_file)
    try:
        yield deployment
    finally:
        deployment.close()


async def ask_all(url: str, count: int) -> list[Answer | RequestFailed]:
    async def one() -> Answer | RequestFailed:
        try:
            return await ask(url, REQUEST, timeout=120, on_chunk=lambda _: None)
        except RequestFailed as error:
            return error

    return await asyncio.gather(*(one() for _ in range(count)))


def test_beyond_the_limits_requests_are_busy_and_begun_answers_are_whole(small: ToyDeployment) -> None:
    url = small.server("speculative").grpc_url
    [alone] = asyncio.run(ask_all(url, 1))
    assert isinstance(alone, Answer)
    answers = asyncio.run(ask_all(url, MANY))
    refused = [answer for answer in answers if isinstance(answer, RequestFailed)]
    served = [answer for answer in answers if isinstance(answer, Answer)]
    assert {error.code for error in refused} == {"busy"}
    assert all("max_waiting 1); try again later" in error.message for error in refused)
    assert served
    assert {answer.text for answer in served} == {alone.text}


def test_the_metrics_show_what_waits_and_what_is_kept(small: ToyDeployment) -> None:
    server = small.server("speculative")
    asyncio.run(ask_all(server.grpc_url, 1))

    def at_rest(samples: Samples) -> bool:
        kept = total(samples, "trtspec_leaf_kv_tokens", model="tensorrt_llm", use="kept")
        return kept > 0 and total(samples, "trtspec_leaf_requests", state="running") == 0

    samples = settled(f"http://{server.metrics_url}/metrics", at_rest)
    assert at_rest(samples)
    assert {name for name, _ in samples} >= set(LEAF_METRICS)
    assert total(samples, "trtspec_leaf_kv_tokens", model="tensorrt_llm", use="limit") == 600
    kept = total(samples, "trtspec_leaf_kv_tokens", model="tensorrt_llm", use="kept")
    # 2 layers, keys and values, 2 heads of 16 numbers, 4 bytes each
    assert total(samples, "trtspec_leaf_kv_bytes", model="tensorrt_llm", use="kept") == kept * 2 * 2 * 2 * 16 * 4
    assert total(samples, "trtspec_leaf_kv_usage", model="tensorrt_llm") == pytest.approx(kept / 600)
