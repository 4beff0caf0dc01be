"""Training a draft on the target's answers, with its acceptance as the measure of progress."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as fn

from trtspec.errors import TrtspecError
from trtspec.training.checkpoints import CheckpointStore, arrays_of, tensors_of
from trtspec.training.data import Batch, Vocabulary, batch_of, groups
from trtspec.training.evaluate import acceptance, draft_matches
from trtspec.training.generate import Answer
from trtspec.training.network import hidden_states, scores

__all__ = ["Lesson", "Outcome", "Progress", "TrainingSettings", "Watcher", "batch_loss", "distillation_loss", "train"]


@dataclass(frozen=True)
class TrainingSettings:
    """How to train: passes over the data, positions per batch, peak rates, share of soft labels.

    The softmax of a batch runs over the batch's own labels and the ``common`` most frequent tokens.
    The schedule ends after ``steps``, else after ``epochs`` passes; with ``seconds`` after that time
    even if passes are left. ``checkpoint_seconds`` is the longest time between two states on disk.
    """

    epochs: int = 8
    steps: int | None = None
    seconds: float | None = None
    batch_tokens: int = 1024
    common: int = 3000
    rate: float = 2e-3
    embedding_rate: float = 1e-3
    weight_decay: float = 0.02
    soft: float = 0.5
    warmup: float = 0.03
    draft_length: int = 4
    patience: int = 3
    evaluations_per_epoch: int = 1
    seed: int = 0
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class Progress:
    """One evaluation: steps and passes done, seconds since the start, training loss, held-out acceptance.

    ``rate`` is the share of drafted tokens accepted at the settings' draft length, ``match`` the share of all tokens
    that the draft guesses.
    """

    step: int
    epoch: float
    seconds: float
    loss: float | None
    rate: float
    match: float


@dataclass(frozen=True)
class Outcome:
    """How a training ended: its best evaluation, all of them, and why it stopped; the draft has the best weights."""

    best: Progress
    progress: tuple[Progress, ...]
    reason: str
    steps: int
    seconds: float


@dataclass(frozen=True)
class Lesson:
    """Answers to train on, answers to stop by, and the tokens that occur."""

    taught: Sequence[Answer]
    held_out: Sequence[Answer]
    vocabulary: Vocabulary


class Watcher(Protocol):
    """Told what happens in a training."""

    def evaluated(self, now: Progress) -> None:
        """After every evaluation."""
        ...

    def stepped(self, done: float, loss: float) -> None:
        """After every step: the share of the schedule that is behind, and the batch's loss."""
        ...

    def note(self, text: str) -> None:
        """One line of chatter."""
        ...


def distillation_loss(logits: Tensor, labels: Tensor, weights: Tensor, soft: float) -> Tensor:
    """Cross entropy with the target's distribution and with its best token, mixed.

    ``logits`` [N, V], ``labels`` [N, k] with the best token first, ``weights`` [N, k] summing to
    one.  The soft part differs from the KL divergence to the target's k best tokens by a constant
    only.
    """
    logprobs = fn.log_softmax(logits, dim=-1).gather(-1, labels)
    hard = -logprobs[:, 0].mean()
    return (1 - soft) * hard - soft * (weights * logprobs).sum(-1).mean()


def train(
    network: Any, lesson: Lesson, settings: TrainingSettings, watcher: Watcher, store: CheckpointStore | None = None
) -> Outcome:
    """Train; the network ends with the weights that did best on the held-out answers.

    Stops when their acceptance has not improved for ``patience`` evaluations. With a ``store``, a training that was
    killed goes on from its last state, and without ``seconds`` ends with the same bits as one that was not.
    """
    with _reproducible(network.device):
        run = _Run(network, lesson, settings, watcher, store)
        run.resume()
        while run.state.reason is None:
            run.advance()
        run.finish()
    return run.outcome()


@contextlib.contextmanager
def _reproducible(device: torch.device) -> Iterator[None]:
    """Operations that add up in a fixed order; on a GPU some have none, and no error is made of that."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(device.type == "cpu")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@dataclass
class _State:
    """Everything that a training knows besides its tensors; ``place`` counts the batches done of pass ``epoch``."""

    step: int = 0
    epoch: int = 0
    place: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    stale: int = 0
    seconds: float = 0.0
    reason: str | None = None
    progress: list[Progress] = field(default_factory=list)
    best: int = 0

    @staticmethod
    def of(facts: dict[str, Any]) -> _State:
        """The state in the facts of a checkpoint."""
        return _State(**{**facts, "progress": [Progress(**one) for one in facts["progress"]]})


class _Run:
    """A training in progress."""

    def __init__(
        self,
        network: Any,
        lesson: Lesson,
        settings: TrainingSettings,
        watcher: Watcher,
        store: CheckpointStore | None,
    ) -> None:
        self.network, self.lesson, self.settings = network, lesson, settings
        self.watcher, self.store = watcher, store
        self.optimizer = torch.optim.AdamW(_groups(network, settings), betas=(0.9, 0.98))
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.state = _State()
        self.best: dict[str, Tensor] = {}
        self.queue = self._epoch(0)
        self.steps_per_epoch = len(self.queue)
        self.between = math.ceil(self.steps_per_epoch / settings.evaluations_per_epoch)
        self.started = self.saved = time.monotonic()

    def _epoch(self, number: int) -> list[list[Answer]]:
        """The answers of each batch of a pass, in the order that the seed and its number give."""
        rng = random.Random(f"{self.settings.seed} {number}")  # noqa: S311 - reproducible, not secret
        return groups(self.lesson.taught, self.settings.batch_tokens, rng)

    @property
    def seconds(self) -> float:
        """Time spent on this training, over all runs."""
        return self.state.seconds + time.monotonic() - self.started

    @property
    def done(self) -> float:
        """The share of the schedule that is behind: of its steps or, if that is more, of its time."""
        steps = self.settings.steps or self.settings.epochs * self.steps_per_epoch
        share = self.state.step / steps
        if self.settings.seconds is None:
            return share
        return max(share, self.seconds / self.settings.seconds)

    def resume(self) -> None:
        """Go on from the last state on disk, or measure the untrained draft."""
        found = self.store.newest(self.watcher.note) if self.store is not None else None
        if found is None:
            torch.manual_seed(self.settings.seed)
            self._evaluate()
            return
        arrays, facts = found
        self.state = _State.of(facts)
        self.network.load_state_dict(tensors_of("network.", arrays), strict=False)
        self.best = {name: tensor.to(self.network.device) for name, tensor in tensors_of("best.", arrays).items()}
        self._load_optimizer(tensors_of("optimizer.", arrays))
        torch.set_rng_state(tensors_of("random.", arrays)["torch"])
        self.queue = self._epoch(self.state.epoch)
        if self.state.reason is None:
            self.watcher.note(f"going on from step {self.state.step}")

    def advance(self) -> None:
        """One step, and what is due after it."""
        self.network.train()
        if self.state.place == len(self.queue):
            self.state.epoch, self.state.place = self.state.epoch + 1, 0
            self.queue = self._epoch(self.state.epoch)
        loss = self._update(batch_of(self.queue[self.state.place], self.lesson.vocabulary))
        state = self.state
        state.step, state.place = state.step + 1, state.place + 1
        state.loss_sum, state.loss_count = state.loss_sum + loss, state.loss_count + 1
        self.watcher.stepped(min(1.0, self.done), loss)
        ended = self.done >= 1
        if ended or state.step % self.between == 0:
            self._evaluate()
        if state.stale >= self.settings.patience:
            state.reason = "the acceptance of held-out prompts no longer rose"
        elif ended:
            timed = self.settings.seconds is not None and self.seconds >= self.settings.seconds
            state.reason = "its time was up" if timed else "all planned steps were done"
        if state.reason or time.monotonic() - self.saved >= self.settings.checkpoint_seconds:
            self.save()

    def _update(self, batch: Batch) -> float:
        factor = _schedule(self.done, self.settings.warmup)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        loss = batch_loss(self.network, batch.to(self.network.device), self.settings)
        value = loss.item()
        if not math.isfinite(value):
            message = f"the loss is {value} at step {self.state.step}: the training has run away"
            raise TrtspecError(message, fix=f"--rate {self.settings.rate / 4:g} --fresh")
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return value

    def _evaluate(self) -> None:
        self.network.train(mode=False)
        index = self.lesson.vocabulary.index
        matches = draft_matches(self.network, self.lesson.held_out, lambda ids: index[torch.from_numpy(ids)])
        rate = acceptance(matches, self.settings.draft_length).rate or 0.0
        hits = sum(int(one.sum()) for one in matches) / max(1, sum(map(len, matches)))
        state = self.state
        loss = state.loss_sum / state.loss_count if state.loss_count else None
        state.loss_sum, state.loss_count = 0.0, 0
        now = Progress(state.step, state.step / self.steps_per_epoch, self.seconds, loss, rate, hits)
        better = not state.progress or rate > state.progress[state.best].rate
        state.progress.append(now)
        state.stale = 0 if better else state.stale + 1
        if better:
            state.best = len(state.progress) - 1
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.named_parameters()}
        self.watcher.evaluated(now)

    def save(self) -> None:
        """Put the state on disk."""
        self.saved = time.monotonic()
        if self.store is None:
            return
        facts = asdict(self.state) | {"seconds": self.seconds}
        moments = self.optimizer.state_dict()["state"]
        held = {f"{index}.{name}": tensor for index, values in moments.items() for name, tensor in values.items()}
        arrays = arrays_of("network.", dict(self.network.named_parameters()))
        arrays |= arrays_of("best.", self.best) | arrays_of("optimizer.", held)
        arrays |= arrays_of("random.", {"torch": torch.get_rng_state()})
        self.store.save(self.state.step, arrays, facts)

    def _load_optimizer(self, held: dict[str, Tensor]) -> None:
        values: dict[int, dict[str, Tensor]] = {}
        for name, tensor in held.items():
            index, _, key = name.partition(".")
            values.setdefault(int(index), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": values})

    def finish(self) -> None:
        """Give the network its best weights."""
        self.network.load_state_dict(self.best, strict=False)
        self.network.train(mode=False)

    def outcome(self) -> Outcome:
        """What the training found."""
        state = self.state
        assert state.reason is not None
        last = state.progress[-1]
        return Outcome(state.progress[state.best], tuple(state.progress), state.reason, last.step, last.seconds)


def batch_loss(network: Any, batch: Batch, settings: TrainingSettings) -> Tensor:
    """The loss of one batch; padding is on the right, where causal attention never looks."""
    hidden = hidden_states(network, batch.tokens)
    size = network.config.get_text_config().vocab_size
    frequent = torch.arange(min(settings.common, size), device=hidden.device)
    picked = torch.cat((frequent, batch.labels.flatten()))
    rows: Tensor = torch.unique(picked, sorted=True)
    # index_select adds up its gradient in a fixed order, which indexing does not
    read = hidden.flatten(0, 1).index_select(0, batch.rows * hidden.shape[1] + batch.columns)
    labels = torch.searchsorted(rows, batch.labels)
    return distillation_loss(scores(network, read, rows), labels, batch.weights, settings.soft)


def _groups(network: Any, settings: TrainingSettings) -> list[dict[str, Any]]:
    tables = {id(network.get_input_embeddings().weight), id(network.get_output_embeddings().weight)}
    parameters = list(network.parameters())
    embedding = [one for one in parameters if id(one) in tables]
    flat = [one for one in parameters if one.ndim == 1]
    rest = [one for one in parameters if one.ndim > 1 and id(one) not in tables]
    return [
        {"params": embedding, "lr": settings.embedding_rate, "weight_decay": 0.0},
        {"params": flat, "lr": settings.rate, "weight_decay": 0.0},
        {"params": rest, "lr": settings.rate, "weight_decay": settings.weight_decay},
    ]


def _schedule(done: float, warmup: float) -> float:
    """Linear rise over the share ``warmup``, then a cosine to 2 % of the peak."""
    if done < warmup:
        return (done + 1e-3) / (warmup + 1e-3)
    turn = min(1.0, (done - warmup) / (1 - warmup))
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * turn))
