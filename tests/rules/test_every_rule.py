"""Every rule of the product has a case that triggers it: the tables of cases against the registry.

That a case triggers its rule is tested where the table is: tests/rules/test_rules.py, tests/building/inspection,
tests/planning/test_plan_rules.py, tests/repository/lint.
"""

from __future__ import annotations

from tests.building.inspection.cases import ENGINE_CASES
from tests.planning.plan_cases import PLAN_CASES
from tests.repository.lint.cases import REPOSITORY_CASES
from tests.rules.cases import PAIR_CASES
from trtspec.cli.rules import all_rules
from trtspec.rules.registry import Subject

TORCH_PLAN = {"kv-tokens-beyond-memory", "kv-tokens-below-one-request"}  # tests/planning/test_torch_memory.py
MACHINE = {"installed-version-differs"}  # depends on what is installed: a test of its own
TRIGGERED: dict[Subject, set[str]] = {
    "pair": {rule_id for rule_id, _ in PAIR_CASES} | MACHINE,
    "engine": {case.rule_id for case in ENGINE_CASES},
    "plan": set(PLAN_CASES) | TORCH_PLAN,
    "repository": {case.rule_id for case in REPOSITORY_CASES},
}


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    rules: dict[Subject, set[str]] = {}
    for item in all_rules():
        rules.setdefault(item.subject, set()).add(item.id)
    assert rules == TRIGGERED
