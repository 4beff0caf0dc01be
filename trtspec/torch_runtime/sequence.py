"""One running request: which rows it needs next, and what a pass's logits mean for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from trtspec.errors import RequestFailed
from trtspec.torch_runtime.kv import SequenceKV
from trtspec.torch_runtime.rejection import verify_by_logits
from trtspec.torch_runtime.request import FinishReason, GenerationRequest, Listener, Stats, Update
from trtspec.torch_runtime.sampling import best_chances, choose_tokens, log_probs, takes_the_best

__all__ = ["Running", "accepted_length"]


def accepted_length(draft: tuple[int, ...], chosen: list[int]) -> int:
    """How many leading draft tokens equal the model's own choices."""
    for index, token in enumerate(draft):
        if chosen[index] != token:
            return index
    return len(draft)


@dataclass(eq=False)
class Running:
    """State of a request between passes."""

    request: GenerationRequest
    listener: Listener
    cancelled: Callable[[], bool]
    kv: SequenceKV
    tokens: list[int] = field(init=False)
    reused: int = field(init=False)
    accepted: int = 0

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt)
        self.reused = self.kv.length

    @property
    def generated(self) -> int:
        """New tokens so far."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def judged(self) -> int:
        """Rows that need logits: those of the last known token and of the draft."""
        return len(self.request.draft) + 1

    @property
    def pending(self) -> int:
        """Rows that are not computed yet."""
        return len(self.tokens) - self.kv.length + len(self.request.draft)

    def next_rows(self, budget: int) -> tuple[list[int], int]:
        """Tokens for the next pass, at most `budget`, and how many of the last of them need logits.

        The rows that are judged together (the last known token and the draft) are never split over two passes.
        """
        pending = [*self.tokens[self.kv.length :], *self.request.draft]
        if len(pending) <= budget:
            return pending, self.judged
        return pending[: min(budget, len(pending) - self.judged)], 0

    @property
    def takes_the_best(self) -> bool:
        """Whether its tokens are the likeliest ones, and nothing else is to be done to the logits."""
        return takes_the_best(self.request)

    def absorb(self, logits: Tensor, best: Sequence[int] = ()) -> Update:
        """Take in the logits of the judged rows, and their likeliest tokens if they are known; the update to send."""
        before = len(self.tokens)
        context = [*self.tokens, *self.request.draft]
        self.accepted, chosen = self._judge(logits, context, best)
        new = chosen[: self.accepted + 1][: self.request.max_new_tokens - self.generated]
        finish = self._extend(new) or self._unsure(logits)
        self.kv.truncate(min(self.kv.length, before + min(self.accepted, len(self.tokens) - before)))
        added = tuple(self.tokens[before:])
        self.accepted = min(self.accepted, len(added))
        kept = logits[: len(added)].clone() if self.request.return_logits else None
        chances = log_probs(logits, added) if self.request.return_log_probs else ()
        return Update(added, self.stats(), finish, logits=kept, log_probs=chances)

    def _judge(self, logits: Tensor, context: list[int], best: Sequence[int]) -> tuple[int, list[int]]:
        """How much of the draft is accepted, and the tokens from there on that count."""
        request = self.request
        if request.draft and request.draft_logits is not None and not request.sampling.greedy:
            return verify_by_logits(logits, request, context, self.generated)
        if best and self.takes_the_best:
            return accepted_length(request.draft, list(best)), list(best)
        chosen = choose_tokens(logits, request, context, self.generated)
        return accepted_length(request.draft, chosen), chosen

    def _extend(self, new: list[int]) -> FinishReason | None:
        for token in new:
            self.tokens.append(token)
            finish = self._finished()
            if finish is not None:
                return finish
        return "verified" if self.request.draft else None

    def _unsure(self, logits: Tensor) -> FinishReason | None:
        threshold = self.request.confidence_threshold
        return "unsure" if threshold > 0 and float(best_chances(logits)[0]) < threshold else None

    def _finished(self) -> FinishReason | None:
        request = self.request
        if self.tokens[-1] == request.end_id:
            return "end_id"
        for word in request.stop_words:
            if len(word) <= self.generated and tuple(self.tokens[-len(word) :]) == word:
                return "stop_words"
        return "length" if self.generated >= request.max_new_tokens else None

    def stats(self) -> Stats:
        """Counts up to now."""
        prompt = len(self.request.prompt)
        return Stats(prompt, self.generated, len(self.request.draft), self.accepted, prompt - self.reused, self.reused)

    def fail(self, error: RequestFailed) -> None:
        """Tell the listener that the request ends here."""
        with contextlib.suppress(Exception):  # a listener that is gone needs no answer
            self.listener(Update((), self.stats(), error=error))
