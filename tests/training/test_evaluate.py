from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training.toys import jobs, tiny_model
from trtspec.training.decoder import Decoder
from trtspec.training.evaluate import Acceptance, acceptance, by_category, by_position, draft_matches, simulate
from trtspec.training.generate import GenerationSettings, generate


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


@torch.inference_mode()
def test_matches_give_what_a_speculative_loop_accepts() -> None:
    target, draft = tiny_model(seed=0), tiny_model(seed=0)
    for weight in draft.parameters():
        weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    settings = GenerationSettings(rows=4, max_new_tokens=20, top_k=2)
    answers = list(generate(Decoder(target), jobs(12), settings))
    matches = draft_matches(draft, answers)
    looped = Acceptance()
    for answer in answers:
        tokens, at = answer.tokens.tolist(), 0
        while at < len(tokens):
            ids = [*answer.job.prompt, *tokens[:at]]
            for _ in range(min(3, len(tokens) - at)):
                ids.append(int(draft(torch.tensor([ids])).logits[0, -1].argmax()))
            drafted = ids[len(answer.job.prompt) + at :]
            hits = [a == b for a, b in zip(drafted, tokens[at:], strict=False)]
            accepted = len(hits) if all(hits) else hits.index(False)
            looped += Acceptance(1, len(drafted), accepted)
            at += accepted + 1
    assert 0 < looped.accepted < looped.drafted
    assert acceptance(matches, 3) == looped
    assert sum(by_category(answers, matches, 3).values(), Acceptance()) == looped


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
