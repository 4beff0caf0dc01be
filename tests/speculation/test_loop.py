"""The loop on toy models: same output as the target alone, right counts, clean ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

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
    run,
    scripted,
    target_next,
    text_of,
)
from trtspec.speculation import Cancelled, Fixed, Generation, LeafError, Limits, Models, fixed_length

PROMPT = [7, 11, 13, 17, 19, 23, 29]


def limits(max_tokens: int = 60, **values: object) -> Limits:
    return Limits(max_tokens=max_tokens, **{"end_ids": (END,), "vocab_size": VOCAB, **values})  # type: ignore[arg-type]


@given(
    prompt=st.lists(st.integers(2, VOCAB - 1), min_size=1, max_size=12),
    length=st.integers(0, 9),
    max_tokens=st.integers(1, 50),
    echo_target=st.booleans(),
    echo_draft=st.booleans(),
    omit_end=st.booleans(),
)
def test_speculation_gives_what_the_target_alone_gives(
    prompt: list[int], length: int, max_tokens: int, echo_target: bool, echo_draft: bool, omit_end: bool
) -> None:
    if len(prompt) <= max(length, 1):
        echo_target = False  # as short as the draft: an echo cannot always be told from a repetition
    target = ToyTarget(echo=echo_target, omit_end=omit_end)
    chunks = run(prompt, limits(max_tokens), target, ToyDraft(echo=echo_draft), length)
    expected = rollout(target_next, prompt, max_tokens)
    assert ids_of(chunks) == expected
    assert text_of(chunks) == letters(expected)
    last = chunks[-1]
    assert last.finish_reason == ("stop" if END in expected else "length")
    assert last.num_output_tokens == len(expected)
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [""] * (len(chunks) - 1)
    counters = last.counters
    assert sum(counters.histogram) == counters.rounds
    assert sum(k * rounds for k, rounds in enumerate(counters.histogram)) == counters.accepted <= counters.drafted
    assert sum(token.drafted for chunk in chunks for token in chunk.tokens) == counters.accepted
    assert counters.fallbacks == 0


def test_a_perfect_draft_needs_few_rounds() -> None:
    output = list(range(2, 32))
    following = scripted(PROMPT, output)
    chunks = run(PROMPT, limits(), ToyTarget(following), ToyDraft(following), 5)
    counters = chunks[-1].counters
    # 31 tokens with END: five rounds of 5 + 1, and one in which END itself is drafted
    assert (counters.rounds, counters.drafted, counters.accepted) == (6, 26, 26)
    assert counters.histogram == (0, 1, 0, 0, 0, 5)
    assert chunks[-1].num_output_tokens == 31


def test_one_chunk_per_round_with_the_running_totals() -> None:
    following = scripted(PROMPT, list(range(2, 14)))
    chunks = run(PROMPT, limits(), ToyTarget(following), ToyDraft(following), 3)
    assert [(chunk.text, chunk.num_output_tokens, chunk.counters.rounds) for chunk in chunks] == [
        ("2345", 4, 1),
        ("6789", 8, 2),
        (":;<=", 12, 3),
        ("", 13, 4),
    ]


def test_a_block_is_cut_at_its_first_end_token() -> None:
    """[5, END, 6] with bonus 7 gives 5 and END, and the count says 2."""

    class Block(ToyTarget):
        async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
            del ids, draft
            return [5, END, 6, 7]

    chunks = run(PROMPT, limits(), Block(), ToyDraft(scripted(PROMPT, [5, END, 6])), 3)
    assert ids_of(chunks) == [5, END]
    assert chunks[-1].num_output_tokens == 2
    assert chunks[-1].finish_reason == "stop"
    assert (chunks[-1].counters.drafted, chunks[-1].counters.accepted) == (2, 2)


def test_a_stream_is_cut_at_its_first_end_token() -> None:
    """A leaf that does not mark the end token and fills up to the requested length."""

    class Filling(ToyTarget):
        async def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
            del ids, limit
            yield [*range(2, 7), END, *[9] * 4]

    chunks = run(PROMPT, limits(45), Filling())
    assert chunks[-1].num_output_tokens == 6
    assert text_of(chunks) == "23456"


@pytest.mark.parametrize("deltas", [1, 3, 50])
@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("omit_end", [False, True])
def test_plain_generation_is_one_inner_request(deltas: int, echo: bool, omit_end: bool) -> None:
    target = ToyTarget(scripted(PROMPT, list(range(2, 30))), deltas=deltas, echo=echo, omit_end=omit_end)
    chunks = run(PROMPT, limits(), target)
    assert target.streams == 1
    assert not target.verified
    assert ids_of(chunks) == [*range(2, 30), END]
    assert chunks[-1].finish_reason == "stop"
    assert chunks[-1].counters.rounds == 0


def test_several_end_ids_and_the_one_that_was_drafted_is_put_back() -> None:
    following = scripted(PROMPT, [5, 6, 33])
    target = ToyTarget(following, omit_end=True)
    chunks = run(PROMPT, limits(end_ids=(END, 33)), target, ToyDraft(following), 4)
    assert ids_of(chunks) == [5, 6, 33]
    assert chunks[-1].counters.accepted == chunks[-1].counters.drafted == 3


def test_a_stop_word_that_is_a_special_token_ends_with_stop_word() -> None:
    following = scripted(PROMPT, [5, 6, 33, 7])
    for draft in (None, ToyDraft(following)):
        chunks = run(PROMPT, limits(stop_ids=frozenset({33})), ToyTarget(following), draft)
        assert text_of(chunks) == "56"
        assert chunks[-1].finish_reason == "stop_word"
        assert chunks[-1].num_output_tokens == 2


def test_no_end_ids_means_the_full_length() -> None:
    following = scripted(PROMPT, [5, END, 6, 7])
    target = ToyTarget(following)
    assert ids_of(run(PROMPT, limits(6, end_ids=()), target, ToyDraft(following))) == [5, END, 6, 7, END, END]


@pytest.mark.parametrize("max_tokens", range(1, 9))
def test_max_tokens_is_exact_and_no_draft_is_asked_for_more(max_tokens: int) -> None:
    following = scripted(PROMPT, list(range(2, 40)))
    draft = ToyDraft(following)
    chunks = run(PROMPT, limits(max_tokens), ToyTarget(following), draft, 4)
    assert chunks[-1].num_output_tokens == max_tokens
    assert chunks[-1].finish_reason == "length"
    assert all(count <= max_tokens - 1 for count in draft.asked)


def test_draft_length_is_cut_to_the_engine() -> None:
    following = scripted(PROMPT, list(range(2, 30)))
    draft = ToyDraft(following)
    run(PROMPT, limits(max_draft_length=3), ToyTarget(following), draft, 8)
    assert max(draft.asked) == 3


@pytest.mark.parametrize(
    ("broken", "asked_again"),
    [
        pytest.param(failing, False, id="raises"),
        pytest.param(lambda _: [], True, id="nothing"),
        pytest.param(lambda new: [*new, 5, 6, 7], False, id="too many"),
        pytest.param(lambda _: [VOCAB], False, id="out of range"),
        pytest.param(lambda _: [-1], False, id="negative"),
    ],
)
def test_a_draft_that_fails_does_not_fail_the_request(
    broken: Callable[[list[int]], list[int]], asked_again: bool
) -> None:
    output = list(range(2, 25))
    draft = ToyDraft(scripted(PROMPT, output), broken=broken)
    chunks = run(PROMPT, limits(), ToyTarget(scripted(PROMPT, output)), draft, 4)
    assert ids_of(chunks) == [*output, END]
    assert chunks[-1].finish_reason == "stop"
    # nothing may mean "the end", so the draft gets a second chance then
    assert chunks[-1].counters.fallbacks == len(draft.asked) - 1 == (2 if asked_again else 1)
    assert chunks[-1].counters.rounds == 1


def test_garbage_from_the_draft_is_rejected_by_the_target() -> None:
    output = list(range(2, 25))
    draft = ToyDraft(scripted(PROMPT, output), broken=lambda new: [0] * len(new))
    chunks = run(PROMPT, limits(), ToyTarget(scripted(PROMPT, output)), draft, 4)
    assert ids_of(chunks) == [*output, END]
    assert chunks[-1].counters.accepted == 4


def test_a_slow_draft_is_not_waited_for() -> None:
    class Slow(ToyDraft):
        async def propose(self, ids: Sequence[int], count: int) -> list[int]:
            del ids, count
            raise LeafError("no answer after 0.05 s", "timeout")

    output = list(range(2, 9))
    chunks = run(PROMPT, limits(), ToyTarget(scripted(PROMPT, output)), Slow())
    assert ids_of(chunks) == [*output, END]
    assert chunks[-1].counters.fallbacks == 1
    assert chunks[-1].counters.reasons == ("timeout",)


def test_the_error_of_the_target_comes_through() -> None:
    class Broken(ToyTarget):
        async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
            del ids, draft
            raise LeafError("out of memory")

    with pytest.raises(LeafError, match="out of memory"):
        run(PROMPT, limits(), Broken(), ToyDraft())


def test_a_target_that_ignores_drafts_still_gives_its_own_text() -> None:
    """It returns as many tokens of its own as were asked for: right tokens, little acceptance."""

    class Plain(ToyTarget):
        async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
            return rollout(self.following, ids, len(draft) + 1)

    chunks = run(PROMPT, limits(40), Plain(), ToyDraft(), 4)
    assert ids_of(chunks) == rollout(target_next, PROMPT, 40)


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_cancellation_ends_the_request_before_the_next_call(after: int) -> None:
    """In the loop: no call of either leaf once the client has gone."""
    following = scripted(PROMPT, list(range(2, 40)))
    target, draft = ToyTarget(following), ToyDraft(following)
    answers = iter([False] * after + [True] * 100)
    with pytest.raises(Cancelled):
        run(PROMPT, limits(), target, draft, 2, cancelled=lambda: next(answers))
    assert len(draft.asked) == (after + 1) // 2
    assert len(target.verified) == after // 2


def test_cancellation_closes_the_plain_stream() -> None:
    target = ToyTarget(scripted(PROMPT, list(range(2, 40))))
    answers = iter([False] * 4 + [True] * 100)
    with pytest.raises(Cancelled):
        run(PROMPT, limits(), target, cancelled=lambda: next(answers))
    assert target.closed_early == 1


def test_a_stop_word_closes_the_plain_stream() -> None:
    target = ToyTarget(scripted(PROMPT, list(range(2, 40))))
    assert text_of(run(PROMPT, limits(stop_words=("67",)), target)) == "2345"
    assert target.closed_early == 1


@pytest.mark.parametrize("draft_length", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(
    ("words", "text", "count"),
    [
        (("89",), "234567", 6),
        (("nothing", "9:", "89"), "234567", 6),  # "89" is complete before "9:"
        (("2",), "", 0),
        (("=", "<"), "23456789:;", 10),
        (("never",), "23456789:;<=", 13),
    ],
)
def test_stop_words_cut_text_and_count(draft_length: int, words: tuple[str, ...], text: str, count: int) -> None:
    following = scripted(PROMPT, list(range(2, 14)))
    draft = ToyDraft(following) if draft_length else None
    chunks = run(PROMPT, limits(stop_words=words), ToyTarget(following), draft, draft_length)
    assert text_of(chunks) == text
    assert chunks[-1].num_output_tokens == count == len(ids_of(chunks))
    assert chunks[-1].finish_reason == ("stop" if "never" in words else "stop_word")


def test_rounds_end_at_a_stop_word() -> None:
    """With several stop words no round follows the one that completes any of them."""
    following = scripted(PROMPT, list(range(2, 40)))
    target = ToyTarget(following)
    run(PROMPT, limits(stop_words=("78", "9", "zz")), target, ToyDraft(following), 3)
    assert len(target.verified) == 2


def test_text_that_could_be_a_stop_word_is_flushed_when_it_is_none() -> None:
    following = scripted(PROMPT, [2, 3, 4, 5])
    chunks = run(PROMPT, limits(stop_words=("45x",)), ToyTarget(following))
    assert [chunk.text for chunk in chunks] == ["2", "3", "45"]
    assert [chunk.num_output_tokens for chunk in chunks] == [1, 2, 5]


def test_a_policy_of_zero_goes_on_without_speculation() -> None:
    output = list(range(2, 30))
    target, draft = ToyTarget(scripted(PROMPT, output)), ToyDraft(scripted(PROMPT, output))

    @dataclass(frozen=True)
    class TwoRounds(Fixed):
        tokens: int = 3

        def after_round(self, drafted: int, accepted: int) -> Fixed:
            del drafted, accepted
            return Fixed(0) if len(draft.asked) == 2 else self

    async def collect() -> list[int]:
        models = Models(target, letters, draft)
        generation = Generation(PROMPT, limits(), models, TwoRounds())
        return ids_of([chunk async for chunk in generation.chunks()])

    assert asyncio.run(collect()) == [*output, END]
    assert (len(draft.asked), target.streams) == (2, 1)


def test_requests_overlap() -> None:
    """Ten requests of ten rounds that each wait: about the time of one."""

    class Waiting(ToyTarget):
        async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
            await asyncio.sleep(0.01)
            return await super().verify(ids, draft)

    async def one() -> None:
        following = scripted(PROMPT, list(range(2, 20)))
        models = Models(Waiting(following), letters, ToyDraft(following))
        async for _ in Generation(PROMPT, limits(), models, fixed_length(1)).chunks():
            pass

    async def ten() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(one() for _ in range(10)))
        return loop.time() - started

    assert asyncio.run(ten()) < 0.5
