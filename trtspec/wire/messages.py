"""What goes to the frontend model and what comes back, free of any protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Chunk", "Counters", "FrontendRequest", "ServerStamps", "TokenDetails"]


@dataclass(frozen=True)
class FrontendRequest:
    """One request to a model; fields that are None are not sent, so the server's default holds.

    messages: a chat as JSON, instead of `prompt`. include_usage: ask for token counts where a client must ask.
    """

    prompt: str
    max_tokens: int
    stream: bool = True
    num_draft_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop_words: tuple[str, ...] = ()
    token_details: bool = False
    request_id: str = ""
    messages: str | None = None
    min_tokens: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    log_probs: bool = False
    include_usage: bool = True


class Counters(NamedTuple):
    """The frontend's running counts; None for what this server does not report (never 0 instead).

    Those with `lookup` are the part of the counts above whose drafts were found in the text; only a server that looks
    drafts up sends them.
    """

    num_input_tokens: int | None = None
    num_output_tokens: int | None = None
    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_tokens: int | None = None
    acceptance_histogram: tuple[int, ...] | None = None
    num_lookup_steps: int | None = None
    num_lookup_draft_tokens: int | None = None
    num_accepted_lookup_tokens: int | None = None


@dataclass(frozen=True)
class ServerStamps:
    """The server's own times of one request, in ns of its clock; None for what it does not stamp.

    Named as TensorRT-LLM gives them with `return_perf_metrics`.
    """

    arrival_ns: int | None = None
    first_scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None


@dataclass(frozen=True)
class TokenDetails:
    """The new tokens of one chunk: ids, texts, and who proposed each (0: nobody, 1: a model, 2: the text)."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    sources: tuple[int, ...]
    prompt_ids: tuple[int, ...] | None = None

    @property
    def drafted(self) -> tuple[bool, ...]:
        """For each whether it was drafted (and accepted)."""
        return tuple(map(bool, self.sources))


class Chunk(NamedTuple):
    """One response of a stream; a tuple, because a load test makes thousands of them a second.

    `t_ns` is `time.perf_counter_ns()` when the last byte of the message arrived, before it was parsed. `tokens` are
    the new tokens since the chunk before, from the server's running count; None when the server does not count.
    `log_probs` of those tokens (natural logarithms, NaN where unknown) only when they were asked for. `perf` comes with
    the chunk that carries it, usually the last.
    """

    t_ns: int
    text: str
    tokens: int | None = None
    counters: Counters | None = None
    details: TokenDetails | None = None
    final: bool = False
    finish_reason: str = ""
    log_probs: tuple[float, ...] | None = None
    perf: ServerStamps | None = None
