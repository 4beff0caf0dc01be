from __future__ import annotations

import torch

from tests.training.toys import VOCABULARY, counting_answer, tiny_model
from trtspec.training.data import Vocabulary
from trtspec.training.model import DraftShape, draft_config, new_draft
from trtspec.training.train import Progress, TrainingSettings, distillation_loss, train

SHAPE = DraftShape(hidden=16, layers=1, heads=2, kv_heads=1, intermediate=24)


def trained(settings: TrainingSettings) -> tuple[Progress, list[Progress]]:
    torch.manual_seed(0)
    answers = [counting_answer(i) for i in range(60)]
    vocabulary = Vocabulary.of(answers, VOCABULARY)
    config = draft_config(SHAPE, tiny_model().config, len(vocabulary))
    draft = new_draft(config, torch.randn(len(vocabulary), 16))
    seen: list[Progress] = []
    best = train(draft, (answers[::2], answers[1::2]), vocabulary, settings, seen.append)
    return best, seen


def test_training_raises_the_acceptance_on_answers_it_never_saw() -> None:
    best, seen = trained(TrainingSettings(epochs=40, batch_tokens=128, rate=1e-2, embedding_rate=1e-2, patience=40))
    assert best.rate > 0.8
    assert best == max(seen, key=lambda one: one.rate)


def test_it_stops_when_the_acceptance_no_longer_rises() -> None:
    _, seen = trained(TrainingSettings(epochs=50, batch_tokens=128, rate=0.0, embedding_rate=0.0, patience=2))
    assert len(seen) == 2


def test_it_stops_when_the_time_is_up() -> None:
    _, seen = trained(TrainingSettings(epochs=1000, batch_tokens=128, patience=1000, seconds=0.001))
    assert len(seen) == 1


def test_soft_labels_are_cross_entropy_with_the_given_probabilities() -> None:
    logits = torch.randn(5, 9)
    labels, weights = torch.tensor([[3, 1]] * 5), torch.tensor([[0.75, 0.25]] * 5)
    logprobs = logits.log_softmax(-1)
    hard, soft = -logprobs[:, 3].mean(), -(0.75 * logprobs[:, 3] + 0.25 * logprobs[:, 1]).mean()
    torch.testing.assert_close(distillation_loss(logits, labels, weights, 1.0), soft)
    torch.testing.assert_close(distillation_loss(logits, labels, weights, 0.25), 0.75 * hard + 0.25 * soft)
