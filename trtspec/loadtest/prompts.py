"""What is asked: the built-in prompts, a file, or random words."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.loadtest.fields import FieldError, Fields

__all__ = ["BUILTIN", "RANDOM", "Prompt", "PromptSet", "draw", "load_prompts", "warmup_prompts"]

BUILTIN = "builtin"
RANDOM = "random"
_DEFAULT_MAX_TOKENS = 128
_RANDOM_COUNT = 200


@dataclass(frozen=True)
class Prompt:
    """One user message, its category and how many tokens the answer may have.

    `messages` ({role, content}) are sent instead of the bare `text`, its last one the user's: a system prompt, earlier
    turns. Prompts of one `session` are its turns in order of `turn`: each is sent with the turns before and the answers
    that they got, so its own `messages` hold only what is new.
    """

    id: str
    category: str
    text: str
    max_tokens: int
    messages: tuple[Mapping[str, str], ...] | None = None
    session: str | None = None
    turn: int | None = None


@dataclass(frozen=True)
class PromptSet:
    """Prompts, where they came from, the hash of the file, and whether they are random words."""

    prompts: tuple[Prompt, ...]
    source: str
    sha256: str
    synthetic: bool = False


def load_prompts(source: str, *, root: Path = Path(), seed: int = 1) -> PromptSet:
    """The prompts that `source` names: "builtin", "random", or a JSONL file (relative to `root`).

    A line has `prompt`, and may have `id`, `category` and `max_tokens`. UsageError names file and line of a mistake.
    """
    if source == RANDOM:
        return _random_words(seed)
    if source == BUILTIN:
        return _parse(_data("prompts.jsonl"), "built-in prompts", BUILTIN)
    path = root / Path(source).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise UsageError(
            f"prompts: {reason}", where=str(path), fix="--prompts builtin, or a JSONL file with prompt, category"
        ) from None
    return _parse(text, str(path), source)


def warmup_prompts() -> tuple[Prompt, ...]:
    """Prompts that are never measured, for warm-up and for keeping the load up."""
    return _parse(_data("warmup.jsonl"), "built-in warm-up prompts", BUILTIN).prompts


def _data(name: str) -> str:
    return (resources.files("trtspec.loadtest") / "data" / name).read_text(encoding="utf-8")


def _parse(text: str, where: str, source: str) -> PromptSet:
    parsed = [_prompt(line, number) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    prompts = [item for item in parsed if isinstance(item, Prompt)]
    problems = [item for item in parsed if isinstance(item, str)]
    if problems:
        raise UsageError(f"{len(problems)} prompts cannot be used: {problems[0]}", where=where)
    if not prompts:
        raise UsageError("no prompts in it", where=where)
    ids = [prompt.id for prompt in prompts]
    if len(set(ids)) < len(ids):
        twice = next(one for index, one in enumerate(ids) if one in ids[:index])
        raise UsageError(f"prompt id {twice!r} is given twice", where=where)
    return PromptSet(tuple(prompts), source, hashlib.sha256(text.encode()).hexdigest())


def _prompt(line: str, number: int) -> Prompt | str:
    try:
        fields = Fields.parse(line)
        text = fields.text("prompt")
        if not text.strip():
            return f"line {number}: 'prompt' is empty"
        return Prompt(
            id=fields.text("id", f"line-{number}"),
            category=fields.text("category", "uncategorised"),
            text=text,
            max_tokens=fields.optional_count("max_tokens") or _DEFAULT_MAX_TOKENS,
        )
    except FieldError as error:
        return f"line {number}: {error}"


def _random_words(seed: int) -> PromptSet:
    rng = random.Random(seed)  # noqa: S311 - reproducible words, no secret
    words = sorted({word for prompt in load_prompts(BUILTIN).prompts for word in prompt.text.split()})
    texts = [" ".join(rng.choices(words, k=rng.randint(20, 80))) for _ in range(_RANDOM_COUNT)]
    prompts = tuple(Prompt(f"random-{i + 1:03d}", "random", text, _DEFAULT_MAX_TOKENS) for i, text in enumerate(texts))
    return PromptSet(prompts, RANDOM, hashlib.sha256("\n".join(texts).encode()).hexdigest(), synthetic=True)


def draw(prompts: Sequence[Prompt], count: int, rng: random.Random) -> list[Prompt]:
    """`count` prompts in random order, categories as even as they can be at every point of the list.

    No prompt comes twice before all have come once.
    """
    drawn: list[Prompt] = []
    while len(drawn) < count:
        drawn += _shuffled(prompts, rng)
    return drawn[:count]


def _shuffled(prompts: Sequence[Prompt], rng: random.Random) -> list[Prompt]:
    """All prompts once, the n-th of every category before the n+1-th of any."""
    categories: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        categories[prompt.category].append(prompt)
    for members in categories.values():
        rng.shuffle(members)
    order = []
    for turn in range(max(map(len, categories.values()))):
        row = [members[turn] for members in categories.values() if turn < len(members)]
        rng.shuffle(row)
        order += row
    return order
