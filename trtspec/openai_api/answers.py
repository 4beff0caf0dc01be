"""The documents that go back: whole answers and the pieces of a stream, for both endpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from trtspec.wire import Chunk, Counters

__all__ = ["Answer", "ChatForm", "CompletionForm", "Form", "Piece", "usage"]

_UNKNOWN_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class Piece:
    """What a chunk adds to an answer; `tokens` are (text, log-probability), empty when they were not asked for."""

    text: str
    tokens: tuple[tuple[str, float | None], ...] = ()
    offset: int = 0  # characters of the answer before it

    @classmethod
    def of(cls, chunk: Chunk, offset: int) -> Piece:
        """The piece that begins `offset` characters into the answer."""
        if chunk.log_probs is None or chunk.details is None:
            return cls(chunk.text)
        known = (None if math.isnan(value) else value for value in chunk.log_probs)
        return cls(chunk.text, tuple(zip(chunk.details.texts, known, strict=False)), offset)


class Form(Protocol):
    """How one endpoint writes its answers."""

    prefix: str  # of the answer's id
    name: str  # `object` of a whole answer
    chunk_name: str  # `object` of a piece of a stream

    def opening(self) -> dict[str, Any] | None:
        """A choice's content that begins a stream."""

    def whole(self, piece: Piece) -> dict[str, Any]:
        """A choice's content with all of the answer."""

    def part(self, piece: Piece) -> dict[str, Any]:
        """A choice's content with the next piece."""


class CompletionForm:
    """`/v1/completions`."""

    prefix, name, chunk_name = "cmpl", "text_completion", "text_completion"

    def opening(self) -> dict[str, Any] | None:
        """Nothing."""
        return None

    def whole(self, piece: Piece) -> dict[str, Any]:
        """Text, and the log-probabilities in four lists."""
        return {"text": piece.text, "logprobs": self._log_probs(piece) if piece.tokens else None}

    part = whole

    def _log_probs(self, piece: Piece) -> dict[str, Any]:
        offsets, at = [], piece.offset
        for text, _ in piece.tokens:
            offsets.append(at)
            at += len(text)
        return {
            "tokens": [text for text, _ in piece.tokens],
            "token_logprobs": [value for _, value in piece.tokens],
            "top_logprobs": None,
            "text_offset": offsets,
        }


class ChatForm:
    """`/v1/chat/completions`."""

    prefix, name, chunk_name = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def opening(self) -> dict[str, Any] | None:
        """The role of the message that follows."""
        return {"delta": {"role": "assistant", "content": ""}, "logprobs": None}

    def whole(self, piece: Piece) -> dict[str, Any]:
        """A message."""
        message = {"role": "assistant", "content": piece.text, "refusal": None}
        return {"message": message, "logprobs": self._log_probs(piece)}

    def part(self, piece: Piece) -> dict[str, Any]:
        """A delta; empty at the end of a stream."""
        return {"delta": {"content": piece.text} if piece.text else {}, "logprobs": self._log_probs(piece)}

    def _log_probs(self, piece: Piece) -> dict[str, Any] | None:
        if not piece.tokens:
            return None
        return {"content": [_token(text, value) for text, value in piece.tokens], "refusal": None}


def _token(text: str, value: float | None) -> dict[str, Any]:
    whole = _UNKNOWN_CHARACTER not in text  # else a part of a character, whose bytes are not known
    return {"token": text, "logprob": value, "bytes": list(text.encode()) if whole else None, "top_logprobs": []}


def usage(counters: Counters) -> dict[str, Any]:
    """Token counts. Accepted are those of the answer that the draft proposed; rejected ones are not in the answer."""
    asked, made = counters.num_input_tokens or 0, counters.num_output_tokens or 0
    document: dict[str, Any] = {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}
    drafted, accepted = counters.num_draft_tokens, counters.num_accepted_tokens
    if drafted is not None and accepted is not None:
        document["completion_tokens_details"] = {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        }
    return document


@dataclass
class Answer:
    """One answer: takes in the frontend's chunks, gives out documents."""

    form: Form
    id: str
    model: str
    include_usage: bool = False
    counters: Counters = field(default_factory=Counters)
    _created: int = field(default_factory=lambda: int(time.time()))
    _length: int = 0
    _open: bool = False

    def parts(self, chunk: Chunk) -> Iterator[dict[str, Any]]:
        """The documents of a stream that `chunk` makes."""
        self.counters = chunk.counters or self.counters
        opening = self.form.opening()
        if not self._open and opening is not None:
            yield self._document(opening)
        self._open = True
        piece = Piece.of(chunk, self._length)
        self._length += len(chunk.text)
        if piece.text or piece.tokens:
            yield self._document(self.form.part(piece))
        if chunk.finish_reason:
            yield self._document(self.form.part(Piece("")), _finish(chunk))
        if chunk.final and self.include_usage:
            yield {**self._head(self.form.chunk_name), "choices": [], "usage": usage(self.counters)}

    def whole(self, chunks: list[Chunk]) -> dict[str, Any]:
        """The document of an answer that is not streamed."""
        pieces = [Piece.of(chunk, 0) for chunk in chunks]
        piece = Piece("".join(piece.text for piece in pieces), tuple(token for part in pieces for token in part.tokens))
        last = next((chunk for chunk in reversed(chunks) if chunk.finish_reason), chunks[-1])
        choice = {"index": 0, **self.form.whole(piece), "finish_reason": _finish(last)}
        counters = last.counters or self.counters
        return {**self._head(self.form.name), "choices": [choice], "usage": usage(counters)}

    def _document(self, content: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, **content, "finish_reason": finish}
        document = {**self._head(self.form.chunk_name), "choices": [choice]}
        return {**document, "usage": None} if self.include_usage else document

    def _head(self, name: str) -> dict[str, Any]:
        return {"id": self.id, "object": name, "created": self._created, "model": self.model}


def _finish(chunk: Chunk) -> str:
    """OpenAI knows no difference between an end token and a stop word."""
    return "length" if chunk.finish_reason == "length" else "stop"
