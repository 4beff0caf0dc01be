"""`requests.jsonl` → Table: several processes parse stretches of the file; a broken line is named as ever.

Plain lines go the fast way (orjson, columns of a whole stretch at once). A stretch with anything unusual is read again
line by line by `parse_record`, which says precisely what is wrong, or takes it when it is only unusual.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trtspec.cores import usable_cores
from trtspec.errors import RecordsError
from trtspec.loadtest.columns import RawBatch
from trtspec.loadtest.fields import FieldError
from trtspec.loadtest.raw_values import NotPlain
from trtspec.loadtest.records import Record, parse_record
from trtspec.loadtest.table import Table, joined

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_REQUESTS", "read_records", "read_table"]

NO_REQUESTS = "no requests in it"
_STRETCH = 16 * 2**20
_LONGEST_LINE = 128 * 2**20
# a file with fewer stretches is read faster than processes start
_WORTH_PROCESSES = 4
Warn = Callable[[str], None]


@dataclass(frozen=True)
class _Stretch:
    """Bytes start:end of a file, whole lines; `cut` when they end the file without a newline."""

    path: Path
    start: int
    end: int
    cut: bool


@dataclass(frozen=True)
class _Parsed:
    """What a stretch held: columns, the place of each row's line, and the number of lines."""

    columns: Mapping[str, Any]
    offsets: NDArray[Any]
    sizes: NDArray[Any]
    lines: int
    cut_off: bool = False


@dataclass(frozen=True)
class _Broken:
    """The first broken line of a stretch (1 is its first) and what is wrong with it."""

    line: int
    complaint: str


def read_table(path: Path, on_warning: Warn | None = None, *, processes: int | None = None) -> Table:
    """All requests of a file; keys that a hand-made line leaves out get their neutral value.

    RecordsError names file and line of the first broken one. A last line that is cut off (the writer was killed) is
    dropped and told to `on_warning`. `processes`: by default as many as CPUs for a large file, none of its own for a
    small one; the table is the same.
    """
    try:
        stretches = list(_stretches(path))
        parsed = list(_in_order(path, _parse_all(stretches, processes), on_warning))
    except FileNotFoundError:
        raise RecordsError("no such file", where=str(path), fix="trtspec loadtest SPEC") from None
    except OSError as error:
        raise RecordsError(f"cannot be read: {error}", where=str(path)) from None
    if not any(len(part.offsets) for part in parsed):
        raise RecordsError(NO_REQUESTS, where=str(path))
    return _table(path, parsed)


def read_records(path: Path, on_warning: Warn | None = None) -> list[Record]:
    """`read_table`, as whole records with their texts. Meant for small files."""
    table = read_table(path, on_warning)
    return table.records(range(len(table)))


def _stretches(path: Path) -> Iterator[_Stretch]:
    """The file in pieces of about 16 MiB that end after a newline."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = 0
        while start < size:
            stream.seek(min(start + _STRETCH, size))
            _skip_line(stream, path)
            end = stream.tell()
            stream.seek(end - 1)
            yield _Stretch(path, start, end, cut=stream.read(1) != b"\n")
            start = end


def _skip_line(stream: IO[bytes], path: Path) -> None:
    """Go to the end of this line; RecordsError for one that no request fills."""
    start = stream.tell()
    while (part := stream.readline(_STRETCH)) and not part.endswith(b"\n"):
        if stream.tell() - start > _LONGEST_LINE:
            raise RecordsError(f"a line has more than {_LONGEST_LINE >> 20} MiB, as no request has", where=str(path))


def _parse_all(stretches: Sequence[_Stretch], processes: int | None) -> Iterator[_Parsed | _Broken]:
    wanted = processes if processes is not None else usable_cores() if len(stretches) >= _WORTH_PROCESSES else 1
    wanted = min(wanted, len(stretches))
    if wanted <= 1:
        yield from map(_parse_stretch, stretches)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # spawned, not forked: the caller may have threads. Parsed lines hold no cycles for the collector to find.
    with ProcessPoolExecutor(wanted, mp_context=get_context("spawn"), initializer=gc.disable) as pool:
        yield from pool.map(_parse_stretch, stretches)


def _give_back_memory() -> None:
    """Return what was freed in pieces, which glibc keeps for later (malloc_trim in the glibc manual, section 3.2.3)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _parse_stretch(stretch: _Stretch) -> _Parsed | _Broken:
    with stretch.path.open("rb") as stream:
        stream.seek(stretch.start)
        lines = stream.read(stretch.end - stretch.start).split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        batch, cut_off = _plain(lines), False
        columns = batch.columns()
    except NotPlain:
        careful = _carefully(lines, cut=stretch.cut)
        if isinstance(careful, _Broken):
            return careful
        columns, cut_off = careful[0].columns(), careful[1]
    return _parsed(stretch, lines, columns, cut_off=cut_off)


def _plain(lines: Sequence[bytes]) -> RawBatch:
    from orjson import JSONDecodeError, loads

    batch = RawBatch()
    add = batch.add_object
    try:
        for line in lines:
            if line and not line.isspace():
                add(loads(line))
    except JSONDecodeError:
        raise NotPlain from None
    return batch


def _carefully(lines: Sequence[bytes], *, cut: bool) -> tuple[RawBatch, bool] | _Broken:
    batch = RawBatch()
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        try:
            batch.add_record(parse_record(line.decode("utf-8")))
        except (FieldError, UnicodeDecodeError) as error:
            if cut and number == len(lines):
                return batch, True
            return _Broken(number, f"not UTF-8: {error}" if isinstance(error, UnicodeDecodeError) else str(error))
    return batch, False


def _parsed(stretch: _Stretch, lines: Sequence[bytes], columns: Mapping[str, Any], *, cut_off: bool) -> _Parsed:
    import numpy as np

    sizes = np.fromiter(map(len, lines), dtype=np.int32, count=len(lines))
    offsets = stretch.start + np.concatenate([[0], np.cumsum(sizes[:-1] + 1, dtype=np.int64)])[: len(lines)]
    filled = np.array([bool(line) and not line.isspace() for line in lines], dtype=bool)
    if cut_off:
        filled[-1] = False
    return _Parsed(columns, offsets[filled], sizes[filled], len(lines), cut_off)


def _in_order(path: Path, parsed: Iterator[_Parsed | _Broken], on_warning: Warn | None) -> Iterator[_Parsed]:
    before = 0
    for part in parsed:
        if isinstance(part, _Broken):
            raise RecordsError(part.complaint, where=f"{path}:{before + part.line}")
        before += part.lines
        if part.cut_off and on_warning is not None:
            on_warning(f"{path.name}:{before}: the last line is cut off and was left out")
        yield part


def _table(path: Path, parsed: list[_Parsed]) -> Table:
    import numpy as np

    offsets = np.concatenate([part.offsets for part in parsed])
    sizes = np.concatenate([part.sizes for part in parsed])
    columns = [part.columns for part in parsed]
    parsed.clear()
    table = joined(columns, _Lines(path, offsets, sizes))
    _give_back_memory()
    return table


@dataclass(frozen=True)
class _Lines:
    """The lines of a file as the source of whole records."""

    path: Path
    offsets: NDArray[Any]
    sizes: NDArray[Any]

    def load(self, rows: Sequence[int]) -> list[Record]:
        with self.path.open("rb") as stream:
            return [self._record(stream, row) for row in rows]

    def _record(self, stream: Any, row: int) -> Record:
        stream.seek(int(self.offsets[row]))
        line: bytes = stream.read(int(self.sizes[row]))
        return parse_record(line.decode("utf-8"))
