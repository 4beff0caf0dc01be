from __future__ import annotations

import torch

from tests.training.toys import tiny_model
from trtspec.training.model import DraftShape, draft_config, new_draft, projected_embedding


def test_all_directions_keep_every_angle() -> None:
    embedding = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    projected = projected_embedding(embedding, 8, torch.ones(50))
    scale = (projected.norm() / embedding.norm()) ** 2
    torch.testing.assert_close(projected @ projected.T, scale * embedding @ embedding.T, rtol=1e-4, atol=1e-4)


def test_rows_have_mean_length_one() -> None:
    projected = projected_embedding(torch.randn(50, 8), 3, torch.ones(50))
    torch.testing.assert_close(projected.norm(dim=-1).mean(), torch.tensor(1.0))


def test_the_kept_directions_are_those_of_frequent_tokens() -> None:
    embedding = torch.eye(6)
    frequency = torch.tensor([0.0, 0.0, 9.0, 0.0, 5.0, 0.0])
    lengths = projected_embedding(embedding, 2, frequency).norm(dim=-1)
    assert (lengths > 0.1).tolist() == [False, False, True, False, True, False]


def test_a_new_draft_has_the_shape_and_the_embedding() -> None:
    shape = DraftShape(hidden=16, layers=3, heads=4, kv_heads=2, intermediate=24)
    embedding = torch.randn(40, 16)
    draft = new_draft(draft_config(shape, tiny_model().config, 40), embedding)
    assert sum(weight.numel() for weight in draft.parameters()) == shape.parameters(40)
    torch.testing.assert_close(draft.lm_head.weight.detach(), embedding)
