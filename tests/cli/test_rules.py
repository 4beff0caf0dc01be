"""`trtspec rules`, `check --explain` and the table in the documentation, over the rules of the whole product."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trtspec.cli.main import cli
from trtspec.cli.rules import all_rules
from trtspec.cli.rules_document import rules_document
from trtspec.rules.registry import LEVELS, SEVERITIES, SUBJECTS, Rule


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def listed(*arguments: str) -> list[dict[str, Any]]:
    done = run("rules", *arguments, "--output", "json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["schema"] == 1
    rules: list[dict[str, Any]] = data["rules"]
    return rules


def test_there_are_rules_about_pairs_plans_and_engines() -> None:
    counts = {subject: sum(item.subject == subject for item in all_rules()) for subject in SUBJECTS}
    assert counts["pair"] >= 100
    assert counts["plan"] >= 5
    assert counts["engine"] >= 10
    assert len({item.id for item in all_rules()}) == len(all_rules())
    assert len({item.title for item in all_rules()}) == len(all_rules())


@pytest.mark.parametrize("item", all_rules(), ids=lambda item: item.id)
def test_a_rule_is_described(item: Rule) -> None:
    assert item.id == item.id.lower()
    assert item.level in LEVELS
    assert item.severity in SEVERITIES
    assert item.title
    assert not item.title.endswith(".")
    assert item.explanation.endswith(".")
    assert item.fix
    assert item.source
    assert item.example


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--subject", "plan"], "subject", "plan"),
        (["--severity", "oom"], "severity", "OOM"),
        (["--level", "error"], "level", "error"),
        (["list", "--level", "note"], "level", "note"),
    ],
)
def test_the_list_is_narrowed(arguments: Sequence[str], field: str, value: str) -> None:
    rules = listed(*arguments)
    assert rules
    assert {item[field] for item in rules} == {value}
    assert len(rules) < len(all_rules())


def test_filters_are_combined() -> None:
    rules = listed("--subject", "pair", "--severity", "SILENT", "--level", "error")
    assert {(item["subject"], item["severity"], item["level"]) for item in rules} == {("pair", "SILENT", "error")}
    assert "kv-cache-int8" in [item["id"] for item in rules]


def test_the_list_as_a_person_and_a_script_see_it() -> None:
    done = run("rules", "--subject", "plan")
    assert done.exit_code == 0
    assert "trtspec rules show ID" in done.stdout
    assert run("rules", "--output", "quiet").stdout.split() == [item.id for item in all_rules()]


@pytest.mark.parametrize("command", [["rules", "show", "kv-cache-int8"], ["check", "--explain", "kv-cache-int8"]])
def test_one_rule_is_explained(command: list[str]) -> None:
    done = run(*command)
    assert done.exit_code == 0, done.output
    for expected in ("switches off paged context attention", "ignored:", "why:", "fix:", "example:", "source:"):
        assert expected in done.stdout
    data = json.loads(run(*command, "--output", "json").stdout)
    assert data["rule"]["id"] == "kv-cache-int8"
    assert data["rule"]["ignored"] == SEVERITIES["SILENT"]


@pytest.mark.parametrize("command", [["rules", "show"], ["check", "--explain"]])
def test_an_unknown_rule_names_the_nearest(command: list[str]) -> None:
    done = run(*command, "kv-cache-int4")
    assert done.exit_code == 2
    assert "kv-cache-int8" in done.output
    assert "trtspec rules" in run(*command, "zzzzzz").output


def test_an_impossible_filter_is_a_usage_error() -> None:
    done = run("rules", "--level", "fatal")
    assert done.exit_code == 2
    assert "fatal" in done.output


def test_the_document_has_a_row_for_every_rule() -> None:
    text = rules_document()
    for item in all_rules():
        assert text.count(f"| `{item.id}` ({item.level}) |") == 1
    for line in text.splitlines():
        if line.startswith("| `"):
            assert line.replace("\\|", "").count("|") == 6, line


@pytest.mark.parametrize("command", [["rules", "show"], ["check", "--explain"]])
def test_the_beginning_of_a_word_names_the_rules_about_it(command: list[str]) -> None:
    done = run(*command, "tp")
    assert done.exit_code == 2
    assert "tp-kv-heads" in done.stderr
    assert "loadtest" not in done.stderr


def test_the_list_fits_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("rules").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line in SUBJECTS] == [
        s for s in SUBJECTS if any(i.subject == s for i in all_rules())
    ]
    assert all(any(line.startswith(f"{item.id} ") for line in lines) for item in all_rules())
