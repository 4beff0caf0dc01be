"""The training data of a draft: prompts in the target's chat format, answered by the target, block by block."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trtspec.checkpoints import chat_template, render_messages
from trtspec.files import sweep_partials, write_text
from trtspec.loadtest.prompts import BUILTIN, load_prompts
from trtspec.training.answering import Answerer
from trtspec.training.generate import Answer, GenerationSettings, Job
from trtspec.training.shards import Shard, read_shard, shard_path, write_shard
from trtspec.training.sources import Question, Source
from trtspec.training.tensor_file import FileDamaged

__all__ = ["BLOCK", "Collector", "PromptFormat", "Task"]

BLOCK = 128
_GREEDY, _BEGUN = 0.6, 0.85


@dataclass(frozen=True)
class Task:
    """A job, and the answer that was logged for it (None: the target is asked)."""

    job: Job
    logged: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PromptFormat:
    """How a conversation becomes token ids for a checkpoint: by its chat template where it has one."""

    folder: Path
    end_ids: tuple[int, ...]
    vocab_size: int | None = None

    def knows(self, ids: Sequence[int]) -> bool:
        """False for ids that the model has no row for: a tokenizer may have more than its model."""
        return self.vocab_size is None or max(ids, default=0) < self.vocab_size

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)

    @cached_property
    def _has_template(self) -> bool:
        return chat_template(self.folder) is not None

    def ids(self, messages: Sequence[Any]) -> tuple[int, ...]:
        """Token ids of the conversation, ready for the answer; with a template no special tokens are added to it."""
        if self._has_template:
            return self._encoded(render_messages(self.folder, messages), special=False)
        return self._encoded("\n".join(message["content"] for message in messages), special=True)

    def answer_ids(self, question: Question) -> tuple[int, ...] | None:
        """Ids of the logged answer, with the end id where it ended by itself."""
        if question.answer is None:
            return None
        ids = self._encoded(question.answer, special=False)
        return (*ids, self.end_ids[0]) if question.ended and self.end_ids else ids

    def _encoded(self, text: str, *, special: bool) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=special)["input_ids"])


@dataclass(frozen=True)
class Collector:
    """Answers a source's questions into shards of a folder; what is there already is not answered again.

    Block n of the questions makes shard n, whatever was answered before it, so that a run that was killed goes on to
    the same files. Every question is asked ``repeats`` times: first greedily, then with sampled tokens.
    """

    folder: Path
    source: Source
    format: PromptFormat
    settings: GenerationSettings
    longest_prompt: int
    repeats: int = 1

    def shards(
        self, answerer: Callable[[], Answerer], note: Callable[[str], None], enough: Callable[[], bool] = lambda: False
    ) -> Iterator[Shard]:
        """The shards in order, answered where they are not on disk; ``answerer`` is called when it is first needed.

        Once there is ``enough`` no further one is answered (the first always is); what is on disk is given all the
        same, so that a run that goes on has what it had. Seconds spent on answering are added up in `seconds`.
        """
        sweep_partials(self.folder)
        for number, tasks in enumerate(self._blocks()):
            path = shard_path(self.folder, number)
            shard = self._read(path, tasks, note)
            if shard is None:
                if number and enough():
                    return
                began = time.monotonic()
                shard = write_shard(path, self._answers(answerer(), tasks))
                _add_seconds(self.folder, time.monotonic() - began)
            yield shard

    @property
    def seconds(self) -> float:
        """Time that answering took, over all runs."""
        return _seconds(self.folder)

    def _read(self, path: Path, tasks: Sequence[Task], note: Callable[[str], None]) -> Shard | None:
        try:
            shard = read_shard(path)
        except FileNotFoundError:
            return None
        except FileDamaged as error:
            note(f"{path.name} {error.message.partition(':')[0]}: its {len(tasks)} prompts are answered again")
            return None
        if [answer.job for answer in shard.answers] == [_as_stored(task.job) for task in tasks]:
            return shard
        note(f"{path.name} holds answers to other prompts: its {len(tasks)} prompts are answered again")
        return None

    def _answers(self, answerer: Answerer, tasks: Sequence[Task]) -> list[Answer]:
        asked = [task.job for task in tasks if task.logged is None]
        found = {answer.job.index: answer for answer in answerer.answer(asked, self.settings)} if asked else {}
        for task in tasks:
            if task.logged is not None:
                tokens = np.array(task.logged[: self.settings.max_new_tokens], dtype=np.int64)
                found[task.job.index] = answerer.score(task.job, tokens, self.settings.top_k)
        return [found[task.job.index] for task in tasks]

    def _blocks(self) -> Iterator[list[Task]]:
        remaining = iter(self._tasks())
        while block := list(islice(remaining, BLOCK)):
            yield block

    def _tasks(self) -> Iterator[Task]:
        """A job for every question that is not too long and no prompt of the load test, as often as wanted."""
        taboo, index = _load_test_prompts(), 0
        for turn in range(self.repeats):
            for question in self.source:
                index += 1
                if (turn and question.part != "train") or question.messages[-1]["content"] in taboo:
                    continue
                ids, logged = self.format.ids(question.messages), self.format.answer_ids(question)
                known = self.format.knows(ids) and self.format.knows(logged or ())
                if 0 < len(ids) <= self.longest_prompt and known and logged != ():
                    job = Job(index - 1, question.category, ids, part=question.part)
                    yield Task(job if logged else _with_sampling(job, self.settings.seed, turn), logged)


def _load_test_prompts() -> set[str]:
    """The built-in prompts of the load test: a draft is measured with them and must never see them."""
    return {text for prompt in load_prompts(BUILTIN).prompts for text in (prompt.text, prompt.content)}


def _as_stored(job: Job) -> Job:
    return replace(job, temperature=float(np.float32(job.temperature)))


def _with_sampling(job: Job, seed: int, turn: int) -> Job:
    """Serving is mostly greedy, so three in five first answers are, and all that measure.

    The others start with a few sampled tokens or are sampled throughout: that shows more of the target's language.
    """
    draw = random.Random(seed * 1_000_003 + job.index).random()  # noqa: S311 - reproducible
    if job.part != "train" or (turn == 0 and draw < _GREEDY):
        return job
    if draw < _BEGUN:
        return replace(job, sampled=4, temperature=1.0)
    return replace(job, sampled=10_000, temperature=0.8)


def _seconds(folder: Path) -> float:
    try:
        return float((folder / "seconds").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0


def _add_seconds(folder: Path, more: float) -> None:
    write_text(folder / "seconds", f"{_seconds(folder) + more:.1f}\n")
