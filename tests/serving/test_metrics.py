from __future__ import annotations

import pytest

from trtspec.cli.status import _metric_facts
from trtspec.serving.metrics import _samples, metrics_summary

OURS = """\
# HELP trtspec_requests_total Client requests that have ended
trtspec_requests_total{model="tensorrt_llm_bls",version="1",result="stop"} 5
trtspec_requests_total{model="tensorrt_llm_bls",version="1",result="length"} 2
trtspec_requests_total{model="tensorrt_llm_bls",version="1",result="timeout"} 1
trtspec_running_requests{model="tensorrt_llm_bls",version="1"} 3
trtspec_rounds_total{model="tensorrt_llm_bls",version="1"} 10
trtspec_drafted_tokens_total{model="tensorrt_llm_bls",version="1"} 40
trtspec_accepted_tokens_total{model="tensorrt_llm_bls",version="1"} 30
"""
LOOKUPS = """\
trtspec_lookups_total{model="tensorrt_llm_bls",version="1",result="found"} 6
trtspec_lookups_total{model="tensorrt_llm_bls",version="1",result="nothing"} 9
trtspec_lookup_drafted_tokens_total{model="tensorrt_llm_bls",version="1"} 24
trtspec_lookup_accepted_tokens_total{model="tensorrt_llm_bls",version="1"} 6
"""
TRITON = """\
nv_inference_request_success{model="tensorrt_llm_bls",version="1"} 7
nv_inference_request_success{model="tensorrt_llm",version="1"} 90
nv_inference_request_failure{model="tensorrt_llm_bls",reason="OTHER",version="1"} 2
nv_inference_request_failure{model="tensorrt_llm_bls",reason="CANCELED",version="1"} 0
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm_draft",version="1"} 50
"""


def test_our_own_counters_count_client_requests() -> None:
    found = metrics_summary(_samples(OURS + TRITON))
    assert (found["requests"], found["running"], found["rounds"]) == (8, 3, 10)
    assert found["failures"] == {"timeout": 1}
    assert found["acceptance_rate"] == pytest.approx(0.75)
    assert found["kv_cache"] == {"tensorrt_llm": {"used": 25, "max": 100}, "tensorrt_llm_draft": {"max": 50}}


def test_drafts_from_the_text_are_told_apart_where_there_are_some() -> None:
    found = metrics_summary(_samples(OURS + LOOKUPS))
    told = {"rounds": 6, "drafted_tokens": 24, "accepted_tokens": 6, "acceptance_rate": 0.25}
    assert found["lookups"] == told
    assert dict(_metric_facts(found))["from the text"] == "6 rounds, 25.0% of 24 drafted tokens"
    without = metrics_summary(_samples(OURS))
    assert "lookups" not in without
    assert dict(_metric_facts(without))["from the text"] is None
    nothing = metrics_summary(_samples(OURS + LOOKUPS.splitlines()[1] + "\n"))
    assert (nothing["lookups"]["rounds"], nothing["lookups"]["acceptance_rate"]) == (0, None)


def test_triton_s_counters_of_the_frontend_stand_in() -> None:
    found = metrics_summary(_samples(TRITON))
    assert (found["requests"], found["failures"]) == (9, {"OTHER": 2})
    assert found["acceptance_rate"] is None


def test_what_is_not_exported_is_not_zero() -> None:
    assert set(metrics_summary(_samples("# nothing\nbroken{ line\n")).values()) == {None}
