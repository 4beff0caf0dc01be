"""Where prompts come from: the built-in templates, a file of the load test's form, or logged traffic."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from trtspec.errors import RecordsError, UsageError
from trtspec.files import json_lines
from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.prompts import BUILTIN, BUILTIN_60, Prompt, load_prompts
from trtspec.training.generate import Part
from trtspec.training.prompts import CATEGORIES, iterate_prompts

__all__ = ["Question", "Source", "built_in_source", "file_source", "question_of", "read_source", "traffic_source"]

_HELD_OUT_EVERY = 19  # shares no factor with the number of categories, which take turns
_FEWEST = 8


@dataclass(frozen=True)
class Question:
    """A conversation that ends with a user message, and what its answer is for (see `Job`).

    ``answer`` is one that the target gave before; None: it is to be asked. ``ended`` tells that it was not cut.
    """

    category: str
    messages: tuple[Mapping[str, str], ...]
    part: Part = "train"
    answer: str | None = None
    ended: bool = False

    @property
    def text(self) -> str:
        """What tells two questions apart."""
        return "\n".join(f"{message['role']}: {message['content']}" for message in self.messages)


class Source(Protocol):
    """Questions in an order that is always the same, without end or with one."""

    @property
    def key(self) -> str:
        """Differs for other questions."""
        ...

    @property
    def title(self) -> str:
        """What they are, for the draft's README."""
        ...

    def __iter__(self) -> Iterator[Question]: ...


@dataclass(frozen=True)
class _BuiltIn:
    seed: int
    categories: tuple[str, ...]

    @property
    def key(self) -> str:
        """Changes with the templates, the seed and the categories."""
        first = itertools.islice(iterate_prompts(self.seed, self.categories), 200)
        return _digest(["built-in", str(self.seed), *self.categories, *(prompt.text for prompt in first)])

    @property
    def title(self) -> str:
        """What the card says."""
        return f"prompts put together from templates (`trtspec/training/prompts.py`, seed {self.seed})"

    def __iter__(self) -> Iterator[Question]:
        # categories begin in turn with one that measures and one that stops, so that few prompts have both
        kept = Counter({name: place for place, name in enumerate(self.categories)})
        for prompt in iterate_prompts(self.seed, self.categories):
            question = Question(prompt.category, ({"role": "user", "content": prompt.text},))
            if prompt.held_out:
                kept[prompt.category] += 1
                question = replace(question, part=_held_out_part(kept[prompt.category]))
            yield question


@dataclass(frozen=True)
class _Listed:
    questions: tuple[Question, ...]
    key: str
    title: str

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)


def _held_out_part(number: int) -> Part:
    """Held-out prompts measure and stop the training in turn."""
    return "measure" if number % 2 else "stop"


def read_source(name: str, *, root: Path, seed: int, categories: Sequence[str] = (), logged: bool = False) -> Source:
    """The source that ``--prompts`` names: "builtin", a JSONL file of prompts, or a run's requests.jsonl (or folder).

    UsageError when it cannot be used: unreadable, no such category, too few prompts.
    """
    if name == BUILTIN:
        if logged:
            raise UsageError(
                "the built-in prompts carry no answers", fix="--prompts RUN/requests.jsonl --answers logged"
            )
        return built_in_source(seed, categories)
    path = root / Path(name).expanduser()
    if path.is_dir():
        path /= "requests.jsonl"
    if _is_traffic(path):
        return traffic_source(path, seed, categories, logged=logged)
    if logged and path.exists():
        raise UsageError("is a file of prompts without answers", where=str(path), fix="--answers generate")
    return file_source(path, seed, categories)


def built_in_source(seed: int, categories: Sequence[str] = ()) -> Source:
    """Endless prompts from the templates; the held-out ones are of templates and words that training never sees."""
    chosen = tuple(categories) or CATEGORIES
    unknown = [name for name in chosen if name not in CATEGORIES]
    if unknown:
        raise UsageError(f"no such category: {', '.join(unknown)}", fix=f"--categories {','.join(CATEGORIES)}")
    return _BuiltIn(seed, chosen)


def file_source(path: Path, seed: int, categories: Sequence[str] = ()) -> Source:
    """The prompts of a file that the load test reads as well."""
    found = load_prompts(str(path.absolute()))
    # a later turn of a conversation stands on an answer that is not there
    questions = [question_of(prompt) for prompt in found.prompts if not prompt.turn]
    return _listed(questions, categories, seed, f"the prompts of {path.name} (SHA-256 {found.sha256[:16]})")


def traffic_source(path: Path, seed: int, categories: Sequence[str] = (), *, logged: bool = False) -> Source:
    """The prompts of a requests.jsonl, and with ``logged`` the answers that stand there.

    A line carries its own ``prompt`` or ``messages``; where it has only a ``prompt_id``, the file of prompts that the
    run's provenance.json names is read. Each prompt counts once, with the first whole answer of the baseline arm, or
    of any arm where the baseline has none.
    """
    texts = _prompts_of_run(path)
    order: dict[str, Question] = {}
    answered: dict[str, tuple[int, str, bool]] = {}
    for number, line in enumerate(_lines(path), start=1):
        question, answer = _asked(line, f"{path}:{number}", texts)
        if question is None:
            continue
        order.setdefault(question.text, question)
        if answer is not None and (question.text not in answered or answer[0] < answered[question.text][0]):
            answered[question.text] = answer
    if logged and not answered:
        raise UsageError("holds no whole answer", where=str(path), fix="--answers generate, or another run")
    if logged:
        order = {text: replace(order[text], answer=answered[text][1], ended=answered[text][2]) for text in answered}
    return _listed(list(order.values()), categories, seed, f"the traffic logged in {path.name}")


def _is_traffic(path: Path) -> bool:
    """True for a file whose first line is a request that went out, not a prompt."""
    try:
        with path.open(encoding="utf-8") as stream:
            first = next((line for line in stream if line.strip()), "")
        return "start_ns" in Fields.parse(first)
    except (OSError, UnicodeDecodeError, FieldError):
        return False


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in json_lines(path.read_text(encoding="utf-8")) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise RecordsError(f"cannot be read: {error}", where=str(path)) from None


def _asked(
    line: str, where: str, texts: Mapping[str, Question]
) -> tuple[Question | None, tuple[int, str, bool] | None]:
    """The question of a logged line; its answer with a rank (the baseline's is 0), or None where it is not whole.

    No question: a later turn of a conversation whose earlier answers are not in the line.
    """
    try:
        fields = Fields.parse(line)
        question = _question(fields, texts)
        failed = fields.optional_text("error") is not None or fields.flag("cancelled")
        text = "".join(chunk.text("text", "") for chunk in fields.objects("chunks")) if not failed else ""
        rank = 0 if fields.text("arm", "") == "baseline" else 1
        ended = fields.text("finish_reason", "") == "stop"
    except FieldError as error:
        raise RecordsError(str(error), where=where) from None
    return question, (rank, text, ended) if text else None


def _question(fields: Fields, texts: Mapping[str, Question]) -> Question | None:
    category = fields.text("category", "uncategorised")
    if "messages" in fields:
        turns = [{"role": turn.text("role"), "content": turn.text("content")} for turn in fields.objects("messages")]
        if not turns:
            raise FieldError("'messages' is empty")
        return Question(category, tuple(turns))
    if "prompt" in fields:
        return Question(category, ({"role": "user", "content": fields.text("prompt")},))
    known = texts.get(fields.text("prompt_id"))
    if known is None and fields.optional_integer("turn"):
        return None
    if known is None:
        raise FieldError("neither 'prompt' nor 'messages', and the run's provenance.json names no file that has it")
    return known


def _prompts_of_run(path: Path) -> dict[str, Question]:
    """Id → question of the file that a run's provenance names; empty where there is none."""
    provenance = path.with_name("provenance.json")
    try:
        fields = Fields.parse(provenance.read_text(encoding="utf-8"))
        listed = fields.optional_object("prompts")
        source = listed.optional_text("source") if listed is not None else None
    except (OSError, UnicodeDecodeError, FieldError):
        return {}
    if source is None:
        return {}
    if source in {BUILTIN, BUILTIN_60}:
        message = "was made with the load test's own prompts: a draft trained on them cannot be measured with them"
        raise UsageError(message, where=str(path), fix="log real traffic, or --prompts builtin (other prompts)")
    found = load_prompts(source, root=path.parent)
    return {prompt.id: question_of(prompt) for prompt in found.prompts if not prompt.turn}


def question_of(prompt: Prompt) -> Question:
    """What a load test asks, as a question to train with."""
    return Question(prompt.category, tuple(prompt.messages or ({"role": "user", "content": prompt.text},)))


def _listed(questions: Iterable[Question], categories: Sequence[str], seed: int, title: str) -> Source:
    """Different questions in a random order that depends on the seed, some of each category held out."""
    different = {question.text: question for question in questions}
    _check_categories(different.values(), categories)
    chosen = [one for one in different.values() if not categories or one.category in categories]
    if len(chosen) < _FEWEST:
        message = f"{len(chosen)} different prompts: too few to train on some and measure with others"
        raise UsageError(message, fix=f"give {_FEWEST} or more (hundreds to be of use), or --prompts builtin")
    random.Random(seed).shuffle(chosen)  # noqa: S311 - reproducible, not secret
    placed = tuple(_with_parts(chosen))
    key = _digest([title, *(f"{one.part} {one.category} {one.text} {one.answer}" for one in placed)])
    return _Listed(placed, key, title)


def _check_categories(questions: Iterable[Question], categories: Sequence[str]) -> None:
    present = sorted({question.category for question in questions})
    unknown = [name for name in categories if name not in present]
    if unknown:
        raise UsageError(f"no prompt of category {', '.join(unknown)}", fix=f"there are: {', '.join(present)}")


def _with_parts(questions: Sequence[Question]) -> Iterator[Question]:
    """Of small sets a quarter is held out, of large ones every 19th; a logged answer is only trained on."""
    every = max(4, min(_HELD_OUT_EVERY, len(questions) // 16))
    held_out = 0
    for number, question in enumerate(questions):
        if number % every:
            yield question
            continue
        held_out += 1
        yield replace(question, part=_held_out_part(held_out), answer=None)


def _digest(parts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
