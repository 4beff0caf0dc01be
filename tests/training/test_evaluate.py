from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from tests.training.toys import jobs, tiny_model
from trtspec.speculation import Generation, Limits, Models
from trtspec.speculation.policy import fixed_length
from trtspec.training.decoder import Decoder
from trtspec.training.evaluate import Acceptance, acceptance, by_category, by_position, draft_matches, ending, simulate
from trtspec.training.generate import Answer, GenerationSettings, generate


@pytest.mark.parametrize(
    ("pattern", "draft_length", "expected"),
    [
        ("1111", 4, Acceptance(1, 4, 4)),
        ("0000", 2, Acceptance(4, 7, 0)),
        ("110111", 3, Acceptance(2, 6, 5)),
        # Round 1 accepts two and takes the third from the target; round 2 starts at the fourth.
        ("11111", 2, Acceptance(2, 4, 4)),
        ("10", 5, Acceptance(1, 2, 1)),
        ("", 3, Acceptance()),
    ],
)
def test_rounds_of_hand_made_answers(pattern: str, draft_length: int, expected: Acceptance) -> None:
    matches = np.array([mark == "1" for mark in pattern], dtype=np.bool_)
    assert simulate(matches, draft_length) == expected


def test_rate_and_mean_length_pool_over_tokens() -> None:
    total = acceptance([np.array([True, True, False]), np.array([False])], 2)
    assert total == Acceptance(2, 3, 2)
    assert total.rate == pytest.approx(2 / 3)
    assert total.mean_length == 2


def test_nothing_drafted_has_no_rate() -> None:
    assert Acceptance().rate is None
    assert Acceptance().mean_length is None


class Recorded:
    """The target of a serving loop that gives a recorded answer."""

    def __init__(self, answer: Answer) -> None:
        self._prompt, self._tokens = len(answer.job.prompt), answer.tokens.tolist()

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> Sequence[int]:
        rest: list[int] = self._tokens[len(ids) - self._prompt :]
        accepted = next((at for at, (a, b) in enumerate(zip(draft, rest, strict=False)) if a != b), len(draft))
        return rest[: accepted + 1]

    def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
        raise NotImplementedError


class Greedy:
    """A draft in a serving loop; notes when it proposes an end."""

    def __init__(self, network: Any, end_ids: tuple[int, ...]) -> None:
        self._network, self._end_ids = network, end_ids
        self.guessed_ends = 0

    async def propose(self, ids: Sequence[int], count: int) -> Sequence[int]:
        tokens = list(ids)
        for _ in range(count):
            tokens.append(int(self._network(torch.tensor([tokens])).logits[0, -1].argmax()))
        drafted = tokens[len(ids) :]
        self.guessed_ends += sum(token in self._end_ids for token in drafted)
        return drafted


def served(answer: Answer, draft: Greedy, draft_length: int, settings: GenerationSettings) -> Acceptance:
    """The counts of the serving loop's own rounds for a recorded answer."""

    async def counted() -> Acceptance:
        limits = Limits(settings.max_new_tokens, settings.end_ids, max_draft_length=8)
        models = Models(Recorded(answer), lambda ids: " ".join(map(str, ids)), draft)
        generation = Generation(answer.job.prompt, limits, models, fixed_length(draft_length))
        async for _ in generation.chunks():
            pass
        counters = generation.counters
        return Acceptance(counters.rounds, counters.drafted, counters.accepted)

    return asyncio.run(counted())


@torch.inference_mode()
@pytest.mark.parametrize("draft_length", [1, 3, 6])
def test_matches_give_what_the_serving_loop_counts(draft_length: int) -> None:
    """But for drafted tokens behind an end that the draft guesses wrongly, which the loop does not send."""
    target, draft = tiny_model(seed=0), tiny_model(seed=0)
    for weight in draft.parameters():
        weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    free = GenerationSettings(rows=4, max_new_tokens=20, top_k=2, end_ids=())
    seen = Counter(int(answer.tokens[12]) for answer in generate(Decoder(target), jobs(12), free))
    settings = replace(free, end_ids=(seen.most_common()[0][0],))
    answers = list(generate(Decoder(target), jobs(12), settings))
    assert {ending(answer, settings.end_ids) for answer in answers} == {"token", "limit"}
    pairs, exact = list(zip(answers, draft_matches(draft, answers), strict=True)), 0
    for answer, matches in pairs:
        greedy = Greedy(draft, settings.end_ids)
        looped = served(answer, greedy, draft_length, settings)
        counts = simulate(matches, draft_length, ending(answer, settings.end_ids))
        assert (counts.rounds, counts.accepted) == (looped.rounds, looped.accepted)
        assert counts.drafted >= looped.drafted
        if not greedy.guessed_ends:
            exact += 1
            assert counts == looped
    assert exact > 2
    whole = sum(
        by_category(answers, [matches for _, matches in pairs], draft_length, settings.end_ids).values(), Acceptance()
    )
    endings = [ending(answer, settings.end_ids) for answer in answers]
    assert acceptance([matches for _, matches in pairs], draft_length, endings) == whole


@pytest.mark.parametrize(
    ("pattern", "end", "expected"),
    [
        ("1111", "limit", Acceptance(1, 3, 3)),  # three drafted and the target's own
        ("11111", "limit", Acceptance(1, 3, 3)),  # the last one by the target alone
        ("111", "limit", Acceptance(1, 2, 2)),
        ("1", "limit", Acceptance()),
        ("10", "token", Acceptance(1, 3, 1)),
        ("11", "token", Acceptance(1, 2, 2)),
        ("11101", "token", Acceptance(2, 4, 4)),
    ],
)
def test_the_end_of_an_answer_as_the_serving_loop_meets_it(
    pattern: str, end: Literal["token", "limit"], expected: Acceptance
) -> None:
    matches = np.array([mark == "1" for mark in pattern], dtype=np.bool_)
    assert simulate(matches, 3, end) == expected


def test_the_share_of_each_place_in_the_round() -> None:
    first = np.array([True, True, False, True, True, True], dtype=np.bool_)
    # rounds of three: (1 1 0), then (1 1 1)
    assert by_position([first], 3) == (1.0, 1.0, 0.5)
    assert by_position([np.array([True], dtype=np.bool_)], 2) == (1.0, None)
    total = acceptance([first], 3)
    assert total.accepted == 5


@torch.inference_mode()
def test_a_draft_that_may_propose_some_tokens_only_never_matches_others() -> None:
    answers = list(generate(Decoder(tiny_model()), jobs(6), GenerationSettings(rows=4, max_new_tokens=10, top_k=2)))
    everything = draft_matches(tiny_model(), answers)
    assert all(one.all() for one in everything)
    kept = torch.arange(40)
    some = draft_matches(tiny_model(), answers, proposed=kept)
    for one, answer in zip(some, answers, strict=True):
        assert (one == (answer.tokens < 40)).all()
