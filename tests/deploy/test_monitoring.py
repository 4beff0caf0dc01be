"""The metrics document and the dashboard against the frontend's own table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trtspec.deploy import dashboard, metrics_document, monitoring_documents
from trtspec.triton_models.frontend_metric_table import COMMON_LABELS, METRICS, series

ROOT = Path(__file__).parents[2]
SERIES = {name: labels for metric in METRICS for name, labels in series(metric).items()}
QUERIES = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("name", monitoring_documents())
def test_committed_files_are_current(name: str) -> None:
    """`python -m trtspec.deploy` writes them."""
    assert (ROOT / name).read_text(encoding="utf-8") == monitoring_documents()[name]


def test_the_document_names_every_metric_with_its_labels() -> None:
    text = metrics_document()
    for metric in METRICS:
        (row,) = re.findall(rf"^\| `{metric.name}` \|.*$", text, re.MULTILINE)
        assert f"| {metric.kind} |" in row
        assert metric.help in row
        assert all(f"`{label}`" in row for label in metric.labels)


def test_every_query_names_a_series_that_exists_with_labels_that_it_has() -> None:
    for query in QUERIES:
        names = set(re.findall(r"\btrtspec_[a-z_]+", query))
        assert names
        assert names <= SERIES.keys()
        for name in names:
            grouped = re.findall(rf"by \(([a-z, ]+)\) \(rate\({name}\b", query)
            matched = re.findall(rf"{name}\{{([^}}]*)\}}", query)
            labels = {label.strip() for group in grouped for label in group.split(",")}
            labels |= {label for group in matched for label in re.findall(r"([a-z_]+)[!=]", group)}
            assert labels <= {*SERIES[name], *COMMON_LABELS}, query


def test_every_metric_has_a_place_on_the_dashboard() -> None:
    shown = " ".join(QUERIES)
    for metric in METRICS:
        assert any(name in shown for name in series(metric)), metric.name


def test_panels_do_not_overlap() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in dashboard()["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + w <= 24 for x, _, w, _ in places)


def test_brackets_are_balanced() -> None:
    for query in QUERIES:
        for opening, closing in ("()", "{}", "[]"):
            assert query.count(opening) == query.count(closing)
