"""The loop with drafts from the text: the target's output, what a miss costs, who drafted, lengths of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.speculation.toys import (
    END,
    VOCAB,
    ToyDraft,
    ToyTarget,
    failing,
    ids_of,
    letters,
    rollout,
    scripted,
    target_next,
)
from trtspec.speculation import Adaptive, Chunk, DraftPolicy, Fixed, Generation, Limits, Models, NgramDraft

PROMPT = [7, 11, 13, 17, 19, 23, 29]
REPEATING = [7, 11, 13, 17, 7, 11, 13, 17, 7, 11, 13, 17, 30, 31, 7, 11, 13, 17]


def run(
    prompt: Sequence[int],
    target: ToyTarget,
    policy: DraftPolicy,
    draft: ToyDraft | None = None,
    *,
    max_tokens: int = 60,
    lookup_length: int | None = None,
    shortest: int = 2,
) -> list[Chunk]:
    async def collect() -> list[Chunk]:
        models = Models(target, letters, draft, NgramDraft(shortest), lookup_length)
        limits = Limits(max_tokens, end_ids=(END,), vocab_size=VOCAB, max_draft_length=12)
        return [chunk async for chunk in Generation(prompt, limits, models, policy).chunks()]

    return asyncio.run(collect())


def sources(chunks: Sequence[Chunk]) -> list[int]:
    return [token.source for chunk in chunks for token in chunk.tokens]


@given(
    prompt=st.lists(st.integers(2, 6), min_size=1, max_size=12),
    output=st.lists(st.integers(2, 6), max_size=40),
    length=st.integers(0, 9),
    lookup_length=st.none() | st.integers(1, 9),
    with_model=st.booleans(),
    omit_end=st.booleans(),
    max_tokens=st.integers(1, 45),
)
def test_the_output_is_the_targets(
    prompt: list[int],
    output: list[int],
    length: int,
    lookup_length: int | None,
    with_model: bool,
    omit_end: bool,
    max_tokens: int,
) -> None:
    following = scripted(prompt, output)
    target = ToyTarget(following, omit_end=omit_end)
    draft = ToyDraft() if with_model else None
    chunks = run(prompt, target, Fixed(length), draft, max_tokens=max_tokens, lookup_length=lookup_length)
    assert ids_of(chunks) == rollout(following, prompt, max_tokens)
    counters = chunks[-1].counters
    assert counters.fallbacks == 0
    found = counters.looked_up
    assert (found.rounds, found.drafted, found.accepted) <= (counters.rounds, counters.drafted, counters.accepted)
    assert sum(counters.histogram) == counters.rounds
    assert sources(chunks).count(2) == found.accepted
    assert sources(chunks).count(1) == counters.accepted - found.accepted
    if length == 0:
        assert (counters.rounds, counters.misses) == (0, 0)


def test_where_nothing_is_found_the_target_goes_on_alone_and_the_text_is_looked_at_again() -> None:
    target = ToyTarget(scripted(PROMPT, list(range(2, 12))))
    chunks = run(PROMPT, target, Fixed(4), max_tokens=10)
    assert ids_of(chunks) == list(range(2, 12))
    counters = chunks[-1].counters
    # a token a call, shown as it comes; no round, no fallback; for the last one there is no room to draft
    assert (target.streams, target.verified, counters.misses) == (0, [()] * 10, 9)
    assert (counters.rounds, counters.fallbacks) == (0, 0)
    assert [chunk.num_output_tokens for chunk in chunks] == list(range(1, 11))


def test_what_stands_in_the_text_is_verified_in_one_call() -> None:
    prompt = [5, 6, 7, 8, 9, 10, 11, 12, 20, 5, 6]
    target = ToyTarget(scripted(prompt, [7, 8, 9, 10, 11, 12, 13]))
    chunks = run(prompt, target, Fixed(6), max_tokens=7)
    assert target.verified == [(7, 8, 9, 10, 11, 12)]
    assert target.streams == 0
    counters = chunks[-1].counters
    assert (counters.rounds, counters.looked_up.accepted, counters.misses) == (1, 6, 0)
    assert sources(chunks) == [2, 2, 2, 2, 2, 2, 0]


def test_the_model_is_asked_only_where_the_text_holds_nothing() -> None:
    # new tokens first, then four of the prompt, and what followed them there
    following = scripted([*REPEATING, 35], [39, 38, 7, 11, 13, 17, 30, 31, 7, 36, 37])
    target, draft = ToyTarget(following), ToyDraft(following)
    chunks = run([*REPEATING, 35], target, Fixed(2), draft, max_tokens=11, lookup_length=5, shortest=4)
    counters = chunks[-1].counters
    assert counters.looked_up.rounds + len(draft.asked) == counters.rounds
    assert counters.misses == len(draft.asked) > 0
    assert all(count <= 2 for count in draft.asked)
    assert max(len(made) for made in target.verified) > 2


def test_a_model_that_fails_leaves_the_lookup() -> None:
    target = ToyTarget(scripted(REPEATING, [7, 11, 13, 17, 30, 31, 7, 11, 13, 17, 36, 37]))
    chunks = run(REPEATING, target, Fixed(3), ToyDraft(broken=failing), max_tokens=12, shortest=3)
    counters = chunks[-1].counters
    assert ids_of(chunks) == [7, 11, 13, 17, 30, 31, 7, 11, 13, 17, 36, 37]
    assert counters.fallbacks <= 1
    assert counters.looked_up.rounds > 0


def test_an_adaptive_policy_rests_where_lookups_are_not_accepted() -> None:
    """A text that repeats its last two tokens all the time, and never what came after them."""
    output = [token for step in range(60) for token in (2, 3, 4 + step % 30)]
    target = ToyTarget(scripted(PROMPT, output))
    policy = Adaptive(now=4, shortest=1, longest=8, off_below=0.4)
    chunks = run(PROMPT, target, policy, max_tokens=180)
    assert ids_of(chunks) == output
    fixed = run(PROMPT, ToyTarget(scripted(PROMPT, output)), Fixed(4), max_tokens=180)
    assert chunks[-1].counters.drafted < fixed[-1].counters.drafted / 2


class Watched(NgramDraft):
    """Remembers the lengths that it was asked for where it found something."""

    def __init__(self, shortest: int) -> None:
        super().__init__(shortest)
        self.found: list[int] = []

    async def propose(self, ids: Sequence[int], count: int) -> tuple[int, ...]:
        tokens = await super().propose(ids, count)
        self.found += [count] if tokens else []
        return tokens


def test_text_and_model_each_learn_their_own_length() -> None:
    """A block comes again and again behind three new tokens; the model is always wrong, and the text mostly right."""
    block = list(range(2, 22))
    output = [token for n in range(14) for token in (22 + n, 23 + 5 * n % 17, 22 + 7 * n % 18, *block)]
    following = scripted([*block, 39], output)
    target, draft, lookup = ToyTarget(following), ToyDraft(lambda ids: (following(ids) + 1) % VOCAB), Watched(4)

    async def collect() -> list[Chunk]:
        models = Models(target, letters, draft, lookup)
        limits = Limits(len(output), end_ids=(END,), vocab_size=VOCAB, max_draft_length=12)
        policy = Adaptive(now=4, shortest=1, longest=8, off_below=0.1)
        return [chunk async for chunk in Generation([*block, 39], limits, models, policy).chunks()]

    chunks = asyncio.run(collect())
    assert ids_of(chunks) == output
    assert lookup.found[:6] == [4, 5, 6, 6, 7, 8]
    assert set(lookup.found[8:-1]) == {8}
    # the model's drafts get short, then it rests, and probes are short too; the text is drafted from all the while
    assert draft.asked == [4, 3, 2, *[1] * (len(draft.asked) - 3)]
    assert len(draft.asked) < chunks[-1].counters.misses / 3


@pytest.mark.parametrize("length", [1, 3, 8])
def test_any_target_is_followed(length: int) -> None:
    target = ToyTarget()
    chunks = run(PROMPT, target, Fixed(length), ToyDraft(), max_tokens=50)
    assert ids_of(chunks) == rollout(target_next, PROMPT, 50)
