"""Speculation with sampling: the output's distribution is the target's, and a broken rule is noticed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from tests.torch_runtime.toy import PROMPT, Toy, counted, propose, request, speculate
from trtspec.torch_runtime import rejection
from trtspec.torch_runtime.noise import uniform
from trtspec.torch_runtime.request import GenerationRequest, Sampling
from trtspec.torch_runtime.sampling import choose_tokens

MANY, SOME, FEW = 100_000, 12_000, 4_000


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are slower on two."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pvalue(toy: Toy, sampling: Sampling, lengths: tuple[int, int], samples: int) -> float:
    """Of a chi-square test of the answers for `samples` seeds against the target's own distribution."""
    answers = [speculate(toy, seeded(sampling, seed), lengths) for seed in range(samples)]
    return float(chisquare(*counted(answers, toy.exact(sampling, lengths[0]))).pvalue)


def seeded(sampling: Sampling, seed: int) -> Sampling:
    return Sampling(**{**vars(sampling), "seed": seed})


def test_many_answers_have_the_targets_distribution() -> None:
    toy, sampling = Toy.of(4, seed=1), Sampling(temperature=0.9)
    answers = [speculate(toy, seeded(sampling, seed), (2, 1)) for seed in range(MANY)]
    exact = toy.exact(sampling, 2)
    assert chisquare(*counted(answers, exact)).pvalue > 1e-3
    distance = sum(abs(answers.count(tokens) / MANY - chance) for tokens, chance in exact.items()) / 2
    # of 16 cells the mean of it is about sqrt(16 / (2 pi n))
    assert distance < 3 * (16 / (2 * np.pi * MANY)) ** 0.5


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.3, top_k=3),
        Sampling(temperature=0.8, top_p=0.85),
        Sampling(temperature=1.0, repetition_penalty=1.4, presence_penalty=0.3, frequency_penalty=0.2),
    ],
    ids=["top_k", "top_p", "penalties"],
)
def test_sampling_options_change_the_distribution_alike(sampling: Sampling) -> None:
    assert pvalue(Toy.of(5, seed=2), sampling, (3, 3), FEW) > 1e-3


@pytest.mark.parametrize("apart", [0.0, 4.0])
def test_the_drafts_quality_does_not_matter(apart: float) -> None:
    assert pvalue(Toy.of(3, seed=3, apart=apart), Sampling(temperature=1.0), (3, 2), FEW) > 1e-3


def test_a_rule_without_the_residual_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    residual = rejection._residual
    monkeypatch.setattr(rejection, "_residual", lambda q, p, point: residual(q, torch.zeros_like(p), point))
    assert pvalue(Toy.of(4, seed=1), Sampling(temperature=0.9), (2, 1), SOME) < 1e-6


def test_a_rule_that_accepts_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "trtspec.torch_runtime.rejection.uniform", lambda seed, position, stream: uniform(seed, position, stream) / 2
    )
    assert pvalue(Toy.of(4, seed=1), Sampling(temperature=0.9), (2, 1), SOME) < 1e-6


def test_a_draw_that_the_draft_has_used_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft's noise decides which token is drawn: an acceptance that looks at the same noise is biased."""
    monkeypatch.setattr(rejection, "_RESIDUAL", rejection._ACCEPTANCE)
    monkeypatch.setattr("trtspec.torch_runtime.rejection.uniform", uniform)
    assert pvalue(Toy.of(4, seed=1), Sampling(temperature=0.9), (2, 1), SOME) < 1e-6


def test_a_draft_equal_to_the_target_is_always_accepted() -> None:
    toy = Toy.of(6, seed=4, apart=0.0)
    for seed in range(200):
        sampling = Sampling(temperature=1.0, seed=seed)
        draft, rows = propose(toy, sampling, PROMPT, 4)
        asked = GenerationRequest(PROMPT, 5, draft, sampling=sampling, draft_logits=rows)
        logits = toy.target[torch.tensor([*PROMPT, *draft])]
        accepted, tokens = rejection.verify_by_logits(logits, asked, [*PROMPT, *draft], 0)
        assert (accepted, tuple(tokens[:4])) == (4, draft)


def test_a_narrower_draft_vocabulary_is_padded() -> None:
    toy = Toy.of(5, seed=5)
    narrow = Toy(toy.target, toy.draft[:, :4])
    answers = [speculate(narrow, Sampling(temperature=1.0, seed=seed), (1, 1)) for seed in range(4000)]
    assert chisquare(*counted(answers, toy.exact(Sampling(temperature=1.0), 1))).pvalue > 1e-3


def test_shared_noise_makes_two_samplers_agree() -> None:
    """At the same seed, draft and target draw the same token about as often as their distributions allow.

    **Formula:** a Gumbel coupling agrees with chance at least (1 - d) / (1 + d), d the total variation distance.
    """
    toy = Toy.of(8, seed=6)
    q, p = (torch.softmax(rows[0].double(), -1) for rows in (toy.target, toy.draft))
    distance = float((q - p).abs().sum() / 2)
    same = 0
    for seed in range(4000):
        of = request(Sampling(temperature=1.0, seed=seed), PROMPT)
        same += choose_tokens(toy.target[:1], of, PROMPT, 0) == choose_tokens(toy.draft[:1], of, PROMPT, 0)
    floor = (1 - distance) / (1 + distance)
    assert same / 4000 > floor - 0.03
    apart = float((q * p).sum())  # of independent draws
    assert same / 4000 > apart + 0.1


@pytest.mark.parametrize("drafted", [1, 2, 5])
def test_answers_by_tokens_do_not_depend_on_the_draft_length(drafted: int) -> None:
    toy = Toy.of(8, seed=7)
    for seed in range(40):
        sampling = Sampling(temperature=1.1, top_k=6, seed=seed)
        tokens = list(PROMPT)
        while len(tokens) < 13:
            draft, _ = propose(toy, sampling, tokens, drafted)
            tokens += _by_tokens(toy, sampling, tokens, draft)
        alone = list(PROMPT)
        while len(alone) < 13:
            alone += _by_tokens(toy, sampling, alone, ())
        assert tokens[:13] == alone[:13]


def _by_tokens(toy: Toy, sampling: Sampling, tokens: list[int], draft: tuple[int, ...]) -> list[int]:
    context = [*tokens, *draft]
    of = GenerationRequest(tuple(tokens), len(draft) + 1, draft, sampling=sampling)
    chosen = choose_tokens(toy.target[torch.tensor(context)[len(tokens) - 1 :]], of, context, 0)
    accepted = next((i for i, token in enumerate(draft) if chosen[i] != token), len(draft))
    return chosen[: accepted + 1]
