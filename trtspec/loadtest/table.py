"""The requests of a run as columns: one row a request, and the chunks of all requests one after the other.

A million requests fit in a few hundred megabytes this way. Texts stay where they are: `Table.records` loads whole
records of chosen rows. Absent values are -1 (`UNKNOWN`), times that never came `NEVER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from trtspec.loadtest.raw_values import NEVER
from trtspec.spec.names import ARMS, Arm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trtspec.loadtest.records import Record

    Ints = NDArray[np.integer[Any]]
    Flags = NDArray[np.bool_]

__all__ = ["NEVER", "UNKNOWN", "Source", "Table", "TableBuilder", "table_of"]

UNKNOWN = -1


class Source(Protocol):
    """Where whole records come from."""

    def load(self, rows: Sequence[int]) -> list[Record]:
        """The records of some rows."""
        ...


@dataclass(frozen=True)
class Table:
    """Columns over n requests in the order of the file.

    Codes (`load`, `prompt`, `category`, `pair`, `excluded`, `error`, `error_code`, `session`,
    `protocol`) index `names`; `arm` indexes `trtspec.spec.names.ARMS`. All `_ns` are of the client's clock.
    """

    names: Sequence[str]
    source: Source

    arm: Ints
    load: Ints
    """the load level's label"""
    concurrency: Ints
    prompt: Ints
    category: Ints
    pair: Ints
    """`pair_id`, or the prompt where there is none"""
    block: Ints
    order: Ints
    worker: Ints
    turn: Ints
    session: Ints
    protocol: Ints

    origin_ns: Ints
    """when it should have been sent: latencies count from here"""
    start_ns: Ints
    end_ns: Ints
    first_ns: Ints
    """arrival of the first visible text; NEVER without any"""
    last_ns: Ints
    """arrival of the last visible text; NEVER without any"""
    active_end_ns: Ints
    """arrival of the last chunk with text or tokens, else the request's end"""

    arrivals: Ints
    """visible texts"""
    tokens: Ints
    """up to the last text, of the whole answer where chunks are not counted"""
    first_tokens: Ints
    tokens_after_first: Ints
    answer_tokens: Ints
    """of the whole answer, by whatever counted it"""
    max_stall_ns: Ints
    """longest time between two texts; -1 with fewer than two"""
    text_hash: Ints
    """equal texts have equal hashes (64 bits)"""
    text_length: Ints

    input_tokens: Ints
    output_tokens: Ints
    steps: Ints
    drafted: Ints
    accepted: Ints
    lookup_steps: Ints
    """of the steps, those whose draft was found in the text; -1 where drafts are not looked up"""
    lookup_drafted: Ints
    lookup_accepted: Ints
    max_tokens: Ints
    draft_length: Ints

    ok: Flags
    """a whole answer arrived"""
    failed: Flags
    """an error, a timeout, or an answer without any text"""
    cancelled: Flags
    excluded: Ints
    """why it is outside the window; -1 inside"""
    marked: Flags
    synthetic: Flags
    error: Ints
    """what went wrong; -1 without an error"""
    error_code: Ints
    tokens_source: Ints
    """who counted the tokens: index of `trtspec.loadtest.records.TOKEN_SOURCES`"""
    has_histogram: Flags
    """the server sent an acceptance histogram (which may be empty)"""

    chunk_offsets: Ints
    """chunks of row i are chunk_offsets[i]:chunk_offsets[i+1]; n+1 values"""
    chunk_ns: Ints
    """since start_ns of its row; only chunks with text or tokens"""
    chunk_tokens: Ints
    chunk_visible: Flags
    """it brought text; those that did not are held back, and their tokens count with the next text"""

    histogram_offsets: Ints
    histogram: Ints
    """rounds that accepted 0, 1, 2, … drafted tokens"""

    perf_rows: Ints
    """rows with the server's own stamps"""
    perf_ns: Ints
    """[len(perf_rows), 4]: arrival, first scheduled, first token, last token, of the server's clock; NEVER: unknown"""

    def __len__(self) -> int:
        return len(self.arm)

    def name(self, code: int) -> str | None:
        """What a code stands for; None for -1."""
        return self.names[code] if code >= 0 else None

    def names_of(self, codes: Iterable[int]) -> list[Any]:
        """`name` of each."""
        return [self.name(code) for code in codes]

    def code(self, name: str) -> int:
        """The code of a name; -1 where it does not occur."""
        return self.names.index(name) if name in self.names else UNKNOWN

    def arm_rows(self, arm: Arm) -> Ints:
        """The rows of an arm."""
        import numpy as np

        return np.flatnonzero(self.arm == ARMS.index(arm))

    def records(self, rows: Iterable[int]) -> list[Record]:
        """Whole records, texts included, with `excluded` as this table has it. Meant for few rows."""
        chosen = [int(row) for row in rows]
        loaded = self.source.load(chosen)
        reasons = [self.name(int(self.excluded[row])) for row in chosen]
        return [
            record if record.excluded == reason else replace(record, excluded=reason)
            for record, reason in zip(loaded, reasons, strict=True)
        ]

    def histogram_of(self, row: int) -> tuple[int, ...] | None:
        """The acceptance histogram of a row; None when the server sent none."""
        if not self.has_histogram[row]:
            return None
        return tuple(self.histogram[self.histogram_offsets[row] : self.histogram_offsets[row + 1]].tolist())

    def with_excluded(self, rows: Ints, reason: str) -> Table:
        """This table with some rows outside the window."""
        names = list(self.names)
        if reason not in names:
            names.append(reason)
        excluded = self.excluded.copy()
        excluded[rows] = names.index(reason)
        return replace(self, names=names, excluded=excluded)


class _Kept:
    """Records that are in memory anyway."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def load(self, rows: Sequence[int]) -> list[Record]:
        return [self._records[row] for row in rows]


class TableBuilder:
    """Collects records one by one in compact form: texts are not kept.

    10 000 requests of 128 chunks take about 20 MB. `source` is where the table's texts come from; without one,
    `Table.records` raises.
    """

    _BATCH = 1024

    def __init__(self, source: Source | None = None) -> None:
        from trtspec.loadtest.columns import RawBatch

        self._source = source or _Nowhere()
        self._open = RawBatch()
        self._done: list[Mapping[str, Any]] = []

    def add(self, record: Record) -> None:
        """Append a row."""
        from trtspec.loadtest.columns import RawBatch

        self._open.add_record(record)
        if len(self._open) >= self._BATCH:
            self._done.append(self._open.columns())
            self._open = RawBatch()

    def table(self) -> Table:
        """All rows so far."""
        return joined([*self._done, self._open.columns()], self._source)


class _Nowhere:
    def load(self, rows: Sequence[int]) -> list[Record]:
        raise LookupError(f"the texts of {len(rows)} requests were not kept")


def table_of(records: Iterable[Record]) -> Table:
    """The table of records in memory."""
    kept = list(records)
    builder = TableBuilder(_Kept(kept))
    for record in kept:
        builder.add(record)
    return builder.table()


_CODES = ("load", "prompt", "category", "pair", "session", "protocol", "excluded", "error", "error_code")
_OFFSETS = {"chunk_offsets": "chunk_ns", "histogram_offsets": "histogram"}


def joined(parts: list[Mapping[str, Any]], source: Source) -> Table:
    """One table of the columns of several batches, in that order; `parts` is emptied on the way to save memory."""
    import numpy as np

    pool: dict[str, int] = {}
    work = [dict(part) for part in parts]
    parts.clear()
    rows = np.cumsum([0, *(len(part["arm"]) for part in work)])
    sizes = {name: np.cumsum([0, *(len(part[of]) for part in work)]) for name, of in _OFFSETS.items()}
    for part in work:
        translation = np.array([pool.setdefault(name, len(pool)) for name in part.pop("names")] + [-1], dtype=np.int32)
        part.update({name: translation[part[name]] for name in _CODES})
    columns: dict[str, Any] = {}
    for field in fields(Table):
        if field.name in {"names", "source"}:
            continue
        pieces = [part.pop(field.name) for part in work]
        if field.name in _OFFSETS:
            pieces = [piece[:-1] + at for piece, at in zip(pieces, sizes[field.name][:-1], strict=True)]
            pieces.append(sizes[field.name][-1:])
        elif field.name == "perf_rows":
            pieces = [piece + at for piece, at in zip(pieces, rows[:-1], strict=True)]
        columns[field.name] = np.concatenate(pieces)
    return Table(names=list(pool), source=source, **columns)
