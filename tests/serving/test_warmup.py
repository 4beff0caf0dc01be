"""What the first requests ask for: a draft is found in the text of the repeating one, however it is cut into tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from trtspec.serving.warmup import repeating_prompt, warmup_requests
from trtspec.spec.names import DRAFT_MODEL, FRONTEND_MODEL, TARGET_MODEL
from trtspec.speculation import NgramDraft

Cut = Callable[[str], list[str]]

CUTS: dict[str, Cut] = {
    "bytes": list,
    "words with their space": lambda text: [text[:5], *(text[at : at + 6] for at in range(5, len(text), 6))],
    "words and spaces": lambda text: [part for word in text.split() for part in (" ", word)][1:],
    "pieces of words": lambda text: [part for word in text.split(" ") for part in (f" {word[:2]}", word[2:])],
}


@pytest.mark.parametrize("lookup_match", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("cut", sorted(CUTS))
def test_a_draft_is_found_in_the_first_round(cut: str, lookup_match: int) -> None:
    tokens = CUTS[cut](repeating_prompt(lookup_match))
    ids = [sorted(set(tokens)).index(token) for token in tokens]
    for begin in ([], [99]):  # some tokenizers put a token before a prompt
        assert len(asyncio.run(NgramDraft(lookup_match).propose([*begin, *ids], 4))) == 4


def test_nothing_is_sent_to_other_servers() -> None:
    assert not list(warmup_requests((TARGET_MODEL, DRAFT_MODEL), {"lookup": "true"}))


def test_the_models_draft_is_not_found_in_the_text() -> None:
    models = (FRONTEND_MODEL, TARGET_MODEL, DRAFT_MODEL)
    bodies = list(warmup_requests(models, {"lookup": "true", "lookup_match": "1"}))
    prompt = bodies[1]["text_input"]
    for cut in CUTS.values():
        tokens = cut(prompt)
        ids = [sorted(set(tokens)).index(token) for token in tokens]
        assert not asyncio.run(NgramDraft(1).propose(ids, 4))
    assert bodies[2]["text_input"] != prompt
