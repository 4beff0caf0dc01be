"""The order in which prompts are asked."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from trtspec.loadtest.prompts.prompt import Prompt

__all__ = ["draw"]


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
