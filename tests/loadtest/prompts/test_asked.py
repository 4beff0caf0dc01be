"""Every option of the prompts changes what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.loadtest.servers import chat_server
from tests.loadtest.test_sender import Scripted
from tests.wire.fake_triton import FakeTriton, echo_script
from trtspec.cli.main import cli
from trtspec.errors import UsageError
from trtspec.files import read_json
from trtspec.loadtest import run_options
from trtspec.loadtest.options import options_from_json
from trtspec.loadtest.plan import make_plan
from trtspec.loadtest.sender import ArmClient
from trtspec.loadtest.tokens import open_tokenizer
from trtspec.loadtest.what import Questions, prepare
from trtspec.spec import SpecFile

TWO: Any = {"baseline": "http://a:1", "speculative": "http://b:2"}


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    return toy_spec(tmp_path_factory.mktemp("toy"), build={"max_seq_len": 2048})


def prepared(spec_file: SpecFile | None, **given: Any) -> Questions:
    given = {"concurrency": (1,), "requests": 240, "warmup": 0, **given}
    return prepare(spec_file, run_options(spec_file, urls=TWO, **given))


def sent(spec_file: SpecFile | None, protocol: str = "http", **given: Any) -> list[Any]:
    """The texts (or conversations) of all requests in order."""
    questions = prepared(spec_file, **given)
    client = ArmClient("baseline", Scripted(protocol=protocol), questions.send_options, lambda _record: None)
    (level,) = make_plan(questions.prompts.prompts, questions.shape)
    requests = [client.request(job) for block in level.blocks for job in block.jobs]
    return [json.loads(request.messages) if request.messages else request.prompt for request in requests]


def test_categories_and_language_and_lengths(spec_file: SpecFile) -> None:
    texts = sent(spec_file, categories=("code",), language=("en",), min_prompt_chars=200, requests=20)
    questions = prepared(spec_file, categories=("code",), language=("en",), min_prompt_chars=200).prompts
    assert 0 < len(questions.prompts) < 17
    assert {any(prompt.text in text for prompt in questions.prompts) for text in texts} == {True}
    assert len(set(texts)) == len(questions.prompts)


def test_lengths_in_tokens_are_counted_by_the_targets_tokenizer(spec_file: SpecFile) -> None:
    tokens = open_tokenizer(spec_file.checkpoint("target"))
    assert tokens is not None
    questions = prepared(spec_file, min_prompt_tokens=40, max_prompt_tokens=90)
    assert 0 < len(questions.prompts.prompts) < 200
    assert all(40 <= tokens.count(prompt.text) <= 90 for prompt in questions.prompts.prompts)
    told = questions.prompts.as_json()["filters"]
    assert told == {"min_prompt_tokens": 40, "max_prompt_tokens": 90}


def test_without_a_tokenizer_lengths_in_tokens_are_refused() -> None:
    with pytest.raises(UsageError, match="need a tokenizer"):
        prepared(None, max_prompt_tokens=90)


@pytest.mark.parametrize("given", ["Answer in one word.", "@rules.txt"])
def test_system_prompt(spec_file: SpecFile, given: str) -> None:
    (spec_file.root / "rules.txt").write_text("Answer in one word.\n")
    plain, told = sent(spec_file, requests=3), sent(spec_file, requests=3, system_prompt=given)
    assert all("Answer in one word." in text for text in told)
    assert not any("Answer in one word." in text for text in plain)
    (conversation, *_) = sent(spec_file, "openai-chat", requests=1, system_prompt=given)
    assert conversation[0] == {"role": "system", "content": "Answer in one word."}


def test_chat_template(spec_file: SpecFile) -> None:
    rendered, bare = sent(spec_file, requests=3), sent(spec_file, requests=3, chat_template="never")
    assert all(text in whole and text != whole for text, whole in zip(bare, rendered, strict=True))


def test_unique_prefixes_begin_with_the_first_own_letter(spec_file: SpecFile) -> None:
    bare = sent(spec_file, requests=60, chat_template="never", unique_prefixes=True)
    assert len({text[:10] for text in bare}) == 60
    told = prepared(spec_file, chat_template="never", unique_prefixes=True).prompts.as_json()
    assert told["shared_head"] == {"characters": 0, "tokens": 0}

    head = prepared(spec_file, unique_prefixes=True).prompts.as_json()["shared_head"]
    rendered = sent(spec_file, requests=60, unique_prefixes=True)
    assert head["characters"] > 0
    assert head["tokens"] > 0
    assert len({text[: head["characters"]] for text in rendered}) == 1
    assert len({text[: head["characters"] + 10] for text in rendered}) == 60
    # also a system prompt, which would be the longest shared prefix of all
    system = sent(spec_file, requests=60, unique_prefixes=True, system_prompt="Be brief. " * 20)
    assert len({text[: head["characters"] + 30] for text in system}) == 60
    assert "shared_head" not in prepared(spec_file).prompts.as_json()


def test_made_up_prompts_of_given_lengths(spec_file: SpecFile) -> None:
    tokens = open_tokenizer(spec_file.checkpoint("target"))
    assert tokens is not None
    questions = prepared(spec_file, prompts="random", input_length="50-60", output_length="7-9")
    sizes = [tokens.count(prompt.text) for prompt in questions.prompts.prompts]
    assert max(sizes) - min(sizes) >= 5
    assert all(45 <= size <= 65 for size in sizes)
    assert {prompt.max_tokens for prompt in questions.prompts.prompts} == {7, 8, 9}
    assert questions.send_options.synthetic
    assert questions.prompts.as_json()["synthetic"]


def test_lengths_are_for_made_up_prompts() -> None:
    with pytest.raises(UsageError, match="make up prompts"):
        prepared(None, input_length="50")
    with pytest.raises(UsageError, match="both limit the answer"):
        prepared(None, prompts="random", output_length="50", max_tokens=9)
    with pytest.raises(UsageError, match="there can be none"):
        prepared(None, min_prompt_chars=50, max_prompt_chars=9)


def test_built_in_prompts_that_the_engines_refuse_are_left_out(tmp_path: Path) -> None:
    small = toy_spec(tmp_path, build={"max_seq_len": 256})
    questions = prepared(small)
    told = questions.prompts.as_json()
    assert told["too_long"] == 240 - told["count"] > 0
    assert questions.prompts.note is not None
    assert f"{told['too_long']} of 240 built-in prompts are longer than the 240 tokens" in questions.prompts.note
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps({"prompt": "word " * 1000}) + "\n")
    assert len(prepared(small, prompts="own.jsonl").prompts.prompts) == 1


def test_an_empty_or_missing_system_prompt() -> None:
    with pytest.raises(UsageError, match="system prompt: no such file") as caught:
        prepared(None, system_prompt="@nowhere.txt")
    assert caught.value.where == "nowhere.txt"
    with pytest.raises(UsageError, match="the system prompt is empty"):
        prepared(None, system_prompt=" ")


def test_a_spec_may_hold_all_of_it(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "prompts": "builtin", "categories": ["chat"], "language": ["en"], "min_prompt_chars": 3,
        "max_prompt_chars": 900, "min_prompt_tokens": 2, "max_prompt_tokens": 800, "turns": 2, "system_prompt": "Hm.",
    }  # fmt: skip
    options = run_options(toy_spec(tmp_path, loadtest=given), urls=TWO)
    assert {name: getattr(options, name) for name in given} == {
        **given, "categories": ("chat",), "language": ("en",),
    }  # fmt: skip
    assert run_options(toy_spec(tmp_path, loadtest=given), urls=TWO, categories=("code",)).categories == ("code",)
    back = options_from_json(json.loads(json.dumps(options.as_json())))
    assert back == options


@contextmanager
def servers() -> Iterator[tuple[FakeTriton, FakeTriton]]:
    with FakeTriton(echo_script()) as one, FakeTriton(echo_script()) as other:
        yield one, other


def test_the_command_line_reaches_the_servers_and_the_provenance(spec_file: SpecFile, tmp_path: Path) -> None:
    from click.testing import CliRunner

    arguments = [
        "--categories", "code, extraction", "--language", "zh", "--system-prompt", "Be brief.", "--turns", "1",
        "--min-prompt-chars", "10", "--max-prompt-chars", "2000", "--min-prompt-tokens", "2",
        "--max-prompt-tokens", "2000", "--concurrency", "1", "--requests", "7", "--warmup", "0", "--no-report",
        "--max-tokens", "4", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    with servers() as (one, other):
        urls = ["--arm-url", f"baseline={one.url}", "--arm-url", f"speculative={other.url}"]
        result = CliRunner().invoke(cli, ["loadtest", str(spec_file.path), *urls, *arguments])
        asked = [[received.prompt for received in server.received] for server in (one, other)]
    assert result.exit_code == 0, result.output
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 7
    assert all("Be brief." in prompt for prompt in asked[0])
    told = read_json(tmp_path / "run" / "provenance.json")["prompts"]
    assert (told["count"], told["available"], told["categories"]) == (7, 240, {"code": 3, "extraction": 4})
    assert told["filters"]["language"] == ["zh"]
    assert told["filters"]["max_prompt_tokens"] == 2000


def test_made_up_prompts_from_the_command_line(spec_file: SpecFile, tmp_path: Path) -> None:
    from click.testing import CliRunner

    arguments = [
        "--prompts", "random", "--input-length", "30", "--output-length", "5", "--concurrency", "1",
        "--requests", "4", "--warmup", "0", "--no-report", "--out", str(tmp_path / "run"), "--output", "json",
    ]  # fmt: skip
    with servers() as (one, other):
        urls = ["--arm-url", f"baseline={one.url}", "--arm-url", f"speculative={other.url}"]
        result = CliRunner().invoke(cli, ["loadtest", str(spec_file.path), *urls, *arguments])
    assert result.exit_code == 0, result.output
    warnings = json.loads(result.stdout)["comparison"]["warnings"]
    assert any("synthetic prompts" in str(warning) for warning in warnings)
    records = [json.loads(line) for line in (tmp_path / "run" / "requests.jsonl").read_text().splitlines()]
    assert all(record["synthetic"] for record in records)
    assert {record["max_tokens"] for record in records} == {5}


def test_a_file_of_conversations_is_asked_turn_by_turn_with_the_answers(tmp_path: Path) -> None:
    from trtspec.loadtest import run
    from trtspec.progress import SilentReporter

    rows = [{"question_id": n, "category": "writing", "turns": [f"first {n}", f"second {n}"]} for n in range(4)]
    path = tmp_path / "question.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with chat_server() as one, chat_server() as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = run_options(
            None,
            urls=urls,
            prompts=str(path),
            concurrency=(1,),
            requests=8,
            warmup=0,
            max_tokens=3,
            out=tmp_path / "run",
        )
        result = run(None, options, SilentReporter())
        asked = [request.document["messages"] for request in one.asked if request.method == "POST"]
    seconds = [messages for messages in asked if messages[-1]["content"].startswith("second")]
    assert len(seconds) == 4
    for first, answer, second in seconds:
        assert first["content"].removeprefix("first ") == second["content"].removeprefix("second ")
        assert answer["role"] == "assistant"
        assert answer["content"]
    told = read_json(result.path / "provenance.json")["prompts"]
    assert (told["form"], told["sessions"], told["count"]) == ("Spec-Bench or MT-Bench", 4, 8)
