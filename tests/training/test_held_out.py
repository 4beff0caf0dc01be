from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trtspec.loadtest.prompts import load_prompts
from trtspec.training.held_out import write_held_out
from trtspec.training.sources import Question, built_in_source, file_source, traffic_source


def test_what_is_written_is_read_as_it_was_asked(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "ärger 模型"}]
    rows: list[dict[str, Any]] = [{"prompt": f"fox {n}", "category": "animals"} for n in range(11)]
    rows.append({"messages": turns, "category": "talk"})
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = file_source(given, seed=3)
    chosen = [place for place, one in enumerate(source) if one.part != "train" or one.category == "talk"]
    assert write_held_out(tmp_path / "written.jsonl", source, chosen, 17) == len(chosen)
    found = load_prompts(str(tmp_path / "written.jsonl")).prompts
    wanted = [one for place, one in enumerate(source) if place in chosen]
    asked = [tuple(prompt.messages or [{"role": "user", "content": prompt.text}]) for prompt in found]
    assert asked == [one.messages for one in wanted]
    assert [prompt.category for prompt in found] == [one.category for one in wanted]
    assert {prompt.max_tokens for prompt in found} == {17}
    assert [prompt.id for prompt in found] == [f"held-out-{place}" for place in chosen]


def test_a_source_without_end_is_read_as_far_as_needed(tmp_path: Path) -> None:
    source = built_in_source(5, ["code", "extraction"])
    assert write_held_out(tmp_path / "written.jsonl", source, {0, 57}, 9) == 2
    assert len(load_prompts(str(tmp_path / "written.jsonl")).prompts) == 2
    assert write_held_out(tmp_path / "none.jsonl", source, (), 9) == 0
    assert not (tmp_path / "none.jsonl").exists()


SAY = {"role": "user", "content": "and then?"}


@pytest.mark.parametrize(
    "messages",
    [
        [SAY, SAY],  # two questions to a load test
        [{"role": "system", "content": ""}, SAY],
        [SAY, {"role": "assistant", "content": "nothing"}],
        [{"role": "developer", "content": "Be brief"}, SAY],
        [{"role": "user", "content": "  "}],
    ],
)
def test_what_a_load_test_would_ask_otherwise_is_left_out(tmp_path: Path, messages: list[dict[str, str]]) -> None:
    conversations = [messages, *([{"role": "user", "content": f"fox {n}"}] for n in range(9))]
    lines = [{"arm": "baseline", "messages": one, "start_ns": 1, "chunks": []} for one in conversations]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = traffic_source(path, seed=0)
    questions: list[Question] = list(source)
    assert tuple(messages) in [one.messages for one in questions]
    assert write_held_out(tmp_path / "written.jsonl", source, range(len(questions)), 9) == 9
    assert len(load_prompts(str(tmp_path / "written.jsonl")).prompts) == 9
