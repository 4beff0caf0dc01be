"""Training a draft on the target's answers, with its acceptance as the measure of progress."""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as fn

from trtspec.training.data import Batch, Vocabulary, batches
from trtspec.training.evaluate import acceptance, draft_matches
from trtspec.training.generate import Answer

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

__all__ = ["Progress", "TrainingSettings", "distillation_loss", "train"]


@dataclass(frozen=True)
class TrainingSettings:
    """How to train: passes over the data, positions per batch, peak rates, share of soft labels.

    The softmax of a batch runs over the batch's own labels and the ``common`` most frequent tokens.
    With ``seconds`` the schedule ends after that time even if passes are left.
    """

    epochs: int = 8
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
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """One evaluation: passes done, seconds since the start, training loss, held-out acceptance."""

    epoch: float
    seconds: float
    loss: float
    rate: float
    match: float


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
    draft: LlamaForCausalLM,
    answers: tuple[Sequence[Answer], Sequence[Answer]],
    vocabulary: Vocabulary,
    settings: TrainingSettings,
    report: Callable[[Progress], None],
) -> Progress:
    """Train on ``answers[0]``; the draft ends with the weights that did best on ``answers[1]``.

    Stops when the held-out acceptance has not improved for ``patience`` evaluations.
    """
    run = _Run(draft, answers[0], vocabulary, settings)
    best, state, stale = run.measure(answers[1]), copy.deepcopy(draft.state_dict()), 0
    for _ in range(settings.epochs * settings.evaluations_per_epoch):
        run.advance()
        now = run.measure(answers[1])
        report(now)
        stale = 0 if now.rate > best.rate else stale + 1
        if now.rate > best.rate:
            best, state = now, copy.deepcopy(draft.state_dict())
        if stale >= settings.patience or run.done >= 1:
            break
    draft.load_state_dict(state)
    return best


class _Run:
    """The state of a training: optimiser, place in the schedule, running loss."""

    def __init__(
        self,
        draft: LlamaForCausalLM,
        answers: Sequence[Answer],
        vocabulary: Vocabulary,
        settings: TrainingSettings,
    ) -> None:
        self.draft, self.answers = draft, answers
        self.vocabulary, self.settings = vocabulary, settings
        self.rng = random.Random(settings.seed)  # noqa: S311 - reproducible, not secret
        self.optimizer = torch.optim.AdamW(_groups(draft, settings), betas=(0.9, 0.98))
        self.peaks = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.queue: list[Batch] = []
        self.steps_per_epoch = len(self._new_epoch())
        self.step, self.loss = 0, 0.0
        self.started = time.monotonic()

    def _new_epoch(self) -> list[Batch]:
        return list(batches(self.answers, self.vocabulary, self.settings.batch_tokens, self.rng))

    @property
    def done(self) -> float:
        """The share of the schedule that is behind: of its steps or, if that is more, of its time."""
        share = self.step / (self.settings.epochs * self.steps_per_epoch)
        if self.settings.seconds is None:
            return share
        return max(share, (time.monotonic() - self.started) / self.settings.seconds)

    def advance(self) -> None:
        """The steps between two evaluations, fewer when the time is up."""
        self.draft.train()
        count = math.ceil(self.steps_per_epoch / self.settings.evaluations_per_epoch)
        losses: list[float] = []
        for _ in range(count):
            if self.done >= 1 and losses:
                break
            if not self.queue:
                self.queue = self._new_epoch()
            losses.append(self._update(self.queue.pop()))
        self.loss = sum(losses) / len(losses)

    def _update(self, batch: Batch) -> float:
        factor = _schedule(self.done, self.settings.warmup)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        loss = batch_loss(self.draft, batch, self.settings)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def measure(self, held_out: Sequence[Answer]) -> Progress:
        self.draft.train(False)
        index = self.vocabulary.index
        matches = draft_matches(self.draft, held_out, lambda ids: index[torch.from_numpy(ids)])
        rate = acceptance(matches, self.settings.draft_length).rate or 0.0
        hits = sum(int(one.sum()) for one in matches) / max(1, sum(map(len, matches)))
        epoch = self.step / self.steps_per_epoch
        return Progress(epoch, time.monotonic() - self.started, self.loss, rate, hits)


def batch_loss(draft: LlamaForCausalLM, batch: Batch, settings: TrainingSettings) -> Tensor:
    """The loss of one batch; padding is on the right, where causal attention never looks."""
    hidden = draft.model(batch.tokens, use_cache=False).last_hidden_state
    head = draft.lm_head.weight
    frequent = torch.arange(min(settings.common, len(head)))
    picked = torch.cat((frequent, batch.labels.flatten()))
    rows: Tensor = torch.unique(picked, sorted=True)
    logits = fn.linear(hidden[batch.rows, batch.columns], head[rows])
    labels = torch.searchsorted(rows, batch.labels)
    return distillation_loss(logits, labels, batch.weights, settings.soft)


def _groups(draft: LlamaForCausalLM, settings: TrainingSettings) -> list[dict[str, Any]]:
    named = list(draft.named_parameters())
    embedding = [p for name, p in named if "embed_tokens" in name]
    norms = [p for name, p in named if p.ndim == 1]
    rest = [p for name, p in named if p.ndim > 1 and "embed_tokens" not in name]
    return [
        {"params": embedding, "lr": settings.embedding_rate, "weight_decay": 0.0},
        {"params": norms, "lr": settings.rate, "weight_decay": 0.0},
        {"params": rest, "lr": settings.rate, "weight_decay": settings.weight_decay},
    ]


def _schedule(done: float, warmup: float) -> float:
    """Linear rise over the share ``warmup``, then a cosine to 2 % of the peak."""
    if done < warmup:
        return (done + 1e-3) / (warmup + 1e-3)
    turn = min(1.0, (done - warmup) / (1 - warmup))
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * turn))
