"""docs/rules.md: the table of all rules, generated from the registry."""

from __future__ import annotations

from trtspec.cli.rules import all_rules
from trtspec.rules import Rule
from trtspec.rules.registry import SEVERITIES, SUBJECTS, Subject

__all__ = ["rules_document"]

_HEAD = """# Rules

What trtspec checks, and what it says when it finds something. Generated from the registry by `scripts/make-docs`; a
test fails when it is stale. `trtspec rules` lists the same, `trtspec rules show ID` and `trtspec check --explain ID`
add why and an example.

An **error** is refused (exit code 3), a **warning** and a **note** are only said. The severity tells what happens when
it is ignored:

| severity | when it is ignored |
|---|---|
"""
_SUBJECTS: dict[Subject, str] = {
    "pair": "The pair and its spec (`trtspec check`, before anything is built)",
    "plan": "The plan (`trtspec plan`)",
    "engine": "Engines (after `trtspec build`, and for engines built elsewhere)",
    "repository": "The model repository (`trtspec repo --lint`, of any repository)",
}


def rules_document() -> str:
    """Markdown: the meaning of levels and severities, and a table of rules for each subject."""
    severities = "\n".join(f"| {name} | {text} |" for name, text in SEVERITIES.items())
    sections = [f"{_HEAD}{severities}\n"]
    for subject in SUBJECTS:
        rules = [item for item in all_rules() if item.subject == subject]
        if rules:
            sections.append(_section(_SUBJECTS[subject], rules))
    return "\n".join(sections)


def _section(title: str, rules: list[Rule]) -> str:
    rows = "\n".join(_row(item) for item in rules)
    head = "| rule | severity | what it finds | what to do | known from |\n|---|---|---|---|---|"
    return f"## {title}\n\n{len(rules)} rules.\n\n{head}\n{rows}\n"


def _row(item: Rule) -> str:
    cells = (f"`{item.id}` ({item.level})", item.severity, item.title, item.fix, item.source)
    return f"| {' | '.join(_cell(text) for text in cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
