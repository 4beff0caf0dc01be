"""Drawing for many rows at once is drawing row by row."""

from __future__ import annotations

import pytest
import torch

from trtspec.torch_runtime import sampling as rules
from trtspec.torch_runtime.drawing import draw_rows
from trtspec.torch_runtime.request import GenerationRequest, Sampling

VOCABULARY = 3000
SAMPLINGS = [
    Sampling(temperature=0.8, seed=3),
    Sampling(temperature=2.5, seed=2**64 - 1),
    Sampling(temperature=0.05, seed=4),
    Sampling(temperature=1.2, top_k=7, seed=5),
    Sampling(temperature=1.2, top_k=900, top_p=0.7, seed=6),
    Sampling(temperature=1.0, top_p=0.3, seed=7),
    Sampling(temperature=1.5, top_p=0.999, seed=8),
    Sampling(temperature=50.0, top_p=0.9, seed=9),  # a nucleus of most of the vocabulary
    Sampling(top_k=5, top_p=0.0, seed=10),
    Sampling(temperature=1.0, top_k=4000, seed=11),
]


def row_by_row(logits: torch.Tensor, sampling: Sampling, first: int) -> list[int]:
    return [rules._choose(row, sampling, first + index) for index, row in enumerate(logits)]


def random_logits(rows: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    return torch.randn((rows, VOCABULARY), generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_tokens_are_those_of_each_row_alone(sampling: Sampling) -> None:
    logits = random_logits(40)
    logits[3, ::2] = -torch.inf
    drawn = draw_rows(logits, sampling, range(17, 57))
    assert drawn == row_by_row(logits, sampling, 17)
    assert len(set(drawn)) > 3
    assert [draw_rows(row[None], sampling, [17 + index]) for index, row in enumerate(logits)] == [[t] for t in drawn]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_equal_logits_are_told_apart_as_row_by_row(sampling: Sampling) -> None:
    logits = random_logits(40, spread=1.5).mul(2).round()  # a dozen values: ties everywhere
    request = GenerationRequest((1,), 40, sampling=sampling)
    context = [0] * 50
    assert rules.choose_tokens(logits, request, context, 0) == row_by_row(logits, sampling, 11)


def test_where_everything_is_forbidden_the_rules_decide() -> None:
    logits = torch.full((1, VOCABULARY), -torch.inf)
    for sampling in (SAMPLINGS[0], SAMPLINGS[3], SAMPLINGS[5]):
        assert draw_rows(logits, sampling, [1]) is None
        assert rules.choose_tokens(logits, GenerationRequest((1,), 1, sampling=sampling), [0], 0) == [0]
