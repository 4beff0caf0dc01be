from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from tests.loadtest.fakes import counters, make_pairs_of_records, record
from trtspec.loadtest.figures import FIGURES, figures_document
from trtspec.loadtest.records import Record
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.summary_schema import closed_summary_schema, summary_schema


def counted(records: list[Record]) -> list[Record]:
    """With blocks, counters of differing acceptance, and some texts that differ."""
    made = []
    for index, one in enumerate(records):
        number = int(one.prompt_id[1:])
        server = counters([1 + number % 3, 2, 3], 20) if one.arm == "speculative" else None
        text = replace(one.chunks[0], text="other ") if index % 9 == 0 else one.chunks[0]
        made.append(replace(one, server=server, block=number // 4, chunks=(text, *one.chunks[1:])))
    return made


def full_run() -> dict[str, Any]:
    levels = [counted(make_pairs_of_records(40, concurrency=c, speculative_ms=5 * c)) for c in (1, 2, 8)]
    opened = [replace(one, load="poisson 5/s", prompt_id=f"o{one.prompt_id}", pair_id=None) for one in levels[0]]
    measurement = {"client": {"loop_lag": {"p50": 0.0001}, "cpu_share": 0.2}, "cold_start": {"baseline": {}}}
    options = {"slo": {"ttft": 0.02, "tpot": 0.02}, "price_per_hour": 2.5, "temperature": 0.0}
    spec = {"runtime": "tensorrt_llm", "target": {"tp": 2}, "draft": {"tp": 1}, "hardware": {"count": 2}}
    records = [*(one for level in levels for one in level), *opened]
    return summarise(records, {"options": options, "spec": spec}, measurement)


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "full": full_run,
    "one arm": lambda: summarise([record()]),
    "nothing counted": lambda: summarise([record([(10, None)]), record([(10, None)], arm="speculative")]),
    "all failed": lambda: summarise([record([], error="boom"), record([], error="boom", arm="speculative")]),
    "in one piece": lambda: summarise([record([(10, 99)]), record([(10, 99)], arm="speculative")]),
}


@pytest.mark.parametrize("run", sorted(RUNS))
def test_real_summaries_have_exactly_the_published_form(run: str) -> None:
    jsonschema.validate(RUNS[run](), closed_summary_schema())


def test_the_full_run_fills_what_the_schema_lets_be_null() -> None:
    summary = full_run()
    comparison = summary["comparison"]
    assert comparison["equality"]["diverged"] > 0
    assert comparison["correlation"]["acceptance_speedup"]["points"]
    assert comparison["capacity"]["ladders"]["concurrency"]["baseline"]["steps"]
    assert comparison["cost"]["gpus"]
    assert summary["arms"]["baseline"]["by_load"]["poisson 5/s"]["goodput"]["met"]["count"] == 40


def test_the_schema_is_open_for_keys_of_later_releases_but_not_for_wrong_values() -> None:
    summary = summarise([record()])
    jsonschema.validate({**summary, "new": 1}, summary_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**summary, "new": 1}, closed_summary_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**summary, "schema": 2}, summary_schema())
    jsonschema.Draft202012Validator.check_schema(summary_schema())
    assert json.loads(json.dumps(summary_schema())) == summary_schema()


def test_every_figure_is_in_the_document_with_unit_formula_and_sample() -> None:
    document = figures_document()
    for figure in FIGURES:
        assert all((figure.unit, figure.formula, figure.meaning, figure.sample)), figure.name
        assert f"| `{figure.name}` | {figure.unit} |" in document


def test_every_row_of_an_arm_is_a_figure() -> None:
    names = {figure.name.partition(".")[0] for figure in FIGURES}
    assert {name for name in full_run()["arms"]["baseline"] if not name.startswith("by_")} <= names
