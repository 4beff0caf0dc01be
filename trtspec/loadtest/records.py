"""`requests.jsonl`: one request a line, the raw truth that everything else is computed from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from trtspec.errors import RecordsError
from trtspec.loadtest.fields import FieldError, Fields
from trtspec.loadtest.timeline import Timeline, build_timeline
from trtspec.spec.names import ARMS, Arm
from trtspec.wire.messages import Counters

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ChunkRecord", "Record", "RecordWriter", "parse_record", "read_records", "record_json"]

FILE_NAME = "requests.jsonl"


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
    `start_ns` in a closed loop. `excluded` says why a request is left out of the measurement ("warm-up": before the
    window; "fill": keeps the load up while the last measured ones finish); `marked` is False for a hand-made line
    that does not say. `order` is 0 where this arm went first in its block.
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

    @property
    def ok(self) -> bool:
        """True when the whole answer arrived."""
        return self.error is None and not self.cancelled

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
        "server": None
        if server is None
        else {name: _plain(getattr(server, name)) for name in (*_COUNTERS, _HISTOGRAM)},
        "pair_id": record.pair_id,
        "block": record.block,
        "order": record.order,
        "draft_length": record.draft_length,
        "max_tokens": record.max_tokens,
        "finish_reason": record.finish_reason,
        "excluded": record.excluded,
        "synthetic": record.synthetic,
    }


_COUNTERS = (
    "num_input_tokens",
    "num_output_tokens",
    "num_spec_steps",
    "num_draft_tokens",
    "num_accepted_tokens",
)
_HISTOGRAM = "acceptance_histogram"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class RecordWriter:
    """Appends records, each flushed at once: a killed run keeps all that finished."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[str] | None = None

    def __enter__(self) -> Self:
        self._stream = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def write(self, record: Record) -> None:
        """Append one line."""
        assert self._stream is not None, "use the writer in a with statement"
        self._stream.write(json.dumps(record_json(record), ensure_ascii=False, separators=(",", ":")) + "\n")
        self._stream.flush()


def read_records(path: Path, on_warning: Callable[[str], None] | None = None) -> list[Record]:
    """All records of a file; keys that a hand-made line leaves out get their neutral value.

    RecordsError names file and line of the first broken one. A last line that is cut off (the writer was killed)
    is dropped and told to `on_warning`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecordsError("no such file", where=str(path), fix="trtspec loadtest SPEC") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecordsError(f"cannot be read: {error}", where=str(path)) from None
    lines = text.split("\n")
    cut_off = lines[-1] != ""
    records = []
    for number, line in _filled(lines):
        last_cut_off = cut_off and number == len(lines)
        record = _parse(line, None if last_cut_off else f"{path}:{number}")
        if record is not None:
            records.append(record)
        else:
            _warn(on_warning, f"{path}:{number}: the last line is cut off and was left out")
    if not records:
        raise RecordsError("no requests in it", where=str(path))
    return records


def _parse(line: str, where: str | None) -> Record | None:
    """The record in a line; a broken one is RecordsError at `where`, or None when there is no `where`."""
    try:
        return parse_record(line)
    except FieldError as error:
        if where is None:
            return None
        raise RecordsError(str(error), where=where) from None


def _filled(lines: list[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _warn(on_warning: Callable[[str], None] | None, text: str) -> None:
    if on_warning is not None:
        on_warning(text)


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
    )
    _check_times(record)
    return record


def _counters(fields: Fields | None) -> Counters | None:
    if fields is None:
        return None
    values = {name: fields.optional_count(name) for name in _COUNTERS}
    return Counters(**values, acceptance_histogram=fields.optional_counts(_HISTOGRAM))


def _check_times(record: Record) -> None:
    if record.end_ns < record.start_ns:
        raise FieldError("'end_ns' is before 'start_ns'")
    times = [chunk.t_ns for chunk in record.chunks]
    if times != sorted(times):
        raise FieldError("'chunks' are not in the order of their 't_ns'")
    if times and times[0] < record.start_ns:
        raise FieldError("'chunks[0].t_ns' is before 'start_ns'; all times are of one clock")
