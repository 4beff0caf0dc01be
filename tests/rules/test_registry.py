"""The registry: rules by subject, findings sorted by level, ids that are taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from trtspec.rules import RULES, Hit, rule, rules_of, run_rules
from trtspec.rules.registry import SEVERITIES, Rule


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Rules that a test enters are gone afterwards."""
    before = dict(RULES)
    yield
    RULES.clear()
    RULES.update(before)


def test_a_rule_is_run_over_the_facts_of_its_subject_only() -> None:
    @rule("too-hot", "OOM", "warning", title="Too hot", source="a thermometer", subject="repository")
    def _hot(degrees: int) -> Iterator[Hit]:
        if degrees > 30:
            yield Hit("spec", f"{degrees} degrees", "open a window", {"degrees": degrees})

    assert "too-hot" in [item.id for item in rules_of("repository")]
    assert "too-hot" not in [item.id for item in rules_of("pair")]
    [finding] = run_rules(35, [RULES["too-hot"]])
    assert finding.to_json() == {
        "id": "too-hot",
        "level": "warning",
        "severity": "OOM",
        "role": "spec",
        "message": "35 degrees",
        "fix": "open a window",
        "data": {"degrees": 35},
    }
    assert run_rules(20, [RULES["too-hot"]]) == ()


def test_findings_come_with_errors_first_and_a_hit_may_grade_itself() -> None:
    def both(_facts: object) -> Iterator[Hit]:
        yield Hit("spec", "first", level="note", severity="INFO")
        yield Hit("spec", "second")

    item = Rule("x", "CRASH", "warning", "X", "nowhere", both)
    worse = replace(item, id="y", level="error", condition=lambda _facts: [Hit("spec", "third")])
    found = run_rules(None, [item, worse])
    assert [(finding.id, finding.level) for finding in found] == [("y", "error"), ("x", "warning"), ("x", "note")]
    assert [finding.severity for finding in found] == ["CRASH", "CRASH", "INFO"]


def test_an_id_is_given_once() -> None:
    taken = next(iter(RULES))
    with pytest.raises(AssertionError, match=taken):
        rule(taken, "INFO", "note", title="again", source="nowhere")(lambda _facts: [])


def test_a_rule_says_what_happens_when_it_is_ignored() -> None:
    data = RULES["kv-cache-int8"].to_json()
    assert data["ignored"] == SEVERITIES["SILENT"]
    assert {"id", "subject", "severity", "level", "title", "explanation", "fix", "source", "example"} <= data.keys()
