"""Requests to columns: the raw values of a batch of requests, checked and reckoned with all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.chunk_columns import Chunks, check_order
from trtspec.loadtest.raw_values import NEVER, NotPlain, counts, instants, integers, only, small
from trtspec.loadtest.records import CANCEL_REASONS, LOOKUPS, STAMPS, TOKEN_SOURCES, Record, concurrency_label
from trtspec.spec.names import ARMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[Any]

__all__ = ["RawBatch"]

_ARM_CODES = {arm: code for code, arm in enumerate(ARMS)}
_SOURCE_CODES = {source: code for code, source in enumerate(TOKEN_SOURCES)}
_REASONS = frozenset(CANCEL_REASONS)

_TEXTS = ("error", "error_code", "category", "pair_id", "finish_reason", "excluded", "load", "session", "protocol")
_COUNTS = ("concurrency", "max_tokens", "counted_tokens")
_NUMBERS = ("scheduled_ns", "end_ns", "block", "order", "draft_length", "turn", "worker")
_FLAGS = ("cancelled", "synthetic", "warmup")
_SERVER = (
    *("num_input_tokens", "num_output_tokens", "num_spec_steps", "num_draft_tokens", "num_accepted_tokens"),
    *LOOKUPS,
)
_SERVER_COLUMNS = (
    *("input_tokens", "output_tokens", "steps", "drafted", "accepted"),
    *("lookup_steps", "lookup_drafted", "lookup_accepted"),
)
_ROW = ("arm", "prompt_id", "start_ns", *_TEXTS, *_COUNTS, *_NUMBERS, *_FLAGS, "cancel_reason", "tokens_source")


class RawBatch:
    """Raw values of requests as they come; `columns` turns them into those of a Table.

    Values are accepted only where the careful reader (`parse_record`) would take them the same; anything else raises
    NotPlain, here or in `columns`.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._marked: list[bool] = []
        self._servers: list[tuple[Any, ...]] = []
        self._histograms: list[Sequence[int] | None] = []
        self._hashes = bytearray()
        self._lengths: list[int] = []
        self._counts: list[int] = []
        self._times: list[int] = []
        self._tokens: list[int | None] = []
        self._visible: list[bool] = []
        self._perf: list[tuple[int, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_object(self, data: Any) -> None:
        """One parsed line of JSON."""
        try:
            get = data.get
            chunks = get("chunks")
            if chunks is None:
                if "chunks" in data or not (get("error") or get("cancelled")):
                    raise NotPlain
                chunks = ()
            elif type(chunks) is not list:
                raise NotPlain
            self._chunks(
                [chunk["t_ns"] for chunk in chunks],
                [chunk.get("text", "") for chunk in chunks],
                [chunk.get("tokens") for chunk in chunks],
            )
            server, perf = get("server"), get("perf")
        except (AttributeError, KeyError, TypeError):
            raise NotPlain from None
        self._server(server)
        if perf is not None:
            self._stamps(perf)
        self._marked.append("excluded" in data or "warmup" in data)
        self._rows.append(tuple(map(get, _ROW)))

    def add_record(self, record: Record) -> None:
        """One record."""
        chunks, server, perf = record.chunks, record.server, record.perf
        self._chunks(
            [chunk.t_ns for chunk in chunks], [chunk.text for chunk in chunks], [chunk.tokens for chunk in chunks]
        )
        self._server(None if server is None else server._asdict())
        if perf is not None:
            self._stamps(vars(perf))
        self._marked.append(record.marked)
        self._rows.append(tuple(getattr(record, name, None) for name in _ROW))

    def _chunks(self, times: list[Any], texts: list[Any], tokens: list[Any]) -> None:
        whole = "".join(texts)
        self._counts.append(len(times))
        self._times += times
        self._tokens += tokens
        if whole:
            self._visible += map(bool, texts)
        else:  # a recorder that kept no text still counted tokens
            self._visible += map(bool, tokens)
        self._hashes += blake2b(whole.encode(errors="surrogatepass"), digest_size=8).digest()
        self._lengths.append(len(whole))

    def _server(self, server: Any) -> None:
        if server is None:
            self._servers.append((None,) * len(_SERVER))
            self._histograms.append(None)
            return
        if type(server) is not dict:
            raise NotPlain
        self._servers.append(tuple(map(server.get, _SERVER)))
        self._histograms.append(server.get("acceptance_histogram"))

    def _stamps(self, perf: Any) -> None:
        if type(perf) is not dict:
            raise NotPlain
        self._perf.append((len(self._rows), tuple(map(perf.get, STAMPS))))

    def columns(self) -> Mapping[str, Any]:
        """The columns of a Table and the batch's own `names`; NotPlain when a value is of another kind."""
        import numpy as np

        raw = dict(zip(_ROW, zip(*self._rows, strict=True), strict=True)) if self._rows else dict.fromkeys(_ROW, ())
        try:
            columns = {**_plain_columns(raw), **self._server_columns(), **self._text_columns()}
            columns["marked"] = np.array(self._marked, dtype=bool)
            columns.update(_codes(raw))
            chunks = self._chunk_columns(columns)
        except (OverflowError, KeyError, TypeError):
            raise NotPlain from None
        columns.update(chunks)
        _status(columns, raw)
        return columns

    def _server_columns(self) -> dict[str, Column]:
        import numpy as np

        parts: Iterable[Any] = zip(*self._servers, strict=True) if self._servers else ((),) * len(_SERVER)
        columns = {name: counts(part) for name, part in zip(_SERVER_COLUMNS, parts, strict=True)}
        given = [() if histogram is None else histogram for histogram in self._histograms]
        only({list, tuple}, given)
        columns["has_histogram"] = np.array([histogram is not None for histogram in self._histograms], dtype=bool)
        columns["histogram_offsets"] = np.cumsum([0, *map(len, given)], dtype=np.int64)
        columns["histogram"] = counts(list(chain.from_iterable(given)), absent=False)
        stamps = [stamp for _, row in self._perf for stamp in row]
        columns["perf_rows"] = np.array([row for row, _ in self._perf], dtype=np.int64)
        columns["perf_ns"] = integers(stamps, missing=NEVER).reshape(-1, len(STAMPS))
        return columns

    def _text_columns(self) -> dict[str, Column]:
        import numpy as np

        return {
            "text_hash": np.frombuffer(bytes(self._hashes), dtype="<i8").astype(np.int64),
            "text_length": np.array(self._lengths, dtype=np.int32),
        }

    def _chunk_columns(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        import numpy as np

        times = instants(self._times, absent=False)
        tokens = counts(self._tokens)
        visible = np.array(self._visible, dtype=bool)
        offsets = np.cumsum([0, *self._counts])
        rows = np.repeat(np.arange(len(self._counts)), self._counts)
        check_order(times, rows, columns["start_ns"])
        unfinished = columns["end_ns"] == NEVER
        last = columns["start_ns"].copy()
        filled = np.flatnonzero(np.diff(offsets))
        last[filled] = np.maximum(last[filled], times[offsets[1:][filled] - 1])
        columns["end_ns"][unfinished] = last[unfinished]
        if (columns["end_ns"] < columns["start_ns"]).any():
            raise NotPlain
        kept = visible | (tokens > 0)
        kept_rows = rows[kept]
        counted = np.bincount(rows[tokens == 0], minlength=len(self._counts)) > 0
        chunks = Chunks(kept_rows, times[kept], tokens[kept], visible[kept], len(self._counts))
        return {**chunks.columns(columns, zero_counted=counted)}


def _plain_columns(raw: Mapping[str, Sequence[Any]]) -> dict[str, Column]:
    """The columns that are taken as they are."""
    import numpy as np

    optional: set[type] = {str, type(None)}
    for name in _TEXTS:
        only(optional, raw[name])
    only({str}, raw["prompt_id"])
    for name in _FLAGS:
        only({bool, type(None)}, raw[name])
    if not set(raw["cancel_reason"]) <= {None, *_REASONS}:
        raise NotPlain
    start = instants(raw["start_ns"], absent=False)
    scheduled = instants(raw["scheduled_ns"])
    numbers = {name: small(integers(raw[name])) for name in ("block", "order", "worker", "turn", "draft_length")}
    return {
        "arm": np.array([_ARM_CODES[arm] for arm in raw["arm"]], dtype=np.int8),
        "concurrency": np.maximum(counts(raw["concurrency"]), 1),
        "start_ns": start,
        "origin_ns": np.where(scheduled == NEVER, start, scheduled),
        "end_ns": instants(raw["end_ns"]),
        "max_tokens": counts(raw["max_tokens"]),
        "counted_tokens": counts(raw["counted_tokens"]),
        "synthetic": np.array(raw["synthetic"], dtype=bool),
        "cancelled": np.array(raw["cancelled"], dtype=bool),
        "tokens_source": np.array(
            [_SOURCE_CODES["server" if source is None else source] for source in raw["tokens_source"]], dtype=np.int8
        ),
        **numbers,
    }


def _codes(raw: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The name columns as codes into `names`."""
    import numpy as np

    pool: dict[str | None, int] = {}

    def coded(values: Sequence[str | None]) -> Column:
        for value in dict.fromkeys(values):
            if value is not None:
                pool.setdefault(value, len(pool))
        pool[None] = -1
        column = np.fromiter(map(pool.__getitem__, values), dtype=np.int32, count=len(values))
        del pool[None]
        return column

    columns: dict[str, Any] = {
        "prompt": coded(raw["prompt_id"]),
        "pair": coded(_either(raw["pair_id"], raw["prompt_id"])),
        "category": coded(["uncategorised" if value is None else value for value in raw["category"]]),
        "load": coded(_loads(raw)),
        "session": coded(raw["session"]),
        "protocol": coded(raw["protocol"]),
        "excluded": coded(_excluded(raw)),
        "error": coded(raw["error"]),
        "error_code": coded(raw["error_code"]),
    }
    return {**columns, "names": list(pool)}


def _either(values: Sequence[Any], others: Sequence[Any]) -> Sequence[Any]:
    """Each value, or the other where there is none."""
    if all(values):
        return values
    return [value or other for value, other in zip(values, others, strict=True)]


def _loads(raw: Mapping[str, Sequence[Any]]) -> Sequence[str]:
    if all(raw["load"]):
        return raw["load"]
    labels = {of: concurrency_label(int(of or 1)) for of in set(raw["concurrency"])}
    return [load or labels[of] for load, of in zip(raw["load"], raw["concurrency"], strict=True)]


def _excluded(raw: Mapping[str, Sequence[Any]]) -> Sequence[str | None]:
    if not any(raw["warmup"]):
        return [reason or None for reason in raw["excluded"]] if "" in raw["excluded"] else raw["excluded"]
    return [
        reason or ("warm-up" if early else None) for reason, early in zip(raw["excluded"], raw["warmup"], strict=True)
    ]


def _status(columns: dict[str, Any], raw: Mapping[str, Sequence[Any]]) -> None:
    """Set who is ok and who failed; see `Record.ok` and `Record.failed`."""
    import numpy as np

    errors = columns["error"] >= 0
    late = np.array([reason == "timeout" for reason in raw["cancel_reason"]], dtype=bool)
    empty = columns["arrivals"] == 0
    columns["ok"] = ~errors & ~columns["cancelled"] & ~empty
    columns["failed"] = errors | late | (~columns["cancelled"] & empty)
