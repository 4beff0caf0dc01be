from __future__ import annotations

import pytest

from trtspec.errors import SpecError
from trtspec.spec import diff_text, parse_spec, with_section_values

HEAD = "# mine\nname: pair\ntarget: {checkpoint: ./big}  # the good one\ndraft:\n  checkpoint: ./small\n"
SCHEDULE = {"policy": "schedule", "draft_length": 6, "schedule": {1: 6, 4: 3}}


@pytest.mark.parametrize(
    "section",
    [
        "",
        "speculation: {}\n",
        "speculation:  # how\n  draft_length: 4  # so many\n  acceptance: tokens\n",
        "speculation: {draft_length: 4, acceptance: tokens}  # short\n",
        "speculation:\n    # before\n    policy: schedule\n    schedule:\n      2: 4\n      8: 1\n\n# after\n",
        "# speculation:  # commented, as init writes it\n#   draft_length: 4\n",
    ],
)
@pytest.mark.parametrize("tail", ["", "serving: {http_port: 9000}\n", "\n# the end\nserving:\n  http_port: 9000"])
def test_values_are_set_and_all_else_stays(section: str, tail: str) -> None:
    text = HEAD + section + tail
    after = with_section_values(text, "speculation", SCHEDULE)
    made = parse_spec(after)
    assert (made.speculation.policy, made.speculation.draft_length) == ("schedule", 6)
    assert made.speculation.schedule == {1: 6, 4: 3}
    for comment in ("# mine", "# the good one", "# so many", "# before", "# after", "# short", "# the end"):
        assert (comment in after) == (comment in text), after
    untouched = parse_spec(text).model_dump(exclude={"speculation"})
    assert made.model_dump(exclude={"speculation"}) == untouched


@pytest.mark.parametrize(
    "section",
    [
        "speculation:\n  policy: schedule  # by load\n  schedule:\n    1: 4\n    8: 2\n  acceptance: tokens\n",
        "speculation: {policy: schedule, schedule: {1: 4, 8: 2}, acceptance: tokens}\n",
        "speculation: {schedule: {1: 4, 8: 2}, policy: schedule}\n",
        "speculation:\n  schedule: {1: 4, 8: 2}  # steps\n  policy: schedule\n",
    ],
)
def test_a_value_of_none_is_taken_out(section: str) -> None:
    values = {"policy": "fixed", "draft_length": 2, "schedule": None}
    after = with_section_values(f"{HEAD}{section}serving: {{http_port: 9000}}\n", "speculation", values)
    assert parse_spec(after).speculation.schedule == {}
    assert parse_spec(after).speculation.draft_length == 2
    assert parse_spec(after).serving.http_port == 9000


def test_nothing_to_change_changes_nothing() -> None:
    text = f"{HEAD}speculation: {{draft_length: 3}}\n"
    after = with_section_values(text, "speculation", {"draft_length": 3, "schedule": None})
    assert after == text
    assert diff_text(text, after, "spec") == ""


def test_the_diff_shows_the_changed_lines_only() -> None:
    text = f"{HEAD}speculation: {{draft_length: 3}}\n"
    lines = diff_text(text, with_section_values(text, "speculation", {"draft_length": 5}), "spec").splitlines()
    changed = [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))]
    assert changed == ["-speculation: {draft_length: 3}", "+speculation: {draft_length: 5}"]


@pytest.mark.parametrize(
    "text",
    [
        "{name: pair, target: {checkpoint: ./big}, draft: {checkpoint: ./small}}\n",
        f"{HEAD}speculation: {{draft_length: 3, max_draft_length: 4}}\n",
    ],
    ids=["one line", "longer than the engine"],
)
def test_what_cannot_be_written_says_what_to_write(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        with_section_values(text, "speculation", {"draft_length": 6})
    assert "draft_length: 6" in (caught.value.fix or "")
