"""What one stream says about time and tokens. The columns of a Table say the same of all streams at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trtspec.loadtest.records import ChunkRecord, Record

__all__ = ["Arrival", "Timeline", "build_timeline", "output_tokens"]


@dataclass(frozen=True)
class Arrival:
    """Visible text that arrived at `t_ns` with the tokens since the arrival before (None: unknown)."""

    t_ns: int
    tokens: int | None


@dataclass(frozen=True)
class Timeline:
    """A request from when it should have been sent to its last visible text.

    Chunks without text (keep-alives, the closing message, text held back for a stop word) are no arrivals: their
    tokens count with the text that follows. `answer_tokens` are those of the whole answer, if known at all.
    """

    origin_ns: int
    arrivals: tuple[Arrival, ...]
    answer_tokens: int | None = None

    @property
    def first_ns(self) -> int:
        """Arrival of the first text."""
        return self.arrivals[0].t_ns

    @property
    def last_ns(self) -> int:
        """Arrival of the last text."""
        return self.arrivals[-1].t_ns

    @property
    def tokens_after_first(self) -> int | None:
        """Tokens that arrived after the first text; None when counts are missing.

        Counted up to the last text, else those of the whole answer less the first text's.
        """
        counted, first = _total(self.arrivals[1:]), self.arrivals[0].tokens
        if counted is not None or first is None or self.answer_tokens is None:
            return counted
        return self.answer_tokens - first if self.answer_tokens >= first else None

    @property
    def tokens(self) -> int | None:
        """Tokens up to the last text, of the whole answer where chunks are not counted; None when neither is known."""
        counted = _total(self.arrivals)
        return self.answer_tokens if counted is None else counted

    @property
    def gaps_ns(self) -> list[int]:
        """Times between neighbouring arrivals."""
        return [later.t_ns - earlier.t_ns for earlier, later in zip(self.arrivals, self.arrivals[1:], strict=False)]


def build_timeline(record: Record) -> Timeline | None:
    """The timeline of a record; None when no text arrived."""
    # a recorder that kept no text still counted tokens
    keeps_text = any(chunk.text for chunk in record.chunks)
    arrivals, held = [], _Held()
    for chunk in record.chunks:
        held.add(chunk)
        if chunk.text or (not keeps_text and chunk.tokens):
            arrivals.append(Arrival(chunk.t_ns, held.take()))
    if not arrivals:
        return None
    origin = record.start_ns if record.scheduled_ns is None else record.scheduled_ns
    return Timeline(origin, tuple(arrivals), output_tokens(record))


class _Held:
    """Tokens since the last arrival; unknown as soon as one chunk with text does not tell."""

    def __init__(self) -> None:
        self._tokens: int | None = 0

    def add(self, chunk: ChunkRecord) -> None:
        if chunk.tokens is not None:
            self._tokens = None if self._tokens is None else self._tokens + chunk.tokens
        elif chunk.text:
            self._tokens = None

    def take(self) -> int | None:
        tokens, self._tokens = self._tokens, 0
        return tokens


def _total(arrivals: tuple[Arrival, ...]) -> int | None:
    counts = [arrival.tokens for arrival in arrivals]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def output_tokens(record: Record) -> int | None:
    """Tokens of the whole answer: from the chunks, else the server's final count, else the tokenizer's; or None."""
    counts = [chunk.tokens for chunk in record.chunks if chunk.tokens is not None or chunk.text]
    known = [count for count in counts if count is not None]
    if counts and len(known) == len(counts):
        return sum(known)
    told = record.server.num_output_tokens if record.server else None
    return record.counted_tokens if told is None else told
