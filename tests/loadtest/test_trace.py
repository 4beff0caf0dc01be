"""Traces of recorded traffic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import tiny_tokenizer_files
from tests.loadtest.fakes import write_lines
from trtspec.errors import UsageError
from trtspec.loadtest.prompts import load_prompts
from trtspec.loadtest.tokens import TextTokens, open_tokenizer
from trtspec.loadtest.trace import load_trace, trace_prompts

BUILTIN = load_prompts("builtin-60").prompts
MOONCAKE = [
    {"timestamp": 1000, "input_length": 1100, "output_length": 7, "hash_ids": [3, 4, 5]},
    {"timestamp": 4500.5, "input_length": 700, "output_length": 1, "hash_ids": [3, 9]},
    {"timestamp": 2000, "input_length": 40, "output_length": 12, "hash_ids": [77]},
]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TextTokens:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer_files(folder)
    found = open_tokenizer(folder)
    assert found is not None
    return found


@pytest.fixture
def mooncake(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "trace.jsonl", [json.dumps(row) for row in MOONCAKE])


def test_mooncakes_form(mooncake: Path) -> None:
    rows = load_trace(mooncake).rows
    assert [row.at for row in rows] == pytest.approx([0.0, 1.0, 3.5005])
    assert [(row.input_length, row.output_length, row.hash_ids) for row in rows] == [
        (1100, 7, (3, 4, 5)),
        (40, 12, (77,)),
        (700, 1, (3, 9)),
    ]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_azures_form(tmp_path: Path, form: str) -> None:
    dates = ["2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.0319600", "2023-11-16 18:17:07"]
    if form == "csv":
        lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{date},374,44" for date in dates)]
    else:
        lines = [json.dumps({"TIMESTAMP": date, "ContextTokens": 374, "GeneratedTokens": 44}) for date in dates]
    rows = load_trace(write_lines(tmp_path / f"trace.{form}", lines)).rows
    assert [row.at for row in rows] == pytest.approx([0, 0.052, 3.02004])
    assert {(row.input_length, row.output_length) for row in rows} == {(374, 44)}


def test_prompts_have_the_traces_lengths_and_share_its_blocks(mooncake: Path, tokens: TextTokens) -> None:
    prompts, synthetic = trace_prompts(load_trace(mooncake), BUILTIN, tokens, seed=1)
    assert synthetic
    assert [prompt.max_tokens for prompt in prompts] == [7, 12, 1]
    # decoding and encoding again may join a few tokens at the seams
    assert [tokens.count(prompt.text) for prompt in prompts] == pytest.approx([1100, 40, 700], rel=0.05, abs=3)
    assert prompts[0].text[:500] == prompts[2].text[:500]
    assert prompts[0].text[:50] != prompts[1].text[:50]
    assert trace_prompts(load_trace(mooncake), BUILTIN, tokens, seed=1)[0] == prompts
    assert trace_prompts(load_trace(mooncake), BUILTIN, tokens, seed=2)[0] != prompts


def test_without_a_tokenizer_real_prompts_are_asked_at_the_traces_times(mooncake: Path) -> None:
    prompts, synthetic = trace_prompts(load_trace(mooncake), BUILTIN, None, seed=1)
    assert not synthetic
    assert [prompt.text for prompt in prompts] == [prompt.text for prompt in BUILTIN[:3]]
    assert [prompt.max_tokens for prompt in prompts] == [7, 12, 1]


def test_a_trace_may_bring_its_own_prompts(tmp_path: Path, tokens: TextTokens) -> None:
    lines = ['{"timestamp": 0, "prompt": "Hi", "output_length": 3}', '{"timestamp": 5, "text_input": "Ho"}']
    prompts, synthetic = trace_prompts(load_trace(write_lines(tmp_path / "t", lines)), BUILTIN, tokens, 1)
    assert [(prompt.text, prompt.max_tokens) for prompt in prompts] == [("Hi", 3), ("Ho", 128)]
    assert not synthetic


@pytest.mark.parametrize(
    ("lines", "complaint", "line"),
    [
        ([], "no requests", None),
        (["{"], "not valid JSON", 1),
        (['{"timestamp": 0}', "[1]"], "a JSON object is expected", 2),
        (['{"input_length": 3}'], "neither 'timestamp' nor 'TIMESTAMP'", 1),
        (['{"timestamp": "soon"}'], "a number of milliseconds", 1),
        (['{"timestamp": true}'], "a number of milliseconds", 1),
        (['{"timestamp": 1, "input_length": -3}'], "'input_length' must be a number of tokens", 1),
        (['{"timestamp": 1, "output_length": 2.5}'], "'output_length' must be a number of tokens", 1),
        (['{"timestamp": 1, "hash_ids": ["a"]}'], "'hash_ids'", 1),
        (['{"timestamp": 1, "prompt": 4}'], "'prompt' must be a string", 1),
        (['{"TIMESTAMP": "yesterday"}'], "no date", 1),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, lines: list[str], complaint: str, line: int | None) -> None:
    path = write_lines(tmp_path / "trace.jsonl", lines)
    with pytest.raises(UsageError) as caught:
        load_trace(path)
    assert complaint in caught.value.message
    assert caught.value.where == (str(path) if line is None else f"{path}:{line}")


def test_no_such_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_trace(tmp_path / "none.jsonl")


def test_a_folder_without_a_tokenizer_and_a_broken_one(tmp_path: Path) -> None:
    assert open_tokenizer(tmp_path) is None
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        open_tokenizer(tmp_path)
