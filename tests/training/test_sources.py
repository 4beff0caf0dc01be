from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.training.toys import prompt_file
from trtspec.errors import RecordsError, UsageError
from trtspec.training.prompts import CATEGORIES
from trtspec.training.sources import Question, built_in_source, file_source, read_source, traffic_source


def requests_file(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def request(number: int, **changes: Any) -> dict[str, Any]:
    chunks = [{"t_ns": 2, "text": f"answer {number}", "tokens": 2}]
    base = {"arm": "speculative", "prompt_id": f"p{number}", "start_ns": 1, "end_ns": 3, "chunks": chunks}
    return base | {"prompt": f"question {number}", "finish_reason": "stop"} | changes


def test_built_in_prompts_hold_out_some_of_every_category_for_both_purposes() -> None:
    questions = list(islice(built_in_source(0), 12_000))
    for part in ("stop", "measure"):
        assert {one.category for one in questions if one.part == part} == set(CATEGORIES)
    few = list(islice(built_in_source(0, ["code", "chat"]), 128))
    assert {one.part for one in few} == {"train", "stop", "measure"}


def test_a_category_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="poetry") as caught:
        built_in_source(0, ["poetry"])
    assert "code_editing" in (caught.value.fix or "")
    with pytest.raises(UsageError, match="no prompt of category c") as caught:
        file_source(prompt_file(tmp_path / "p.jsonl"), 0, ["c"])
    assert caught.value.fix == "there are: a, b"


def test_a_file_of_prompts_is_split_the_same_way_every_time(tmp_path: Path) -> None:
    path = prompt_file(tmp_path / "p.jsonl")
    once, again, other = file_source(path, 1), file_source(path, 1), file_source(path, 2)
    assert list(once) == list(again)
    assert once.key == again.key != other.key
    assert {one.part for one in once} == {"train", "stop", "measure"}
    assert [one.category for one in file_source(path, 1, ["a"])] == ["a"] * 20


def test_too_few_prompts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="5 different prompts: too few"):
        file_source(prompt_file(tmp_path / "p.jsonl", 5), 0)


def test_logged_traffic_gives_prompts_once_and_whole_answers_of_the_baseline_first(tmp_path: Path) -> None:
    rows = [request(n) for n in range(12)]
    rows.append(
        request(3, arm="baseline", chunks=[{"t_ns": 2, "text": "the baseline's", "tokens": 2}], finish_reason="length")
    )
    rows[5]["error"] = "broken"
    path = requests_file(tmp_path, rows)
    assert len(list(read_source(str(path), root=tmp_path, seed=0))) == 12
    asked = list(read_source(str(tmp_path), root=tmp_path, seed=0, logged=True))
    assert len(asked) == 11
    by_text = {one.messages[0]["content"]: one for one in asked if one.part == "train"}
    assert "question 5" not in {one.messages[0]["content"] for one in asked}
    for text, one in by_text.items():
        number = text.split()[1]
        expected = ("the baseline's", False) if number == "3" else (f"answer {number}", True)
        assert (one.answer, one.ended) == expected
    assert all(one.answer is None for one in asked if one.part != "train")


def test_logged_conversations_keep_their_messages(tmp_path: Path) -> None:
    rows = []
    for number in range(8):
        row = request(
            number, messages=[{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"{number}?"}]
        )
        del row["prompt"]
        rows.append(row)
    questions = list(read_source(str(requests_file(tmp_path, rows)), root=tmp_path, seed=0))
    assert all(one.messages[0] == {"role": "system", "content": "Be kind."} for one in questions)


def test_prompts_of_a_run_are_found_through_its_provenance(tmp_path: Path) -> None:
    source = tmp_path / "asked.jsonl"
    source.write_text(
        "".join(json.dumps({"id": f"p{n}", "prompt": f"text {n}", "category": "mine"}) + "\n" for n in range(9))
    )
    rows = [{name: value for name, value in request(n).items() if name != "prompt"} for n in range(9)]
    path = requests_file(tmp_path, rows)
    with pytest.raises(RecordsError, match="neither 'prompt' nor 'messages'") as caught:
        read_source(str(path), root=tmp_path, seed=0)
    assert (caught.value.where or "").endswith("requests.jsonl:1")
    (tmp_path / "provenance.json").write_text(json.dumps({"prompts": {"source": str(source)}}))
    questions = list(read_source(str(path), root=tmp_path, seed=0))
    assert sorted(one.messages[0]["content"] for one in questions) == [f"text {n}" for n in range(9)]


def test_later_turns_of_a_logged_conversation_are_left_out(tmp_path: Path) -> None:
    """They stand on answers that are not in their lines."""
    source = tmp_path / "asked.jsonl"
    turns = [{"messages": [{"role": "user", "content": f"first {n}"}], "id": f"p{n}"} for n in range(9)]
    source.write_text("".join(json.dumps(row) + "\n" for row in turns))
    rows = [{name: value for name, value in request(n).items() if name != "prompt"} for n in range(9)]
    rows += [{**row, "prompt_id": f"{row['prompt_id']}/2", "turn": 1} for row in rows]
    (tmp_path / "provenance.json").write_text(json.dumps({"prompts": {"source": str(source)}}))
    questions = list(read_source(str(requests_file(tmp_path, rows)), root=tmp_path, seed=0))
    assert sorted(one.messages[0]["content"] for one in questions) == [f"first {n}" for n in range(9)]


def test_a_log_without_a_whole_answer_says_so(tmp_path: Path) -> None:
    path = requests_file(tmp_path, [request(n, error="boom") for n in range(9)])
    with pytest.raises(UsageError, match="holds no whole answer"):
        read_source(str(path), root=tmp_path, seed=0, logged=True)


def test_a_run_of_the_built_in_prompts_is_never_trained_on(tmp_path: Path) -> None:
    (tmp_path / "provenance.json").write_text(json.dumps({"prompts": {"source": "builtin"}}))
    path = requests_file(tmp_path, [request(n) for n in range(9)])
    with pytest.raises(UsageError, match="load test's own prompts"):
        read_source(str(path), root=tmp_path, seed=0)


def test_logged_answers_need_a_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="carry no answers"):
        read_source("builtin", root=tmp_path, seed=0, logged=True)
    with pytest.raises(UsageError, match="without answers"):
        read_source(str(prompt_file(tmp_path / "p.jsonl")), root=tmp_path, seed=0, logged=True)


def test_questions_that_differ_in_a_system_message_are_different() -> None:
    user = {"role": "user", "content": "Hi"}
    assert Question("c", (user,)).text != Question("c", ({"role": "system", "content": "Hi"}, user)).text


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_a_logged_text_may_hold_what_ends_lines_elsewhere(tmp_path: Path, sign: str) -> None:
    rows = [{"arm": "baseline", "prompt": f"fox {n}{sign}dog", "start_ns": 1, "chunks": []} for n in range(9)]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows), encoding="utf-8")
    assert {one.messages[0]["content"] for one in traffic_source(path, 0)} == {f"fox {n}{sign}dog" for n in range(9)}


def test_a_logged_conversation_without_a_message_is_named(tmp_path: Path) -> None:
    rows = [{"arm": "baseline", "prompt": f"fox {n}", "start_ns": 1, "chunks": []} for n in range(9)]
    path = tmp_path / "requests.jsonl"
    lines = [json.dumps(row) for row in rows] + [json.dumps(rows[0] | {"messages": []})]
    path.write_text("\n".join(lines))
    with pytest.raises(RecordsError, match="'messages' is empty") as caught:
        traffic_source(path, 0)
    assert caught.value.where == f"{path}:10"
