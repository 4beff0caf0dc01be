from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadtest.fakes import counters, record
from trtspec.loadtest.acceptance import acceptance, derived_length, per_position
from trtspec.loadtest.records import Record
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.table import table_of
from trtspec.wire.messages import Counters


def acceptance_of(*records: Record) -> dict[str, Any]:
    return acceptance(table_of(records), np.arange(len(records)))


def test_pooled_over_tokens_not_averaged_over_requests() -> None:
    one = record(arm="speculative", category="code", server=counters([0, 0, 0, 0, 10], 40))
    other = record(arm="speculative", category="chat", server=counters([1], 4))
    found = acceptance_of(one, other)
    assert found["acceptance_rate"] == pytest.approx(40 / 44)
    assert found["mean_acceptance_length"] == pytest.approx(1 + 40 / 11)
    assert found["acceptance_histogram"] == [1, 0, 0, 0, 10]
    assert found["by_category"]["code"]["acceptance_rate"] == 1.0
    assert found["by_category"]["chat"]["acceptance_rate"] == 0.0
    assert found["source"] == "server"


def test_per_position() -> None:
    assert per_position([2, 3, 5]) == pytest.approx([0.8, 0.5])
    assert per_position([]) == []
    assert per_position([4]) == []


def test_drafted_tokens_without_rounds_are_a_rate_without_a_length() -> None:
    """What OpenAI-compatible servers send in usage."""
    counted = Counters(7, 16, None, 27, 7, ())
    found = acceptance_of(record(arm="speculative", server=counted), record(arm="speculative", server=counted))
    assert found["acceptance_rate"] == pytest.approx(7 / 27)
    assert (found["num_spec_steps"], found["mean_acceptance_length"]) == (None, None)
    assert found["reason"] == "not available: the server does not count rounds"
    assert [part["num_draft_tokens"] for part in found["by_category"].values()] == [54]


def test_no_counters_is_not_available_and_not_zero() -> None:
    """Counts come from the server, or are derived, or are absent."""
    found = acceptance_of(record(arm="speculative"))
    assert found["acceptance_rate"] is None
    assert found["mean_acceptance_length"] is None
    assert found["source"] == "none"
    assert "not available" in found["reason"]


def test_derived_from_the_targets_request_count() -> None:
    """40 requests to the target, 120 tokens."""
    assert derived_length(120, 40) == 3.0
    assert derived_length(None, 40) is None
    records = [record([(10, 60), (20, 60)], arm="speculative")]
    servers = [{"arm": "speculative", "concurrency": 1, "frontend_requests": 1, "target_requests": 40}]
    found = summarise(records, measurement={"servers": servers})["acceptance"]
    assert (found["mean_acceptance_length"], found["source"]) == (3.0, "derived")
    assert found["acceptance_rate"] is None


def test_counters_without_a_drafted_token_have_no_rate() -> None:
    found = acceptance_of(record(arm="speculative", server=Counters(3, 5, 0, 0, 0, (0,))))
    assert (found["acceptance_rate"], found["mean_acceptance_length"], found["source"]) == (None, None, "server")
    assert found["reason"] == "no token was drafted"


def test_only_the_speculative_arm_counts() -> None:
    baseline = record(server=counters([5], 0))
    speculative = record(arm="speculative", server=counters([0, 2], 2))
    assert summarise([baseline, speculative])["acceptance"]["num_spec_steps"] == 2


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9))
def test_laws_of_the_histogram(histogram: list[int]) -> None:
    found = acceptance_of(record(arm="speculative", server=counters(histogram, sum(histogram) * len(histogram))))
    rounds = sum(histogram)
    if rounds:
        assert found["mean_acceptance_length"] == pytest.approx(1 + sum(found["per_position"]))
        assert found["per_position"] == sorted(found["per_position"], reverse=True)
