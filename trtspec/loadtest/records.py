"""`requests.jsonl`: one request a line, the raw truth that everything else is computed from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.raw_values import LATEST
from trtspec.loadtest.timeline import Timeline, build_timeline
from trtspec.spec.names import ARMS, Arm
from trtspec.wire.messages import Counters, ServerStamps

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CANCEL_REASONS",
    "LOOKUPS",
    "STAMPS",
    "TOKEN_SOURCES",
    "ChunkRecord",
    "Record",
    "RecordWriter",
    "concurrency_label",
    "parse_record",
    "record_json",
    "record_line",
]

FILE_NAME = "requests.jsonl"
CANCEL_REASONS = ("timeout", "disconnect", "stop")
TOKEN_SOURCES = ("server", "tokenizer", "none")
STAMPS = ("arrival_ns", "first_scheduled_ns", "first_token_ns", "last_token_ns")


def concurrency_label(concurrency: int) -> str:
    """The load label of a closed loop."""
    return f"concurrency {concurrency}"


@dataclass(frozen=True)
class ChunkRecord:
    """One arrival: when (same clock as the record), the text, and the new tokens (None: unknown)."""

    t_ns: int
    text: str
    tokens: int | None


@dataclass(frozen=True)
class Record:
    """One request as it went.

    All `_ns` are of one monotonic clock. `scheduled_ns` is when it should have been sent (open loop) and equals
    `start_ns` in a closed loop. `load` names the load level ("poisson 5/s"; left out, it is "concurrency N"), by which
    requests are grouped. `excluded` says why a request is left out of the measurement ("warm-up": before the
    window; "fill": keeps the load up while the last measured ones finish); `marked` is False for a hand-made line
    that does not say. `order` is 0 where this arm went first in its block. `cancel_reason` tells a cancelled request's:
    "timeout" (a failure), "disconnect" or "stop" (both ours). `counted_tokens` are those of the whole text, counted by
    the tokenizer where `tokens_source` is "tokenizer". `perf` are the server's own stamps. `server` has the counts of
    lookups (`num_lookup_steps`, …) only where drafts are looked up in the text.
    """

    arm: Arm
    prompt_id: str
    start_ns: int
    end_ns: int
    chunks: tuple[ChunkRecord, ...]
    category: str = "uncategorised"
    concurrency: int = 1
    scheduled_ns: int | None = None
    error: str | None = None
    error_code: str | None = None
    cancelled: bool = False
    server: Counters | None = None
    pair_id: str | None = None
    block: int | None = None
    order: int | None = None
    draft_length: int | None = None
    max_tokens: int | None = None
    finish_reason: str = ""
    excluded: str | None = None
    marked: bool = False
    synthetic: bool = False
    load: str = ""
    cancel_reason: str | None = None
    tokens_source: str = "server"
    counted_tokens: int | None = None
    session: str | None = None
    turn: int | None = None
    worker: int | None = None
    protocol: str | None = None
    perf: ServerStamps | None = None

    def __post_init__(self) -> None:
        if not self.load:
            object.__setattr__(self, "load", concurrency_label(self.concurrency))

    @property
    def ok(self) -> bool:
        """True when a whole answer arrived; one without any text is none."""
        return self.error is None and not self.cancelled and self._answered

    @property
    def failed(self) -> bool:
        """True with an error, after a timeout, or when the answer had no text; those that we ended are no failures."""
        if self.error is not None or self.cancel_reason == "timeout":
            return True
        return not self.cancelled and not self._answered

    @property
    def _answered(self) -> bool:
        return any(chunk.text or chunk.tokens for chunk in self.chunks)

    @cached_property
    def timeline(self) -> Timeline | None:
        """When its texts arrived and with how many tokens; None when none did."""
        return build_timeline(self)

    @property
    def text(self) -> str:
        """The whole generated text."""
        return "".join(chunk.text for chunk in self.chunks)


def record_json(record: Record) -> dict[str, Any]:
    """The JSON object of a record."""
    server = record.server
    return {
        "arm": record.arm,
        "prompt_id": record.prompt_id,
        "category": record.category,
        "concurrency": record.concurrency,
        "scheduled_ns": record.scheduled_ns,
        "start_ns": record.start_ns,
        "end_ns": record.end_ns,
        "chunks": [{"t_ns": chunk.t_ns, "text": chunk.text, "tokens": chunk.tokens} for chunk in record.chunks],
        "error": record.error,
        "error_code": record.error_code,
        "cancelled": record.cancelled,
        "server": None if server is None else _server_json(server),
        "pair_id": record.pair_id,
        "block": record.block,
        "order": record.order,
        "draft_length": record.draft_length,
        "max_tokens": record.max_tokens,
        "finish_reason": record.finish_reason,
        "excluded": record.excluded,
        "synthetic": record.synthetic,
        "load": record.load,
        "cancel_reason": record.cancel_reason,
        "tokens_source": record.tokens_source,
        "counted_tokens": record.counted_tokens,
        "session": record.session,
        "turn": record.turn,
        "worker": record.worker,
        "protocol": record.protocol,
        "perf": None if record.perf is None else asdict(record.perf),
    }


_COUNTERS = (
    "num_input_tokens",
    "num_output_tokens",
    "num_spec_steps",
    "num_draft_tokens",
    "num_accepted_tokens",
)
_HISTOGRAM = "acceptance_histogram"
# written only where the server looks drafts up
LOOKUPS = ("num_lookup_steps", "num_lookup_draft_tokens", "num_accepted_lookup_tokens")


def _server_json(server: Counters) -> dict[str, Any]:
    written = {name: _plain(getattr(server, name)) for name in (*_COUNTERS, _HISTOGRAM)}
    return written | {name: value for name in LOOKUPS if (value := getattr(server, name)) is not None}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class RecordWriter:
    """Appends records, each flushed at once: a killed run keeps all that finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None

    def __enter__(self) -> Self:
        # unbuffered: a line is one write
        self._stream = self._path.open("ab", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def write(self, record: Record) -> None:
        """Append one line; OSError names the file."""
        assert self._stream is not None, "use the writer in a with statement"
        line = record_line(record)
        try:
            # a disk that is nearly full takes a part, without a word
            while line:
                line = line[self._stream.write(line) :]
        except OSError as error:
            error.filename = str(self._path)
            raise


def record_line(record: Record) -> bytes:
    """The record's line. By orjson: a fifth of the time, which a load generator does not have to spare."""
    import orjson

    document = record_json(record)
    try:
        return orjson.dumps(document) + b"\n"
    except TypeError:  # a lone surrogate, or an integer beyond 64 bits
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def parse_record(line: str) -> Record:
    """The record in one line of JSON; FieldError says what is wrong with it."""
    fields = Fields.parse(line)
    error = fields.optional_text("error")
    cancelled = fields.flag("cancelled")
    # a request that failed may have nothing to show
    listed = fields.objects("chunks") if "chunks" in fields or not (error or cancelled) else []
    chunks = tuple(
        ChunkRecord(chunk.integer("t_ns"), chunk.text("text", ""), chunk.optional_count("tokens")) for chunk in listed
    )
    start = fields.integer("start_ns")
    end = fields.optional_integer("end_ns")
    record = Record(
        arm=fields.choice("arm", ARMS),
        prompt_id=fields.text("prompt_id"),
        start_ns=start,
        end_ns=end if end is not None else max([start, *(chunk.t_ns for chunk in chunks)]),
        chunks=chunks,
        category=fields.text("category", "uncategorised"),
        concurrency=fields.optional_count("concurrency") or 1,
        scheduled_ns=fields.optional_integer("scheduled_ns"),
        error=error,
        error_code=fields.optional_text("error_code"),
        cancelled=cancelled,
        server=_counters(fields.optional_object("server")),
        pair_id=fields.optional_text("pair_id"),
        block=fields.optional_integer("block"),
        order=fields.optional_integer("order"),
        draft_length=fields.optional_integer("draft_length"),
        max_tokens=fields.optional_count("max_tokens"),
        finish_reason=fields.text("finish_reason", ""),
        excluded=fields.optional_text("excluded") or ("warm-up" if fields.flag("warmup") else None),
        marked="excluded" in fields or "warmup" in fields,
        synthetic=fields.flag("synthetic"),
        load=fields.optional_text("load") or "",
        cancel_reason=fields.optional_choice("cancel_reason", CANCEL_REASONS),
        tokens_source=fields.optional_choice("tokens_source", TOKEN_SOURCES) or "server",
        counted_tokens=fields.optional_count("counted_tokens"),
        session=fields.optional_text("session"),
        turn=fields.optional_integer("turn"),
        worker=fields.optional_integer("worker"),
        protocol=fields.optional_text("protocol"),
        perf=_stamps(fields.optional_object("perf")),
    )
    _check_times(record)
    return record


def _counters(fields: Fields | None) -> Counters | None:
    if fields is None:
        return None
    values = {name: fields.optional_count(name) for name in (*_COUNTERS, *LOOKUPS)}
    return Counters(**values, acceptance_histogram=fields.optional_counts(_HISTOGRAM))


def _stamps(fields: Fields | None) -> ServerStamps | None:
    if fields is None:
        return None
    return ServerStamps(**{name: fields.optional_integer(name) for name in STAMPS})


def _check_times(record: Record) -> None:
    of_request = {"start_ns": record.start_ns, "end_ns": record.end_ns, "scheduled_ns": record.scheduled_ns or 0}
    of_chunks = {f"chunks[{index}].t_ns": chunk.t_ns for index, chunk in enumerate(record.chunks)}
    for name, time_ns in (of_request | of_chunks).items():
        if abs(time_ns) > LATEST:
            raise FieldError(f"{name!r} is no time in ns: {time_ns}")
    if record.end_ns < record.start_ns:
        raise FieldError("'end_ns' is before 'start_ns'")
    times = [chunk.t_ns for chunk in record.chunks]
    if times != sorted(times):
        raise FieldError("'chunks' are not in the order of their 't_ns'")
    if times and times[0] < record.start_ns:
        raise FieldError("'chunks[0].t_ns' is before 'start_ns'; all times are of one clock")
