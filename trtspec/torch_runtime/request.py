"""What an engine is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from trtspec.errors import RequestFailed

__all__ = ["FinishReason", "GenerationRequest", "Listener", "Sampling", "Stats", "TokenList", "Update"]

TokenList = tuple[int, ...]
FinishReason = Literal["end_id", "stop_words", "length", "verified", "unsure"]


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen from logits; the default is greedy.

    Penalties count the whole context (prompt and generated), so that they do not depend on how the context was split
    into requests.
    """

    temperature: float | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    @property
    def greedy(self) -> bool:
        """True when the most likely token is taken: no sampling parameter, temperature 0, top_k 1, or top_p 0 alone.

        As in TensorRT-LLM, top_p 0 beside a top_k is no limit.
        """
        nothing = self.temperature is None and self.top_k == 0 and self.top_p == 1.0
        empty_nucleus = self.top_k == 0 and self.top_p == 0.0
        return nothing or empty_nucleus or self.temperature == 0.0 or self.top_k == 1

    @property
    def penalised(self) -> bool:
        """True when any penalty changes logits."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)


@dataclass(frozen=True)
class GenerationRequest:
    """Continue `prompt` by up to `max_new_tokens`, or verify `draft` and add one token.

    With `draft` of k tokens one forward pass decides: the longest accepted prefix plus the model's own next token. With
    `draft_logits` [at least k, vocab of the draft] a sampled draft is accepted by rejection sampling, else where it
    equals the model's own choice.

    Without a draft, generation ends behind a token at whose place no token had a chance of `confidence_threshold`: what
    a draft model is unsure of is rarely accepted, and what follows that even less. It is the row that counts and not
    the token drawn from it, so the tokens keep their distribution.
    """

    prompt: TokenList
    max_new_tokens: int
    draft: TokenList = ()
    end_id: int | None = None
    stop_words: tuple[TokenList, ...] = ()
    bad_words: tuple[TokenList, ...] = ()
    min_tokens: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    confidence_threshold: float = 0.0
    return_logits: bool = False
    return_log_probs: bool = False
    draft_logits: NDArray[Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Stats:
    """Counts of one request; `computed` and `reused` are prompt tokens."""

    input_tokens: int
    output_tokens: int
    drafted: int = 0
    accepted: int = 0
    computed: int = 0
    reused: int = 0


@dataclass(frozen=True)
class Update:
    """New tokens of a request, or its end; with their logits [n, vocab] and log-probabilities when asked for.

    Log-probabilities are of the model's own distribution, before temperature, penalties and bad words.
    """

    tokens: TokenList
    stats: Stats
    finish: FinishReason | None = None
    error: RequestFailed | None = None
    logits: Tensor | None = None
    log_probs: tuple[float, ...] = ()

    @property
    def final(self) -> bool:
        """True for the last update of a request."""
        return self.finish is not None or self.error is not None


Listener = Callable[[Update], None]
