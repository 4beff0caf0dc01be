"""The responses of the frontend, as named arrays of shape [1, n]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from trtspec.speculation import Chunk, Token

__all__ = ["Responses"]

Array = npt.NDArray[Any]


@dataclass
class Responses:
    """Turns the chunks of one request into output arrays; collects them when the client wants one answer."""

    prompt_ids: Sequence[int]
    draft_length: int
    details: bool = False
    lookups: bool = False  # also what the text was good for
    log_probs: Sequence[float] | None = None  # of every output token so far; grows while the request runs
    left_out: frozenset[str] = frozenset()
    prefix: str = ""  # text before the first chunk
    _texts: list[str] = field(default_factory=list)
    _tokens: list[Token] = field(default_factory=list)
    _first: bool = True

    def add(self, chunk: Chunk) -> None:
        """Keep a chunk for the next response."""
        self._texts.append(chunk.text)
        self._tokens += chunk.tokens

    def arrays(self, chunk: Chunk) -> dict[str, Array]:
        """The response after `chunk`, the last one added."""
        counters = chunk.counters
        text = (self.prefix if self._first else "") + "".join(self._texts)
        longest = max(self.draft_length, len(counters.histogram) - 1)
        histogram = [*counters.histogram, *[0] * (longest + 1 - len(counters.histogram))]
        arrays: dict[str, Array] = {
            "text_output": _strings([text]),
            "num_input_tokens": _integers([len(self.prompt_ids)]),
            "num_output_tokens": _integers([chunk.num_output_tokens]),
            "total_draft_tokens": _integers([counters.drafted]),
            "total_accepted_draft_tokens": _integers([counters.accepted]),
            "acceptance_rate": np.array([[counters.acceptance_rate]], np.float32),
            "num_spec_steps": _integers([counters.rounds]),
            "acceptance_histogram": _integers(histogram),
            "num_draft_fallbacks": _integers([counters.fallbacks]),
            "finish_reason": _strings([chunk.finish_reason]),
        }
        if self.lookups:
            arrays |= {
                "num_lookup_steps": _integers([counters.looked_up.rounds]),
                "total_lookup_draft_tokens": _integers([counters.looked_up.drafted]),
                "total_accepted_lookup_draft_tokens": _integers([counters.looked_up.accepted]),
            }
        if self.details:
            arrays |= self._details()
        if self.log_probs is not None:
            arrays |= self._log_probs(chunk.num_output_tokens)
        self._texts, self._tokens, self._first = [], [], False
        return {name: array for name, array in arrays.items() if name not in self.left_out}

    def _details(self) -> dict[str, Array]:
        arrays = {
            "token_ids": _integers([token.id for token in self._tokens]),
            "token_texts": _strings([token.text for token in self._tokens]),
            "token_sources": _integers([token.source for token in self._tokens]),
        }
        return arrays | ({"prompt_token_ids": _integers(self.prompt_ids)} if self._first else {})

    def _log_probs(self, made: int) -> dict[str, Array]:
        """Of this response's tokens, and the sum over the whole answer; NaN where the runtime gave none."""
        known = np.array(self.log_probs, np.float32)[:made]
        values = np.full(made, np.nan, np.float32)
        values[: len(known)] = known
        return {
            "cum_log_probs": np.array([[known.sum()]], np.float32),
            "output_log_probs": values[None, None, made - len(self._tokens) :],
        }


def _integers(values: Sequence[int]) -> Array:
    return np.array([values], np.int32)


def _strings(values: Sequence[str]) -> Array:
    return np.array([[value.encode("utf-8", "replace") for value in values]], np.object_)
