from __future__ import annotations

import random

import numpy as np
import torch

from tests.training.toys import VOCABULARY, counting_answer, tiny_model
from trtspec.training.data import Vocabulary, batches
from trtspec.training.generate import Answer, Job
from trtspec.training.train import TrainingSettings, batch_loss


def test_batches_hold_every_answer_position_once() -> None:
    answers = [counting_answer(i, length=3 + i % 7) for i in range(30)]
    vocabulary = Vocabulary.of(answers, VOCABULARY, labels=3)
    found = list(batches(answers, vocabulary, 64, random.Random(0)))
    assert sum(len(batch.rows) for batch in found) == sum(len(a.tokens) for a in answers)
    for batch in found:
        last = vocabulary.ids[batch.tokens[batch.rows, batch.columns]]
        following = vocabulary.ids[batch.labels[:, 0]]
        assert (following == last + 1).all()
        torch.testing.assert_close(batch.weights.sum(-1), torch.ones(len(batch.rows)))


def test_labels_outside_the_vocabulary_have_no_weight() -> None:
    answer = counting_answer(0, labels=3)
    vocabulary = Vocabulary.of([answer], VOCABULARY, labels=1)
    (batch,) = batches([answer], vocabulary, 64, random.Random(0))
    # The last position's second and third label occur nowhere else.
    assert batch.weights[-1].tolist() == [1.0, 0.0, 0.0]


def test_the_restricted_loss_is_the_full_loss_when_all_tokens_occur() -> None:
    draft, reordered = tiny_model(), tiny_model()
    answers = [counting_answer(i) for i in range(0, 80, 4)]
    everything = Vocabulary(torch.arange(VOCABULARY), torch.arange(VOCABULARY))
    spread = Answer(Job(0, "x", tuple(range(VOCABULARY))), *_last(answers[0]))
    restricted = Vocabulary.of([*answers, spread], VOCABULARY)
    assert len(restricted) == VOCABULARY
    with torch.no_grad():
        reordered.model.embed_tokens.weight.copy_(draft.model.embed_tokens.weight[restricted.ids])
    losses = []
    for model, vocabulary in ((draft, everything), (reordered, restricted)):
        found = batches(answers, vocabulary, 200, random.Random(0))
        losses.append([batch_loss(model, batch, TrainingSettings()).item() for batch in found])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def _last(answer: Answer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return answer.tokens, answer.top_ids, answer.top_logprobs
