"""Choosing tokens: distributions, limits, and randomness that is a function of (seed, position)."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare

from trtspec.torch_runtime.noise import uniform
from trtspec.torch_runtime.request import GenerationRequest, Sampling
from trtspec.torch_runtime.sampling import best_chances, choose_tokens, log_probs

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 3.0])


def draws(sampling: Sampling, count: int = 4000) -> list[int]:
    """One token for each of `count` positions with the same logits."""
    request = GenerationRequest((1,), count, sampling=sampling)
    context = [0] * count
    return choose_tokens(LOGITS.expand(count, -1), request, context, 0)


def test_uniform_is_a_fixed_function_and_even() -> None:
    values = [uniform(3, position) for position in range(20000)]
    assert values == [uniform(3, position) for position in range(20000)]
    assert uniform(3, 5) != uniform(4, 5)
    assert uniform(2**64 - 1, 0) < 1
    counts = torch.histc(torch.tensor(values), 20, 0, 1)
    assert chisquare(counts.numpy()).pvalue > 1e-3


def test_sampling_follows_the_softmax() -> None:
    drawn = draws(Sampling(temperature=0.7, seed=11))
    chances = torch.softmax(LOGITS.double() / 0.7, -1)
    observed = [drawn.count(token) for token in range(5)]
    assert chisquare(observed, (chances * len(drawn)).numpy()).pvalue > 1e-3


def test_top_k_and_top_p_limit_the_choice() -> None:
    assert set(draws(Sampling(temperature=2.0, top_k=2, seed=1))) == {4, 0}
    # softmax of LOGITS: 0.64, 0.23, 0.09 …: 0.8 needs two tokens, 0.9 three
    assert set(draws(Sampling(temperature=1.0, top_p=0.8, seed=1))) == {4, 0}
    assert set(draws(Sampling(temperature=1.0, top_p=0.9, seed=1))) == {4, 0, 1}


def test_greedy_forms() -> None:
    for sampling in (
        Sampling(),
        Sampling(temperature=0.0, seed=5),
        Sampling(temperature=3.0, top_k=1),
        Sampling(top_p=0.0),
        Sampling(temperature=1.0, top_p=0.0),
    ):
        assert set(draws(sampling, 20)) == {4}


def test_top_k_without_temperature_samples() -> None:
    assert len(set(draws(Sampling(top_k=3, seed=2)))) == 3
    assert len(set(draws(Sampling(top_k=3, top_p=0.0, seed=2)))) == 3


def test_penalties_by_their_formulas() -> None:
    request = GenerationRequest((4, 4, 0), 1, sampling=Sampling(frequency_penalty=1.5, presence_penalty=0.2))
    # token 4: 3 - 0.2 - 2 * 1.5 = -0.2; token 0: 2 - 0.2 - 1.5 = 0.3; token 1 keeps 1
    assert choose_tokens(LOGITS[None], request, [4, 4, 0], 0) == [1]
    repeated = GenerationRequest((4,), 1, sampling=Sampling(repetition_penalty=1.6))
    assert choose_tokens(LOGITS[None], repeated, [4], 0) == [0]  # 3 / 1.6 < 2


def test_an_even_choice_needs_no_luck() -> None:
    assert math.isclose(sum(uniform(1, position) for position in range(10000)) / 10000, 0.5, abs_tol=0.02)


def test_log_probs_are_of_the_models_own_distribution() -> None:
    total = sum(math.exp(value) for value in LOGITS.tolist())
    assert log_probs(LOGITS.expand(3, -1), [4, 0]) == pytest.approx(
        [math.log(math.exp(3.0) / total), math.log(math.exp(2.0) / total)]
    )


def test_the_chance_of_the_likeliest_token() -> None:
    rows = torch.tensor([[0.0, 0.0, -torch.inf], [3.0, -torch.inf, -torch.inf], [1.0, 1.0, 1.0]])
    assert best_chances(rows).tolist() == pytest.approx([1 / 2, 1, 1 / 3])
