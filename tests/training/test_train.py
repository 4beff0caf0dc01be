from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.toys import VOCABULARY, Silent, counting_answer, tiny_model
from trtspec.errors import TrtspecError
from trtspec.training.checkpoints import CheckpointStore
from trtspec.training.data import Vocabulary
from trtspec.training.model import DraftShape, draft_config, new_draft
from trtspec.training.train import Lesson, Outcome, Progress, TrainingSettings, distillation_loss, train

SHAPE = DraftShape(hidden=16, layers=1, heads=2, kv_heads=1, intermediate=24)
ANSWERS = [counting_answer(i) for i in range(60)]
EVERY_STEP = TrainingSettings(steps=17, batch_tokens=128, patience=100, evaluations_per_epoch=2, checkpoint_seconds=0)


class Killed(BaseException):
    """Ends a training where it is, as a signal would."""


class KilledAt(Silent):
    """Ends the training after a step of its own."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.last = step

    def stepped(self, done: float, loss: float) -> None:
        super().stepped(done, loss)
        if self.steps == self.last:
            raise Killed


def new_network() -> Any:
    torch.manual_seed(0)
    vocabulary = Vocabulary.of(ANSWERS, VOCABULARY)
    return new_draft(draft_config(SHAPE, tiny_model().config, len(vocabulary)), torch.randn(len(vocabulary), 16))


def lesson() -> Lesson:
    return Lesson(ANSWERS[::2], ANSWERS[1::2], Vocabulary.of(ANSWERS, VOCABULARY))


def trained(settings: TrainingSettings) -> tuple[Outcome, list[Progress]]:
    watcher = Silent()
    return train(new_network(), lesson(), settings, watcher), watcher.seen


def weights_and_outcome(store: CheckpointStore, watcher: Silent) -> tuple[list[bytes], Outcome]:
    network = new_network()
    outcome = train(network, lesson(), EVERY_STEP, watcher, store)
    return [weight.detach().numpy().tobytes() for weight in network.parameters()], outcome


def test_training_raises_the_acceptance_on_answers_it_never_saw() -> None:
    settings = TrainingSettings(epochs=14, batch_tokens=128, rate=2e-2, embedding_rate=2e-2, patience=40)
    outcome, seen = trained(settings)
    assert outcome.best.rate > 0.8
    assert outcome.best == max(seen, key=lambda one: one.rate)
    assert outcome.reason == "all planned steps were done"


def test_it_stops_when_the_acceptance_no_longer_rises() -> None:
    outcome, seen = trained(TrainingSettings(epochs=50, batch_tokens=128, rate=0.0, embedding_rate=0.0, patience=2))
    assert len(seen) == 3
    assert outcome.best.step == 0
    assert "no longer rose" in outcome.reason


def test_it_stops_when_the_time_is_up() -> None:
    outcome, seen = trained(TrainingSettings(epochs=1000, batch_tokens=128, patience=1000, seconds=0.001))
    assert [one.step for one in seen] == [0, 1]
    assert outcome.reason == "its time was up"


def test_it_stops_after_the_steps_that_were_asked_for() -> None:
    outcome, _ = trained(TrainingSettings(steps=5, batch_tokens=128, patience=1000))
    assert outcome.steps == 5


def test_a_training_that_runs_away_is_one_clear_error() -> None:
    with pytest.raises(TrtspecError, match="the training has run away") as caught:
        trained(TrainingSettings(steps=500, batch_tokens=128, rate=1e30, embedding_rate=1e30, warmup=0, patience=999))
    assert "--rate" in (caught.value.fix or "")


@pytest.mark.parametrize("step", [1, 4, 9, 16])
def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path: Path, step: int) -> None:
    whole = weights_and_outcome(CheckpointStore(tmp_path / "whole"), Silent())
    store = CheckpointStore(tmp_path / "killed")
    with pytest.raises(Killed):
        weights_and_outcome(store, KilledAt(step))
    watcher = Silent()
    resumed = weights_and_outcome(store, watcher)
    assert resumed[0] == whole[0]
    assert [one.rate for one in resumed[1].progress] == [one.rate for one in whole[1].progress]
    assert [one.loss for one in resumed[1].progress] == [one.loss for one in whole[1].progress]
    # the step at which it was killed was not yet on disk
    assert watcher.steps == 17 - (step - 1)


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    first = weights_and_outcome(store, Silent())
    watcher = Silent()
    assert weights_and_outcome(store, watcher)[0] == first[0]
    assert watcher.steps == 0


def test_a_damaged_state_falls_back_to_the_one_before(tmp_path: Path) -> None:
    whole = weights_and_outcome(CheckpointStore(tmp_path / "whole"), Silent())
    store = CheckpointStore(tmp_path / "killed")
    with pytest.raises(Killed):
        weights_and_outcome(store, KilledAt(9))
    states = sorted((tmp_path / "killed").iterdir())
    assert len(states) == 2
    states[1].write_bytes(states[1].read_bytes()[:-100])
    watcher = Silent()
    assert weights_and_outcome(store, watcher)[0] == whole[0]
    assert "going on from an earlier state" in watcher.notes[0]
    assert "going on from step 7" in watcher.notes[1]


def test_dropout_is_resumed_as_well(tmp_path: Path) -> None:
    import transformers

    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    everything = Vocabulary(torch.arange(VOCABULARY), torch.arange(VOCABULARY))
    data = Lesson(ANSWERS[::2], ANSWERS[1::2], everything)

    def run(store: CheckpointStore, watcher: Silent) -> list[bytes]:
        torch.manual_seed(0)
        network: Any = transformers.GPT2LMHeadModel(config)
        train(network, data, EVERY_STEP, watcher, store)
        return [weight.detach().numpy().tobytes() for weight in network.parameters()]

    whole = run(CheckpointStore(tmp_path / "whole"), Silent())
    with pytest.raises(Killed):
        run(CheckpointStore(tmp_path / "killed"), KilledAt(6))
    assert run(CheckpointStore(tmp_path / "killed"), Silent()) == whole


def test_soft_labels_are_cross_entropy_with_the_given_probabilities() -> None:
    logits = torch.randn(5, 9)
    labels, weights = torch.tensor([[3, 1]] * 5), torch.tensor([[0.75, 0.25]] * 5)
    logprobs = logits.log_softmax(-1)
    hard, soft = -logprobs[:, 3].mean(), -(0.75 * logprobs[:, 3] + 0.25 * logprobs[:, 1]).mean()
    torch.testing.assert_close(distillation_loss(logits, labels, weights, 1.0), soft)
    torch.testing.assert_close(distillation_loss(logits, labels, weights, 0.25), 0.75 * hard + 0.25 * soft)
