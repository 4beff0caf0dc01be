from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.loadtest.telemetry.pages import VLLM, serving, triton
from trtspec.loadtest.telemetry.families import Family
from trtspec.loadtest.telemetry.samples import gauges
from trtspec.loadtest.telemetry.scrape import Scrape, fetch, from_rows, growth, parse, to_rows, value

SUCCESS = Family("nv_inference_request_success")


def scrape(text: str) -> Scrape:
    return Scrape(1, *parse(text))


def test_values_are_by_model_or_summed() -> None:
    page = scrape(triton(requests=7, inner=30))
    assert value(page, SUCCESS, "tensorrt_llm_bls") == 7
    assert value(page, SUCCESS) == 37
    assert value(page, SUCCESS, "another") is None
    assert value(page, Family("nv_inference_queue_duration_us", scale=1e-6), "tensorrt_llm") == pytest.approx(0.999999)


def test_labels_of_a_family_single_out_its_series() -> None:
    page = scrape(triton(kv=0.75))
    used = Family("nv_trt_llm_kv_cache_block_metrics", {"kv_cache_block_type": "used"})
    assert value(page, used, "tensorrt_llm") == 12


def test_buckets_and_unknown_series_are_left_out() -> None:
    assert scrape(VLLM).families == [
        "vllm:e2e_request_latency_seconds_count",
        "vllm:e2e_request_latency_seconds_sum",
        "vllm:kv_cache_usage_perc",
        "vllm:num_requests_waiting",
    ]
    assert not any("bucket" in name for name in scrape(triton()).families)


def test_gauges_are_by_model() -> None:
    assert gauges(scrape(triton(kv=0.75)))["kv_cache_usage"] == {"tensorrt_llm": 0.75, "tensorrt_llm_draft": 0.25}
    assert gauges(scrape(VLLM)) == {"kv_cache_usage": {"llama": 0.5}, "waiting_requests": {"llama": 3.0}}


def test_growth_is_after_less_before_and_a_new_series_began_at_zero() -> None:
    grown = growth(scrape(VLLM), Scrape(2, {**scrape(VLLM).values, **scrape(triton(requests=5)).values}))
    assert grown.of(SUCCESS, "tensorrt_llm_bls") == 5
    assert grown.of(Family("vllm:e2e_request_latency_seconds_count")) == 0


def test_a_counter_that_fell_was_reset_and_a_gauge_may_fall() -> None:
    lower_gauge = growth(scrape(triton(kv=0.9)), scrape(triton(kv=0.1)))
    assert not lower_gauge.reset
    restarted = growth(scrape(triton(requests=50)), scrape(triton(requests=2)))
    assert restarted.reset
    assert restarted.of(SUCCESS) is None


def test_a_scrape_survives_a_file() -> None:
    page = scrape(triton(requests=3))
    assert from_rows(json.loads(json.dumps(to_rows(page.values)))) == page.values


@pytest.mark.parametrize("rows", [None, [], ["x"], [["a", 1, 2]], [["a", {}, "2"]]])
def test_rows_of_another_shape_are_left_out(rows: object) -> None:
    assert from_rows(rows) == {}


def test_a_page_that_is_none_says_so() -> None:
    values, reason = parse("nv_x{ 12\n")
    assert values == {}
    assert "cannot be read" in str(reason)
    assert parse("process_cpu_seconds_total 1\n") == ({}, "no known metric is on the page")


def test_fetch_tells_why_there_is_nothing() -> None:
    with serving([triton(requests=1)]) as url:
        assert value(fetch(url), SUCCESS, "tensorrt_llm_bls") == 1
    assert "does not answer" in str(fetch(url).reason)
    assert fetch(None).reason == "no address of metrics is known"
    assert "no http address" in str(fetch("file:///etc/hostname").reason)
    with serving([""], status=403) as url:
        assert "answers 403" in str(fetch(url).reason)


def drip(connection: socket.socket) -> None:
    """A head that never ends, a byte now and then, so that no single read takes long."""
    with contextlib.suppress(OSError), connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"X")
            time.sleep(0.02)


def flood(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"# " + b"x" * 65536 + b"\n")


@pytest.mark.parametrize(("peer", "words"), [(drip, "not whole within"), (flood, "and more")])
def test_a_server_that_never_ends_does_not_hold_anything_up(peer: Callable[[socket.socket], None], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: peer(listening.accept()[0]))
        thread.start()
        begin = time.monotonic()
        found = fetch(f"http://127.0.0.1:{listening.getsockname()[1]}/metrics", timeout=0.5)
        assert time.monotonic() - begin < 10
        thread.join(20)
    assert words in str(found.reason)


def test_no_proxy_is_asked_for_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with serving([triton(requests=1)]) as url:
        assert value(fetch(url), SUCCESS, "tensorrt_llm_bls") == 1


def test_what_is_no_number_is_left_out() -> None:
    values, _ = parse('nv_a_total{model="m"} NaN\nnv_b_total{model="m"} +Inf\nnv_c_total{model="m"} 2\n')
    assert list(values.values()) == [2.0]
    rows: list[Any] = [["nv_a", {}, number] for number in (float("nan"), float("inf"), True, 10**400, "1", 3)]
    assert list(from_rows(rows).values()) == [3.0]
