"""Chat prompts for training a draft: templates filled from long lists and with made-up documents and programs.

They are of the kinds that a general assistant is asked, in the twelve categories of the load test.  They are made up
here and none of them is a prompt of the load test: a draft must be measured on prompts it never saw.  Some templates
and some words of every list are used in held-out prompts only, so that acceptance there is that of new prompts, not of
old ones with other words in them.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from trtspec.training.documents import DOCUMENTS
from trtspec.training.filling import Filler

__all__ = ["CATEGORIES", "Prompt", "iterate_prompts", "make_prompts"]

_HELD_OUT_EVERY = 19  # shares no factor with the number of categories, which take turns
_TEMPLATES_KEPT = 9
_TRIES = 200
# share of chatty prompts that begin or end in words of their own
_OPENED, _ENDED = 0.1, 0.3
_CHATTY = frozenset({"chat", "code", "creative", "question_answering", "reasoning", "stories"})


@dataclass(frozen=True)
class Prompt:
    """One user message, its category, and whether it is held out: never to be trained on."""

    category: str
    text: str
    held_out: bool = False


@functools.cache
def _templates() -> dict[str, list[str]]:
    file = resources.files("trtspec.training") / "templates.json"
    found: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


CATEGORIES = (
    "chat", "code", "code_editing", "copying", "creative", "extraction", "question_answering", "reasoning",
    "reformatting", "stories", "summarising", "translation",
)  # fmt: skip


def make_prompts(count: int, seed: int = 0, categories: Sequence[str] = CATEGORIES) -> list[Prompt]:
    """``count`` different prompts, the categories in turn; a longer list begins with the shorter."""
    return list(itertools.islice(iterate_prompts(seed, categories), count))


def iterate_prompts(seed: int = 0, categories: Sequence[str] = CATEGORIES) -> Iterator[Prompt]:
    """Different prompts, the categories in turn, every 19th held out; ends when no new ones are found."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    seen: set[str] = set()
    for number in itertools.count():
        category, held_out = categories[number % len(categories)], number % _HELD_OUT_EVERY == 0
        found = (_written(category, rng, held_out) for _ in range(_TRIES))
        text = next((text for text in found if text not in seen), None)
        if text is None:
            return
        seen.add(text)
        yield Prompt(category, text, held_out)


def _written(category: str, rng: random.Random, held_out: bool) -> str:
    templates = _templates()[category]
    kept = [one for place, one in enumerate(templates) if (place % _TEMPLATES_KEPT == 4) == held_out]
    filler = Filler(rng, held_out, DOCUMENTS)
    text = filler.text(rng.choice(kept))
    if category not in _CHATTY:
        return text
    opening = filler.word("opening") if rng.random() < _OPENED else ""
    ending = filler.word("ending") if rng.random() < _ENDED and "\n" not in text else ""
    return f"{opening}{text}{ending}"
