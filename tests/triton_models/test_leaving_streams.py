"""Clients that leave in the middle of a plain stream, with the torch runtime behind the frontend."""

from __future__ import annotations

import json
import time
import urllib.request

import psutil
import pytest

from tests.serving.toy import ToyDeployment
from tests.triton_models.scraping import settled, total
from trtspec.serving import RunningServer
from trtspec.serving.health import stub_processes

BODY = {"text_input": "hello", "max_tokens": 400, "stream": True, "end_id": -1, "num_draft_tokens": 0}
LEAVING = 16


@pytest.mark.triton
def test_they_leave_no_thread_behind(toy_deployment: ToyDeployment) -> None:
    """Triton never hands on an error that follows a response: who waits for the end of such a stream waits for ever."""
    server = toy_deployment.server("speculative")
    (frontend,) = [pid for pid, model in stub_processes(server.pid).items() if model == "tensorrt_llm_bls"]
    url = f"http://{server.http_url}/v2/models/tensorrt_llm_bls/generate_stream"
    first, second = (threads_after_leaving(server, url, frontend) for _ in range(2))
    # the pool keeps the threads of the first; had they not come back, the second would have needed as many more
    assert second < first + LEAVING // 2


def threads_after_leaving(server: RunningServer, url: str, frontend: int) -> int:
    """The frontend's threads when clients have left and nothing is in work."""
    for _ in range(LEAVING):
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(BODY).encode()), timeout=60) as answer:
            assert answer.readline().startswith(b"data: ")
    metrics = f"http://{server.metrics_url}/metrics"
    time.sleep(1.5)  # the gauge is handed over about once a second
    settled(metrics, lambda found: total(found, "trtspec_running_requests") == 0)
    time.sleep(1.0)  # and the ends of their streams are read
    return psutil.Process(frontend).num_threads()
