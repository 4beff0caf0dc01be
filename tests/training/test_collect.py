from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.builders import tiny_checkpoint
from tests.training.toys import prompt_file
from trtspec.loadtest.prompts import BUILTIN, load_prompts
from trtspec.training.answering import Answerer, load_answerer
from trtspec.training.collect import BLOCK, Collector, PromptFormat
from trtspec.training.generate import Answer, GenerationSettings, Job
from trtspec.training.sources import file_source, traffic_source

SETTINGS = GenerationSettings(rows=32, max_new_tokens=4, top_k=3)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("collect") / "target")


class Counted:
    """An answerer that counts the prompts it answers."""

    def __init__(self, target: Path) -> None:
        self.inner = load_answerer(target, torch.device("cpu"))
        self.asked: list[int] = []

    def answer(self, jobs: Sequence[Job], settings: GenerationSettings) -> list[Answer]:
        self.asked += [job.index for job in jobs]
        return self.inner.answer(jobs, settings)

    def score(self, job: Job, tokens: Any, top_k: int) -> Answer:
        return self.inner.score(job, tokens, top_k)


def collector(folder: Path, target: Path, count: int = 300, **changes: Any) -> Collector:
    folder.mkdir(parents=True, exist_ok=True)
    source = file_source(prompt_file(folder / "prompts.jsonl", count), seed=0)
    fields = {"longest_prompt": 100, "repeats": 1} | changes
    return Collector(folder / "answers", source, PromptFormat(target, (2,)), SETTINGS, **fields)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "answers").glob("shard-*")}


def test_a_killed_run_goes_on_to_the_same_files(tmp_path: Path, target: Path) -> None:
    whole = list(collector(tmp_path / "whole", target).shards(lambda: Counted(target), print))
    assert [len(shard.answers) for shard in whole] == [BLOCK, BLOCK, 300 - 2 * BLOCK]
    again = collector(tmp_path / "killed", target)
    assert len(list(islice(again.shards(lambda: Counted(target), print), 2))) == 2
    counted = Counted(target)
    list(again.shards(lambda: counted, print))
    assert len(counted.asked) == 300 - 2 * BLOCK
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")
    assert again.seconds > 0


def test_what_is_there_does_not_load_the_target(tmp_path: Path, target: Path) -> None:
    one = collector(tmp_path, target, 40)
    list(one.shards(lambda: Counted(target), print))

    def never() -> Answerer:
        raise AssertionError

    assert sum(shard.tokens for shard in one.shards(never, print)) > 0


def test_a_damaged_shard_is_answered_again_and_said(tmp_path: Path, target: Path) -> None:
    one = collector(tmp_path, target, 40)
    list(one.shards(lambda: Counted(target), print))
    before = bytes_of(tmp_path)
    (path,) = (tmp_path / "answers").glob("shard-*")
    path.write_bytes(path.read_bytes()[:1000])
    notes: list[str] = []
    list(one.shards(lambda: Counted(target), notes.append))
    assert bytes_of(tmp_path) == before
    assert notes == ["shard-00000.safetensors is damaged: its 40 prompts are answered again"]


def test_long_prompts_and_those_of_the_load_test_are_left_out(tmp_path: Path, target: Path) -> None:
    served = load_prompts(BUILTIN).prompts[0].text
    rows = [{"prompt": f"fox {n}"} for n in range(20)] + [{"prompt": served}, {"prompt": "fox " * 200}]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = Collector(tmp_path / "a", file_source(path, 0), PromptFormat(target, (2,)), SETTINGS, 400, 1)
    found = [answer for shard in one.shards(lambda: Counted(target), print) for answer in shard.answers]
    assert len(found) == 20


def test_held_out_prompts_are_greedy_and_asked_once(tmp_path: Path, target: Path) -> None:
    one = collector(tmp_path, target, 40, repeats=3)
    jobs = [answer.job for shard in one.shards(lambda: Counted(target), print) for answer in shard.answers]
    held_out = [job for job in jobs if job.part != "train"]
    assert held_out
    assert all(job.sampled == 0 for job in held_out)
    assert len({job.prompt for job in held_out}) == len(held_out)
    taught = [job for job in jobs if job.part == "train"]
    assert len(taught) == 3 * (40 - len(held_out))
    assert sum(job.sampled == 0 for job in taught) < len(taught) / 2
    assert len({job.index for job in jobs}) == len(jobs)


def test_logged_answers_are_scored_and_end_as_they_ended(tmp_path: Path, target: Path) -> None:
    rows = []
    for n in range(12):
        chunks = [{"t_ns": 2, "text": "the lazy dog", "tokens": 3}]
        reason = "stop" if n % 2 else "length"
        rows.append({"arm": "baseline", "prompt": f"fox {n}", "start_ns": 1, "chunks": chunks, "finish_reason": reason})
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    form = PromptFormat(target, (2,))
    source = traffic_source(path, 0, logged=True)
    settings = GenerationSettings(rows=32, max_new_tokens=20, top_k=3)
    one = Collector(tmp_path / "a", source, form, settings, 100, 1)
    counted = Counted(target)
    answers = [answer for shard in one.shards(lambda: counted, print) for answer in shard.answers]
    logged = [answer for answer in answers if answer.job.part == "train"]
    ended = {answer.tokens[-1] == 2 for answer in logged}
    assert ended == {True, False}
    assert len(counted.asked) == 12 - len(logged) > 0
    reference = load_answerer(target, torch.device("cpu")).score(logged[0].job, logged[0].tokens, 3)
    assert logged[0].top_ids.tolist() == reference.top_ids.tolist()


def test_prompts_are_as_a_server_sends_them(target: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    from trtspec.checkpoints import render_user

    ids = PromptFormat(target, (2,)).ids([{"role": "user", "content": "fox"}])
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    assert list(ids) == tokenizer.encode(render_user(target, "fox"), add_special_tokens=False).ids
    plain = tiny_checkpoint(tmp_path / "plain")
    path = plain / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "chat_template"}))
    ids = PromptFormat(plain, (2,)).ids([{"role": "user", "content": "fox"}])
    assert list(ids) == tokenizer.encode("fox").ids
