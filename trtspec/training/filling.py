"""Templates filled with words of long lists, numbers, dates, and whatever generators make."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

__all__ = ["Filler", "slots"]

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_SLOT = re.compile(r"\{([a-z_]+)\}")
_WORDS_KEPT = 8
_FEWEST = 8  # of a shorter list every word is used everywhere


@dataclass(frozen=True)
class Slots:
    """Entries for the slots, sentences of passages in their order, and records; all may hold slots."""

    words: dict[str, list[str]]
    passages: list[list[str]]
    records: list[str]


@functools.cache
def slots() -> Slots:
    """The lists in slots.json."""
    file = resources.files("trtspec.training") / "slots.json"
    return Slots(**json.loads(file.read_text(encoding="utf-8")))


class Filler:
    """Fills templates; for ``held_out`` prompts with every eighth entry of a list, otherwise with the others."""

    def __init__(
        self, rng: random.Random, held_out: bool, generators: Mapping[str, Callable[[Filler], str]] | None = None
    ) -> None:
        self.rng = rng
        self._held_out = held_out
        self._generators = {**_PLAIN, **(generators or {})}

    def text(self, template: str) -> str:
        """The template with its slots filled; entries may hold slots themselves."""
        return _SLOT.sub(lambda match: self.word(match.group(1)), template).replace("\\n", "\n")

    def word(self, name: str) -> str:
        """An entry for one slot; `{name}` where there is no such slot."""
        if name in self._generators:
            return self._generators[name](self)
        words = slots().words
        return self.text(self.rng.choice(self.kept(words[name]))) if name in words else f"{{{name}}}"

    def kept(self, entries: Sequence[str]) -> Sequence[str]:
        """The entries that this kind of prompt may use."""
        if len(entries) < _FEWEST:
            return entries
        return [one for place, one in enumerate(entries) if (place % _WORDS_KEPT == 5) == self._held_out]

    def passage(self) -> list[str]:
        """Three or more sentences of one passage, in their order."""
        passages = slots().passages
        places = [place for place in range(len(passages)) if (place % _WORDS_KEPT == 5) == self._held_out]
        sentences = passages[self.rng.choice(places)]
        kept = sorted(self.rng.sample(range(len(sentences)), self.rng.randint(3, len(sentences))))
        return [self.text(sentences[place]) for place in kept]

    def several(self, name: str, least: int, most: int) -> list[str]:
        """Different entries for a slot, as many as there are at most."""
        wanted = self.rng.randint(least, most)
        return list(dict.fromkeys(self.word(name) for _ in range(wanted)))


def _pair(filler: Filler) -> str:
    words = slots().words
    pairs = [" and ".join(pair) for pair in zip(words["thing_a"], words["thing_b"], strict=True)]
    return filler.rng.choice(filler.kept(pairs))


def _date(filler: Filler) -> str:
    rng = filler.rng
    month, day, year = rng.randint(1, 12), rng.randint(1, 28), rng.randint(2015, 2026)
    name = _MONTHS[month - 1]
    forms = (f"{name} {day}", f"{name} {day}, {year}", f"{day} {name} {year}", f"{year}-{month:02d}-{day:02d}")
    return rng.choice(forms)


_PLAIN: dict[str, Callable[[Filler], str]] = {
    "passage": lambda filler: " ".join(filler.passage()),
    "sentence": lambda filler: filler.rng.choice(filler.passage()),
    "record": lambda filler: filler.text(filler.rng.choice(filler.kept(slots().records))),
    "pair": _pair,
    "date": _date,
    "time": lambda filler: f"{filler.rng.randint(7, 19)}:{filler.rng.choice(('00', '15', '30', '45'))}",
    "n": lambda filler: str(filler.rng.randint(11, 99)),
    "hours": lambda filler: str(filler.rng.randint(2, 9)),
    "pct": lambda filler: str(filler.rng.randint(2, 95)),
    "year": lambda filler: str(filler.rng.randint(1890, 2024)),
    "price": lambda filler: f"{filler.rng.randint(2, 900)}.{filler.rng.choice(('00', '50', '99'))}",
}
