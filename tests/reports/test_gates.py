from __future__ import annotations

from typing import Any

import pytest

from trtspec.errors import ThresholdFailed, UsageError
from trtspec.reports import ReportData
from trtspec.reports.gates import check_gates, parse_gates, require_gates
from trtspec.reports.paths import find, join_path, numbers_below, split_path

SUMMARY: dict[str, Any] = {
    "arms": {"baseline": {"error_rate": 0.0, "by_load": {"poisson 0.5/s": {"error_rate": 0.25}}}},
    "comparison": {
        "speedup": {
            "output_tokens_per_second": {"estimate": 1.2, "low": 0.98, "high": 1.4, "reason": None},
            "request_latency": {"estimate": 1.1, "low": None, "high": None, "reason": "an interval needs 10 pairs"},
        },
        "verdict": "Speculation is faster",
        "break_even_concurrency": None,
        "break_even_reason": "needs at least two concurrencies",
    },
    "acceptance": {"per_position": [0.8, 0.6]},
    "valid_for_acceptance": True,
}


@pytest.mark.parametrize(
    ("expression", "value", "failed"),
    [
        ("speedup.output_tokens_per_second.low < 1.0", 0.98, True),
        ("comparison.speedup.output_tokens_per_second.low<1", 0.98, True),
        ("speedup.output_tokens_per_second.low < 0.98", 0.98, False),
        ("speedup.output_tokens_per_second.low <= 0.98", 0.98, True),
        ("arms.baseline.error_rate > 0", 0.0, False),
        ("arms.baseline.error_rate >= 0", 0.0, True),
        ("arms.baseline.error_rate == 0", 0.0, True),
        ("arms.baseline.error_rate != 0", 0.0, False),
        ("arms.baseline.by_load.'poisson 0.5/s'.error_rate > 1e-2", 0.25, True),
        ('arms.baseline.by_load."poisson 0.5/s".error_rate > 0.5', 0.25, False),
        ("acceptance.per_position.1 < 0.7", 0.6, True),
        ("  acceptance.per_position.0  >  -1 ", 0.8, True),
    ],
)
def test_a_gate_fails_when_its_condition_holds(expression: str, value: float, failed: bool) -> None:
    (result,) = check_gates(SUMMARY, [expression])
    assert (result.value, result.failed) == (value, failed)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("speedup.request_latency.low < 1", "an interval needs 10 pairs"),
        ("break_even_concurrency < 4", "needs at least two concurrencies"),
    ],
)
def test_what_was_not_measured_fails_and_says_why(expression: str, reason: str) -> None:
    (result,) = check_gates(SUMMARY, [expression])
    assert result.failed
    assert result.value is None
    assert reason in result.text


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("speedup.output_tokens_per_secnd.low < 1", "did you mean comparison.speedup.output_tokens_per_second"),
        ("arms.other.error_rate > 0", "there are: baseline"),
        ("arms.baseline.error_rate.mean > 0", "use arms.baseline.error_rate"),
        ("acceptance.per_position.2 > 0", "there are: 0, 1"),
        ("verdict > 0", "no number"),
        ("valid_for_acceptance > 0", "no number"),
        ("arms.baseline > 0", "go on to a number in it"),
        ("speedup.low", "is no gate"),
        ("speedup.low < fast", "no number"),
        ("speedup.low < nan", "finite"),
        ("speedup..low < 1", "no path"),
        ("speedup. < 1", "no path"),
        ("__import__('os').system('true') < 1", "no path"),
        ("a < 1 < 2", "no path|no gate|no number"),
        ("< 1", "is no gate"),
        ("", "is no gate"),
    ],
)
def test_a_gate_that_cannot_be_held_is_one_clear_error(expression: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_gates(SUMMARY, [expression])
    text = f"{caught.value} {caught.value.fix}"
    assert any(word in text for word in words.split("|")), text
    assert caught.value.fix


def test_syntax_is_checked_before_anything_is_measured() -> None:
    (gate,) = parse_gates(["speedup.never.seen < 1"])
    assert gate.path == "speedup.never.seen"
    with pytest.raises(UsageError):
        parse_gates(["speedup.never.seen <"])


def test_a_comparison_without_a_verdict_passes_no_gate() -> None:
    """One arm refuses requests, the rest is fast: the number alone would be green."""
    comparison = {**SUMMARY["comparison"], "withheld": "40% of the speculative arm's requests failed"}
    summary = {**SUMMARY, "comparison": comparison}
    (speed, errors) = check_gates(
        summary, ["speedup.output_tokens_per_second.low < 0.5", "arms.baseline.error_rate > 0"]
    )
    assert speed.failed
    assert speed.text.endswith("it is 0.98, but no verdict is given: 40% of the speculative arm's requests failed")
    assert not errors.failed


def test_every_gate_that_failed_is_named() -> None:
    results = check_gates(
        SUMMARY,
        ["speedup.output_tokens_per_second.low < 1", "arms.baseline.error_rate > 0", "speedup.request_latency.low < 1"],
    )
    with pytest.raises(ThresholdFailed) as caught:
        require_gates(results)
    assert "2 gates failed" in str(caught.value)
    assert "it is 0.98" in str(caught.value)
    assert "not measured" in str(caught.value)
    assert "error_rate" not in str(caught.value)
    require_gates(check_gates(SUMMARY, ["arms.baseline.error_rate > 0"]))


def test_every_number_of_a_real_summary_has_a_path_that_leads_to_it(sample: ReportData) -> None:
    numbers = numbers_below(sample.summary)
    assert len(numbers) > 200
    for path, value in numbers:
        assert find(sample.summary, path) == value


def test_names_survive_being_joined() -> None:
    names = ("by_load", "poisson 0.5/s", "p50", "a.b")
    assert split_path(join_path(*names)) == names
