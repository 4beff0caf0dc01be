"""Reports of synthetic runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.reports.sample import Shape, make_records, sample_provenance
from trtspec.loadtest.records import Record, parse_record
from trtspec.loadtest.summary import summarise
from trtspec.reports import ReportData, report_data

Lines = list[dict[str, Any]]


def records_of(lines: Lines) -> list[Record]:
    return [parse_record(json.dumps(line)) for line in lines]


def report_of(lines: Lines, provenance: dict[str, Any] | None = None) -> ReportData:
    records = records_of(lines)
    return report_data("sample", records, summarise(records, provenance), provenance)


@pytest.fixture(scope="session")
def lines() -> Callable[[Shape], Lines]:
    return make_records


@pytest.fixture(scope="session")
def sample() -> ReportData:
    """A full run: four levels, six categories, two diverging prompts, one failed request."""
    return report_of(make_records(), sample_provenance())
