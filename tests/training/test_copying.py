from __future__ import annotations

import pytest
import torch

from tests.training.toys import tiny_model
from trtspec.training.copying import CopyingStart, copying_start, set_up_copying
from trtspec.training.model import DraftShape, draft_config, new_draft

VOCABULARY, HIDDEN, EMPTY = 400, 128, 1
SHAPE = DraftShape(hidden=HIDDEN, layers=2, heads=2, kv_heads=2, intermediate=32)


@pytest.fixture(scope="module")
def start() -> CopyingStart:
    embedding = torch.randn(VOCABULARY, 160, generator=torch.Generator().manual_seed(0)) + 0.5
    return copying_start(embedding, SHAPE, torch.ones(VOCABULARY), empty=EMPTY)


def test_dimension_0_is_constant_after_a_norm_and_codes_have_room(start: CopyingStart) -> None:
    rows = start.embedding
    normed = rows / rows.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(normed[:, 0], normed[:1, 0].expand(VOCABULARY))
    content, previous, before = start.places
    assert (content.start, before.stop) == (1, HIDDEN - 1)
    assert rows[EMPTY, content].abs().max() == 0
    assert rows[:, previous].abs().max() == 0
    assert previous.stop - previous.start == start.code_size


@torch.inference_mode()
def test_an_untrained_draft_goes_on_with_what_followed_before(start: CopyingStart) -> None:
    torch.manual_seed(0)
    draft = new_draft(draft_config(SHAPE, tiny_model().config, VOCABULARY), start.embedding)
    set_up_copying(draft, start)
    draft.train(False)
    passage = torch.randperm(VOCABULARY)[:60]
    # The passage again, from its middle on: the first two tokens tell where it goes on.
    ids = torch.cat((passage, passage[30:]))[None]
    best = draft(ids).logits[0].argmax(-1)
    hits = best[61:-1] == ids[0, 62:]
    assert hits.float().mean() > 0.9


@torch.inference_mode()
def test_two_tokens_decide_between_two_places(start: CopyingStart) -> None:
    torch.manual_seed(0)
    draft = new_draft(draft_config(SHAPE, tiny_model().config, VOCABULARY), start.embedding)
    set_up_copying(draft, start)
    draft.train(False)
    right = 0
    for seed in range(20):
        a, b, c, x, y = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))[:5].tolist()
        ids = torch.tensor([[7, 8, a, c, x, 9, 10, b, c, y, 11, 12, a, c]])
        logits = draft(ids).logits[0, -1]
        right += int(logits[x] > logits[y])
    assert right >= 18
