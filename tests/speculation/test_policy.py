"""Draft-length policies, simulated: no model, only rounds and what they brought."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.speculation.toys import ToyDraft, ToyTarget, ids_of, letters, rollout, scripted, target_next
from trtspec.speculation import (
    DRAFTED,
    LOOKED_UP,
    Adaptive,
    BySource,
    DraftPolicy,
    Generation,
    Limits,
    Models,
    Schedule,
    Source,
    Surroundings,
    Wanted,
    fixed_length,
)

PROMPT = [7, 11, 13, 17, 19, 23, 29]


def course(policy: DraftPolicy, accepted: Callable[[int, int], int], tokens: int, running: int = 1) -> list[int]:
    """The draft length of each step (0: alone) until `tokens` are made; `accepted` of (tokens so far, drafted)."""
    made, lengths = 0, []
    while made < tokens:
        length = policy.length(running)
        lengths.append(length)
        if length:
            good = accepted(made, length)
            policy = policy.after_round(length, good)
            made += good + 1
        else:
            pause = policy.pause()
            step = tokens - made if pause is None else pause
            policy = policy.after_plain(step)
            made += step
    return lengths


def nothing(made: int, drafted: int) -> int:
    del made, drafted
    return 0


def everything(made: int, drafted: int) -> int:
    del made
    return drafted


def test_a_fixed_length_stays() -> None:
    assert course(fixed_length(3), nothing, 4) == [3, 3, 3, 3]
    assert course(fixed_length(0), nothing, 100) == [0]


@pytest.mark.parametrize(("running", "length"), [(1, 8), (4, 8), (5, 4), (8, 4), (9, 1), (32, 1), (33, 0), (1000, 0)])
def test_a_schedule_goes_by_the_running_requests(running: int, length: int) -> None:
    policy = Schedule.of({4: 8, 8: 4, 32: 1})
    assert policy.length(running) == length
    assert policy.after_round(8, 0).length(running) == length


def test_a_schedule_that_is_off_is_asked_again_soon() -> None:
    policy = Schedule.of({4: 4, 8: 0})
    assert (policy.length(6), policy.pause()) == (0, 32)
    assert policy.after_plain(32).length(3) == 4


def adaptive(now: int = 4, shortest: int = 1, longest: int = 8, off_below: float = 0.1) -> Adaptive:
    return Adaptive(now, shortest, longest, off_below)


def test_adaptive_grows_while_everything_is_accepted() -> None:
    lengths = course(adaptive(), everything, 100)
    assert lengths[:6] == [4, 5, 6, 7, 8, 8]


def test_adaptive_shrinks_to_its_floor() -> None:
    lengths = course(adaptive(shortest=2, off_below=0.0), nothing, 12)
    assert lengths == [4, 3, *[2] * 10]


def test_adaptive_settles_at_the_depth_to_which_the_draft_is_right() -> None:
    """A draft that is right for three tokens: four are drafted, and neither more nor fewer for long."""
    lengths = course(adaptive(now=8), lambda _, drafted: min(3, drafted), 400)
    assert set(lengths[20:]) <= {4, 5, 6}


def test_adaptive_rests_when_the_draft_is_no_good_and_probes_again() -> None:
    lengths = course(adaptive(), nothing, 975)
    assert lengths[:9] == [4, 3, 2, 1, 1, 1, 1, 1, 0]
    assert lengths[9:14] == [1, 1, 1, 1, 0]
    # each failed probe doubles the rest: 64, 128, 256, 512 tokens alone
    assert lengths.count(0) == 4
    assert sum(1 for length in lengths if length) == 8 + 3 * 4


def test_adaptive_comes_back_when_the_text_gets_easy() -> None:
    lengths = course(adaptive(), lambda made, drafted: drafted if made > 60 else 0, 300)
    assert 0 in lengths
    back = lengths[lengths.index(0) + 1 :]
    assert back[:4] == [1, 2, 3, 4]
    assert 0 not in back


@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0, 1)), max_size=200), st.integers(1, 4), st.integers(4, 9))
def test_adaptive_keeps_its_bounds(rounds: list[tuple[int, float]], shortest: int, longest: int) -> None:
    policy = adaptive(4, shortest, longest)
    for drafted, share in rounds:
        if policy.length(1) == 0:
            pause = policy.pause()
            assert pause is not None
            assert pause > 0
            policy = policy.after_plain(min(pause, 10))
        else:
            assert shortest <= policy.length(1) <= longest
            policy = policy.after_round(drafted, int(share * drafted))


def both(policy: DraftPolicy) -> BySource:
    return BySource(policy, policy)


def courses(policies: BySource, accepted: dict[Source, float], rounds: int) -> list[Wanted]:
    """What is wanted before each step: text and model draft in turn where both are asked.

    accepted: the share of its drafts that each has accepted, always the same.
    """
    seen: list[Wanted] = []
    for step in range(rounds):
        wanted = policies.wanted(1)
        seen.append(wanted)
        source = LOOKED_UP if wanted.text and (step % 2 == 0 or not wanted.model) else DRAFTED
        drafted = wanted.text if source == LOOKED_UP else wanted.model
        if drafted:
            policies = policies.after_round(source, drafted, round(accepted[source] * drafted))
        else:
            policies = policies.after_plain(policies.pause() or 1)
    return seen


def test_each_source_has_the_length_of_its_own_acceptance() -> None:
    seen = courses(both(adaptive(off_below=0.0)), {LOOKED_UP: 1.0, DRAFTED: 0.2}, 40)
    assert seen[0] == Wanted(4, 4)
    assert seen[-1] == Wanted(8, 1)
    # the other way round it is the other way round
    seen = courses(both(adaptive(off_below=0.0)), {LOOKED_UP: 0.2, DRAFTED: 1.0}, 40)
    assert seen[-1] == Wanted(1, 8)


def test_a_source_of_which_nothing_is_accepted_rests_and_the_other_goes_on() -> None:
    seen = courses(both(adaptive()), {LOOKED_UP: 1.0, DRAFTED: 0.0}, 120)
    assert all(wanted.text for wanted in seen)
    rests = [step for step, wanted in enumerate(seen) if not wanted.model]
    assert rests
    # the text's tokens, nine a round, count towards the rest of 64: it is over after eight of them, then come probes
    first = rests[0]
    assert [wanted.model for wanted in seen[first : first + 9]] == [0] * 8 + [1]
    assert not any(wanted.model for wanted in seen[-5:])  # each probe that fails doubles the rest


def test_when_all_rest_the_first_to_wake_says_when_to_ask_again() -> None:
    tired = Adaptive(1, 1, 8, 0.1, resting=64)
    policies = BySource(tired, Adaptive(1, 1, 8, 0.1, resting=40))
    assert (policies.wanted(1), policies.pause()) == (Wanted(0, 0), 40)
    after = policies.after_plain(40)
    assert (after.wanted(1), after.text) == (Wanted(0, 1), Adaptive(1, 1, 8, 0.1, resting=24))
    # a step of one token that nobody drafted counts for both
    assert after.after_round(DRAFTED, 0, 0).text == Adaptive(1, 1, 8, 0.1, resting=23)


def test_a_source_that_is_given_up_has_no_say() -> None:
    policies = BySource(Adaptive(1, 1, 8, 0.1, resting=64), Adaptive(4, 1, 8, 0.1))
    alone = policies.without(DRAFTED)
    assert (alone.wanted(1), alone.pause()) == (Wanted(0, 0), 64)
    assert policies.without(LOOKED_UP).wanted(1) == Wanted(0, 4)
    assert BySource().pause() is None


def test_other_policies_answer_alike_for_both() -> None:
    for policy in (fixed_length(3), Schedule.of({4: 3})):
        assert courses(both(policy), {LOOKED_UP: 1.0, DRAFTED: 0.0}, 30) == [Wanted(3, 3)] * 30


class Remembering(ToyDraft):
    def __init__(self) -> None:
        super().__init__()
        self.sequences: list[list[int]] = []

    async def propose(self, ids: Sequence[int], count: int) -> list[int]:
        self.sequences.append(list(ids))
        return await super().propose(ids, count)


def generate(
    policy: DraftPolicy, running: Callable[[], int], tokens: int = 150
) -> tuple[list[int], Remembering, ToyTarget]:
    target, draft = ToyTarget(), Remembering()

    async def collect() -> list[int]:
        limits = Limits(tokens, vocab_size=40)
        target.end_ids = ()
        around = Surroundings(running)
        generation = Generation(PROMPT, limits, Models(target, letters, draft), policy, around)
        return ids_of([chunk async for chunk in generation.chunks()])

    return asyncio.run(collect()), draft, target


def test_speculation_returns_when_the_load_falls() -> None:
    """Off beyond the last bound; back with the whole sequence, from which the draft's cache catches up."""
    load = iter([1, 1, 9, 9, *[1] * 1000])
    ids, draft, target = generate(Schedule.of({4: 3}), lambda: next(load))
    assert ids == rollout(target_next, PROMPT, 150, ())
    assert target.streams == 2
    lengths = [len(sequence) for sequence in draft.sequences]
    assert lengths[2] - lengths[1] >= 64
    assert draft.sequences[2] == [*PROMPT, *ids][: lengths[2]]


@given(
    st.sampled_from([Schedule.of({2: 5, 4: 2}), adaptive(off_below=0.9), adaptive(off_below=0.5), fixed_length(3)]),
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.integers(1, 120),
)
def test_no_policy_changes_the_answer(policy: DraftPolicy, load: list[int], tokens: int) -> None:
    calls = 0

    def running() -> int:
        nonlocal calls
        calls += 1
        return load[calls % len(load)]

    ids, _, _ = generate(policy, running, tokens)
    assert ids == rollout(target_next, PROMPT, tokens, ())


@pytest.mark.parametrize("fence", [0, 1, 3, 10, 40])
def test_no_call_reaches_across_the_fence(fence: int) -> None:
    """What a leaf is told changes there (the end ids that min_tokens keeps back)."""
    output = list(range(2, 30))
    reached: list[tuple[int, int]] = []

    class Watched(ToyTarget):
        async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
            reached.append((len(ids) - len(PROMPT), len(draft) + 1))
            return await super().verify(ids, draft)

        def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
            reached.append((len(ids) - len(PROMPT), limit))
            return super().stream(ids, limit)

    async def collect(draft: ToyDraft | None) -> list[int]:
        models = Models(Watched(scripted(PROMPT, output)), letters, draft)
        limits = Limits(25, end_ids=(1,), vocab_size=40, fence=fence)
        return ids_of([chunk async for chunk in Generation(PROMPT, limits, models, fixed_length(4)).chunks()])

    for draft in (ToyDraft(scripted(PROMPT, output)), None):
        assert asyncio.run(collect(draft)) == output[:25]
    assert all(begin >= fence or begin + count <= fence for begin, count in reached)
