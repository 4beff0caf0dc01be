from __future__ import annotations

import csv
import io

import pytest

from tests.reports.conftest import report_of
from tests.reports.sample import Shape, make_records
from trtspec.reports import ReportData
from trtspec.reports.csv_files import csv_files, request_csv


def _files(data: ReportData) -> dict[str, str]:
    return {**csv_files(data), "requests.csv": "".join(request_csv(data))}


def _rows(data: ReportData, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(_files(data)[name])))


def test_requests_round_trip(sample: ReportData) -> None:
    rows = _rows(sample, "requests.csv")
    assert len(rows) == len(sample.table) == 288
    for row, record in zip(rows, sample.table.records(range(288)), strict=True):
        assert (row["arm"], row["prompt_id"], row["load"]) == (record.arm, record.prompt_id, record.load)
        assert row["status"] == ("failed" if record.failed else "ok")
        assert row["error"] == (record.error or "")
        line = record.timeline
        assert line is not None
        assert float(row["request_latency_s"]) == pytest.approx((line.last_ns - line.origin_ns) / 1e9)
        assert float(row["time_to_first_token_s"]) == pytest.approx((line.first_ns - line.origin_ns) / 1e9)
        server = record.server
        assert row["accepted"] == ("" if server is None else str(server.num_accepted_tokens))


def test_many_requests_are_written_in_pieces(sample: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "".join(request_csv(sample))
    monkeypatch.setattr("trtspec.reports.csv_files._BATCH", 50)
    pieces = list(request_csv(sample))
    assert len(pieces) == 7
    assert "".join(pieces) == whole


def test_metrics_are_the_summarys_at_full_precision(sample: ReportData) -> None:
    rows = _rows(sample, "metrics.csv")
    assert {row["load"] for row in rows} == {"all", *(f"concurrency {level}" for level in (1, 2, 4, 8))}
    for row in rows:
        arm = sample.summary["arms"][row["arm"]]
        part = arm if row["load"] == "all" else arm["by_load"][row["load"]]
        if row["metric"] == "error_rate":
            assert float(row["mean"]) == part["error_rate"]
            continue
        for key in ("mean", "p50", "p99"):
            assert (float(row[key]) if row[key] else None) == part[row["metric"]][key]


def test_acceptance_and_speedup(sample: ReportData) -> None:
    acceptance = _rows(sample, "acceptance.csv")
    assert {row["by"] for row in acceptance} == {"all", "category", "position", "accepted in a round"}
    positions = [float(row["share_of_rounds"]) for row in acceptance if row["by"] == "position"]
    assert positions == sample.acceptance["per_position"]
    speedup = _rows(sample, "speedup.csv")
    assert {row["by"] for row in speedup} == {"all", "load", "category"}
    whole = next(row for row in speedup if row["by"] == "all" and row["metric"] == "latency_per_token")
    assert float(whole["low"]) == sample.comparison["speedup"]["latency_per_token"]["low"]


def test_what_is_not_measured_is_empty() -> None:
    data = report_of(make_records(Shape(prompts=6, levels=(1,), server=False)))
    assert {row["accepted"] for row in _rows(data, "requests.csv")} == {""}
    assert next(row for row in _rows(data, "acceptance.csv"))["acceptance_rate"] == ""


@pytest.mark.parametrize("name", ["=1+1", "@SUM(A1)", "+x", "-x"])
def test_a_name_is_never_a_formula(name: str) -> None:
    lines = make_records(Shape(prompts=6, levels=(1,)))
    for line in lines:
        line["category"] = name
    for file, text in _files(report_of(lines)).items():
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert name not in cells, file


def test_no_requests() -> None:
    assert _rows(report_of([]), "requests.csv") == []
    assert _rows(report_of([]), "metrics.csv") == []
