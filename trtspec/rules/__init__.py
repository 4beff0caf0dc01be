"""The checks that `trtspec check` and `trtspec build` make: a registry of rules over facts, and what they found."""

from trtspec.rules.check import CheckResult, check_pair, require_pair
from trtspec.rules.facts import Facts, gather_facts
from trtspec.rules.registry import RULES, Finding, Hit, Rule, rule, rules_of, run_rules

__all__ = [
    "RULES",
    "CheckResult",
    "Facts",
    "Finding",
    "Hit",
    "Rule",
    "check_pair",
    "gather_facts",
    "require_pair",
    "rule",
    "rules_of",
    "run_rules",
]
