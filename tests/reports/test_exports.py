from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.reports.conftest import report_of
from tests.reports.sample import Shape, make_records, sample_provenance
from trtspec.errors import EnvironmentMissing
from trtspec.reports import Places, ReportData, check_gates, write_exports
from trtspec.reports.aiperf import profiled_runs, record_lines
from trtspec.reports.aiperf_summary import profile_summary
from trtspec.reports.columns import request_columns
from trtspec.reports.junit import render_junit
from trtspec.reports.markdown import markdown_text, render_markdown
from trtspec.reports.parquet import parquet_files

GATES = ("speedup.latency_per_token.low < 0.1", "arms.speculative.error_rate > 0")


def test_markdown_has_verdict_gates_and_every_load(sample: ReportData) -> None:
    text = render_markdown(sample, check_gates(sample.summary, GATES))
    assert markdown_text(sample.comparison["verdict"]) in text
    assert "✅ fail if `speedup.latency_per_token.low < 0.1`" in text
    assert "❌ fail if `arms.speculative.error_rate > 0`" in text
    for level in sample.levels:
        assert f"| {level.label} | baseline |" in text
        speedup = level.part.speedup(sample.headline)
        assert speedup is not None
        assert f"**{speedup.estimate:.2f}×**" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    tables = {line.count("|") for line in rows}
    assert tables == {10, 4}


def test_markdown_is_never_broken_by_names() -> None:
    lines = make_records(Shape(prompts=12, levels=(1,), failing=0))
    for line in lines:
        line["category"] = f"{line['category']} | <img src=x> `a`\n# b"
    text = render_markdown(report_of(lines))
    assert "<img" not in text
    assert "\n# b" not in text
    assert {line.count(" | ") for line in text.splitlines() if line.startswith("| ")} == {2, 8}


@pytest.mark.parametrize("shape", [Shape(prompts=4, levels=(1,), arms=("baseline",)), Shape(prompts=1, levels=(1,))])
def test_markdown_of_little(shape: Shape) -> None:
    assert "None" not in render_markdown(report_of(make_records(shape)))
    assert "None" not in render_markdown(report_of([]))


def test_junit_counts_what_it_holds(sample: ReportData) -> None:
    root = ET.fromstring(render_junit(sample, check_gates(sample.summary, GATES)))
    gates, results = root.findall("testsuite")
    assert (gates.get("tests"), gates.get("failures")) == ("2", "1")
    failed = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["fail if arms.speculative.error_rate > 0", "no request failed"]
    assert int(results.get("tests") or 0) == len(sample.levels) + 2
    for suite in (gates, results):
        assert suite.get("skipped") == str(sum(case.find("skipped") is not None for case in suite.iter("testcase")))
    levels = {str(case.get("name")): case for case in results.iter("testcase")}
    for level in sample.levels:
        skipped = levels[f"speed-up at {level.label}"].find("skipped") is not None
        assert skipped == (level.part.compared["verdict"] == "INCONCLUSIVE")


def test_junit_holds_any_text() -> None:
    lines = make_records(Shape(prompts=6, levels=(1,), failing=0))
    lines[0]["error"] = "boom \x1b[31m \x00 </testcase> ]]>"
    lines[0]["load"] = lines[1]["load"] = 'a "level" \x07 & more'
    root = ET.fromstring(render_junit(report_of(lines)))
    assert len(list(root.iter("testcase"))) > 2


def _aiperf(data: ReportData, arm: str, level: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    run = next(run for run in profiled_runs(data) if (run.arm, run.level.label) == (arm, level))
    return [json.loads(line) for line in record_lines(run)], profile_summary(run)


def test_aiperf_records_have_its_names_and_formulas(sample: ReportData) -> None:
    lines, _ = _aiperf(sample, "speculative", "concurrency 2")
    records = [r for r in sample.table.records(range(288)) if r.arm == "speculative" and r.concurrency == 2]
    assert len(lines) == len(records) == 36
    for line, record in zip(lines, records, strict=True):
        assert set(line) == {"metadata", "metrics", "error", "spec_decode_acceptance"}
        meta, metrics, spec = line["metadata"], line["metrics"], line["spec_decode_acceptance"]
        assert meta["conversation_id"] == record.prompt_id
        assert meta["benchmark_phase"] == "profiling"
        assert meta["request_end_ns"] - meta["request_start_ns"] == record.end_ns - record.start_ns
        times = [chunk.t_ns for chunk in record.chunks]
        tokens = sum(chunk.tokens or 0 for chunk in record.chunks)
        assert metrics["time_to_first_token"]["value"] == pytest.approx((times[0] - record.start_ns) / 1e6)
        pace = (times[-1] - times[0]) / 1e6 / (tokens - 1)
        assert metrics["inter_token_latency"] == {"value": pytest.approx(pace), "unit": "ms"}
        assert metrics["output_token_throughput_per_user"]["value"] == pytest.approx(1000 / pace)
        assert metrics["inter_chunk_latency"]["value"] == pytest.approx(np.diff(times) / 1e6)
        assert record.server is not None
        assert spec["acceptance_histogram"] == {
            str(i): n for i, n in enumerate(record.server.acceptance_histogram or ())
        }
        assert spec["mean_acceptance_length"] == 1 + spec["num_accepted_draft_tokens"] / spec["num_spec_steps"]


def test_aiperf_names_failures_cancellations_and_warm_up() -> None:
    lines = make_records(Shape(prompts=6, levels=(1,), failing=1))
    lines[0]["excluded"] = "warm-up"
    lines[2].update(cancelled=True, cancel_reason="disconnect")
    found = [line for arm in ("baseline", "speculative") for line in _aiperf(report_of(lines), arm, "concurrency 1")[0]]
    assert [line["metadata"]["benchmark_phase"] for line in found].count("warmup") == 1
    errors = [line["error"] for line in found if line["error"]]
    assert {error["type"] for error in errors} == {"RequestCancellationError", "error"}
    assert all(line["metrics"] == {} for line in found if line["error"])
    (cancelled,) = [line["metadata"] for line in found if line["metadata"]["was_cancelled"]]
    assert cancelled["cancellation_time_ns"] == cancelled["request_end_ns"]


def test_aiperf_summary_has_its_shape(sample: ReportData) -> None:
    lines, summary = _aiperf(sample, "speculative", "concurrency 2")
    values = [line["metrics"]["request_latency"]["value"] for line in lines]
    stats = summary["request_latency"]
    assert set(stats) == {
        "unit", "avg", "min", "max", "std", "count", "sum", *(f"p{rank}" for rank in (1, 5, 10, 25, 50, 75, 90, 95, 99))
    }  # fmt: skip
    assert stats["avg"] == pytest.approx(sum(values) / len(values))
    assert stats["p50"] == pytest.approx(float(np.median(values)))
    assert summary["request_count"] == {"unit": "requests", "avg": 36.0}
    gaps = sum(len(line["metrics"].get("inter_chunk_latency", {"value": []})["value"]) for line in lines)
    assert summary["inter_chunk_latency"]["count"] == gaps
    pooled = summary["pooled_spec_decode_acceptance_histogram"]
    assert sum(pooled.values()) == summary["total_spec_decode_steps"]["avg"]
    length = summary["spec_decode_token_weighted_acceptance_length"]["avg"]
    assert length == 1 + summary["total_accepted_draft_tokens"]["avg"] / summary["total_spec_decode_steps"]["avg"]
    assert summary["start_time"].startswith("2026-11-29T18:0")


def test_exports_are_written_where_asked(sample: ReportData, tmp_path: Path) -> None:
    places = Places(markdown=tmp_path / "a" / "m.md", junit=tmp_path / "j.xml", json=tmp_path / "s.json",
                    aiperf=tmp_path / "ai")  # fmt: skip
    written = write_exports(sample, places)
    assert set(written) == {"markdown", "junit", "json", "aiperf"}
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads(json.dumps(sample.summary))
    assert (tmp_path / "a" / "m.md").read_text().startswith("### ")
    folders = {path.name for path in (tmp_path / "ai").iterdir()}
    assert folders == {f"{arm}-concurrency_{level}" for arm in ("baseline", "speculative") for level in (1, 2, 4, 8)}
    for folder in (tmp_path / "ai").iterdir():
        assert {path.name for path in folder.iterdir()} == {"profile_export.jsonl", "profile_export_aiperf.json"}


def test_columns_are_one_value_a_request(sample: ReportData) -> None:
    columns = request_columns(sample.table, slice(10, 20))
    assert {len(column) for column in columns.values()} == {10}
    assert columns["status"] == ["ok"] * 10


def test_parquet_holds_requests_and_every_number(sample: ReportData, tmp_path: Path) -> None:
    try:
        from pyarrow import parquet
    except ImportError as error:
        with pytest.raises(EnvironmentMissing, match="Parquet needs the package pyarrow"):
            dict(parquet_files(sample))
        pytest.skip(f"pyarrow cannot be used here: {error}")
    for name, content in parquet_files(sample):
        (tmp_path / name).write_bytes(content)
    requests = parquet.read_table(tmp_path / "requests.parquet")
    columns = request_columns(sample.table, slice(None))
    assert requests.num_rows == 288
    assert {name: requests.column(name).to_pylist() for name in columns} == {k: list(v) for k, v in columns.items()}
    metrics = parquet.read_table(tmp_path / "metrics.parquet").to_pydict()
    numbers = dict(zip(metrics["path"], metrics["value"], strict=True))
    assert numbers["acceptance.acceptance_rate"] == sample.acceptance["acceptance_rate"]
    assert requests.schema.metadata[b"trtspec.run"] == b"sample"


def test_parquet_of_nothing_has_its_columns() -> None:
    try:
        files = dict(parquet_files(report_of([], sample_provenance())))
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    assert set(files) == {"requests.parquet", "metrics.parquet"}
