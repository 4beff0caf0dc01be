"""A run as Parquet files: one row a request, and every number of the summary with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

from trtspec.errors import EnvironmentMissing
from trtspec.reports.columns import NAMES, count_columns, request_columns
from trtspec.reports.data import ReportData
from trtspec.reports.paths import numbers_below
from trtspec.reports.rows import TIMES

__all__ = ["parquet_files"]

_BATCH = 65_536


def parquet_files(data: ReportData) -> Iterator[tuple[str, bytes]]:
    """The name and content of requests.parquet and metrics.parquet; EnvironmentMissing where pyarrow cannot be used.

    Texts of few kinds are dictionary-encoded; the run's name and the summary's schema are in the files' metadata.
    """
    try:
        import_module("pyarrow")
    except ImportError as error:  # also a pyarrow that does not go with the numpy that is here
        fix = "pip install 'trtspec[parquet]'"
        raise EnvironmentMissing(f"Parquet needs the package pyarrow, which cannot be used: {error}", fix=fix) from None
    yield "requests.parquet", _requests(data)
    yield "metrics.parquet", _metrics(data)


def _requests(data: ReportData) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    schema, sink = _schema(data), BytesIO()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for start in range(0, max(1, len(data.table)), _BATCH):
            columns = request_columns(data.table, slice(start, start + _BATCH))
            writer.write_table(pa.table(dict(columns), schema=schema))
    return sink.getvalue()


def _metrics(data: ReportData) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    numbers, sink = numbers_below(data.summary), BytesIO()
    columns = {"path": pa.array([path for path, _ in numbers], pa.string()),
               "value": pa.array([value for _, value in numbers], pa.float64())}  # fmt: skip
    parquet.write_table(pa.table(columns).replace_schema_metadata(dict(_metadata(data))), sink, compression="zstd")
    return sink.getvalue()


def _metadata(data: ReportData) -> Mapping[str, str]:
    return {"trtspec.run": data.name, "trtspec.summary_schema": str(data.summary.get("schema"))}


def _schema(data: ReportData) -> Any:
    import pyarrow as pa

    name = pa.dictionary(pa.int32(), pa.string())
    types = {
        "arm": name, **dict.fromkeys(NAMES, name), "concurrency": pa.int64(), "start_s": pa.float64(),
        "send_lag_s": pa.float64(), "status": name, "error": name, "excluded": name,
        **{f"{time}_s": pa.float64() for time in TIMES}, **dict.fromkeys(count_columns(data.table), pa.int64()),
        "acceptance_rate": pa.float64(),
    }  # fmt: skip
    return pa.schema(list(types.items()), metadata=dict(_metadata(data)))
