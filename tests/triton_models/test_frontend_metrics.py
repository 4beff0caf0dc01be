"""The frontend's metrics at the real Triton's endpoint: they add up to what the answers say."""

from __future__ import annotations

import urllib.error

import pytest

from tests.serving.toy import ToyDeployment
from tests.triton_models.scraping import Samples, scrape, settled, total
from tests.triton_models.test_frontend_toy import post
from trtspec.triton_models.frontend_metric_table import COMMON_LABELS, METRICS, series
from trtspec.triton_models.leaf_metric_table import LEAF_METRICS

pytestmark = pytest.mark.triton


def url_of(deployment: ToyDeployment) -> str:
    return f"http://127.0.0.1:{deployment.server('speculative').ports.metrics}/metrics"


def test_the_metrics_add_up_to_the_answers(toy_deployment: ToyDeployment) -> None:
    url = url_of(toy_deployment)
    before = settled(url, lambda samples: total(samples, "trtspec_running_requests") == 0)
    body = {"text_input": "hello world", "max_tokens": 40, "end_id": -1}
    answers = [post(toy_deployment, "speculative", {**body, "num_draft_tokens": length}) for length in (0, 2, 4)]
    with pytest.raises(urllib.error.HTTPError):
        post(toy_deployment, "speculative", {**body, "max_tokens": 0})
    ended = total(before, "trtspec_requests_total") + 4
    after = settled(url, lambda samples: total(samples, "trtspec_requests_total") == ended)

    def grown(name: str, **labels: str) -> float:
        return total(after, name, **labels) - total(before, name, **labels)

    assert grown("trtspec_requests_total", result="length") == 3
    assert grown("trtspec_requests_total", result="invalid_request") == 1
    for name, output in (
        ("trtspec_prompt_tokens_total", "num_input_tokens"),
        ("trtspec_output_tokens_total", "num_output_tokens"),
        ("trtspec_rounds_total", "num_spec_steps"),
        ("trtspec_drafted_tokens_total", "total_draft_tokens"),
        ("trtspec_accepted_tokens_total", "total_accepted_draft_tokens"),
    ):
        assert grown(name) == sum(answer[output] for answer in answers), name
    rounds = grown("trtspec_rounds_total")
    assert grown("trtspec_rounds_by_length_total") == rounds > 0
    # the first rounds of the requests read the prompt and are not timed
    assert grown("trtspec_round_seconds_count") == rounds - sum(answer["num_spec_steps"] > 0 for answer in answers)
    assert grown("trtspec_rounds_by_length_total", length="4") >= answers[2]["num_spec_steps"] - 3
    assert grown("trtspec_time_to_first_token_seconds_count") == 3
    assert total(after, "trtspec_running_requests") == 0
    buckets_are_cumulative(after)
    parts = {part: grown("trtspec_round_part_seconds_total", part=part) for part in ("draft", "target", "overhead")}
    assert min(parts.values()) > 0
    assert sum(parts.values()) == pytest.approx(grown("trtspec_round_seconds_sum"), rel=1e-3)


def buckets_are_cumulative(samples: Samples) -> None:
    for metric in METRICS:
        counts = [total(samples, f"{metric.name}_bucket", le=f"{bound:g}") for bound in metric.buckets]
        if counts:
            counts.append(total(samples, f"{metric.name}_bucket", le="+Inf"))
            assert counts == sorted(counts)
            assert counts[-1] == total(samples, f"{metric.name}_count")


def test_nothing_is_exported_that_the_table_does_not_have(toy_deployment: ToyDeployment) -> None:
    known = {name: {*labels, *COMMON_LABELS} for metric in METRICS for name, labels in series(metric).items()}
    found = scrape(url_of(toy_deployment))
    assert found
    for name, labels in found:
        if name in LEAF_METRICS:  # the leaves': test_leaf_limits.py
            continue
        assert {label for label, _ in labels} == known[name]
