from __future__ import annotations

import pytest

from tests.reports.conftest import records_of, report_of
from tests.reports.sample import Shape, make_records
from trtspec.loadtest.pairing import make_pairs
from trtspec.loadtest.selection import group_records
from trtspec.reports import ReportData
from trtspec.reports.answers import prompt_views
from trtspec.reports.data import Pair
from trtspec.reports.formats import display_unit, number_text, percent_text
from trtspec.reports.hero import build_hero
from trtspec.reports.warning_places import sort_warnings


def _complete(data: ReportData) -> list[Pair]:
    return [pair for pair in data.pairs if pair.complete]


def test_pairs_are_those_of_the_load_test() -> None:
    lines = make_records(Shape(prompts=10, levels=(1, 2)))
    lines += [{**line, "start_ns": line["start_ns"] + 10**12, "end_ns": line["end_ns"] + 10**12} for line in lines[:8]]
    for line in lines[-8:]:
        line["chunks"] = [{**chunk, "t_ns": chunk["t_ns"] + 10**12} for chunk in line["chunks"]]
    theirs = make_pairs(group_records(records_of(lines)))
    ours = _complete(report_of(lines))
    assert len(ours) == len(theirs) == 23
    assert sorted((p.prompt_id, p.concurrency, p.identical) for p in ours) == sorted(
        (p.baseline.prompt_id, p.concurrency, p.baseline.text == p.speculative.text) for p in theirs
    )


def test_equality_agrees_with_the_summary(sample: ReportData) -> None:
    equality = sample.comparison["equality"]
    assert sum(pair.identical is True for pair in sample.pairs) == equality["identical"]
    assert sum(pair.identical is False for pair in sample.pairs) == equality["diverged"]


def test_excluded_requests_are_in_no_pair() -> None:
    lines = make_records(Shape(prompts=8, levels=(1,), failing=0))
    for line in lines[:4]:
        line["excluded"] = "warm-up"
    data = report_of(lines)
    assert [request.status for request in data.requests][:4] == ["excluded"] * 4
    assert len(data.pairs) == 6


def test_pair_speedup_is_the_ratio_of_latencies() -> None:
    data = report_of(make_records(Shape(prompts=1, levels=(1,), failing=0, diverging=0)))
    (pair,) = data.pairs
    assert pair.baseline is not None
    assert pair.speculative is not None
    assert pair.baseline.latency is not None
    assert pair.speculative.latency is not None
    assert pair.speedup == pair.baseline.latency / pair.speculative.latency


def test_prompts_group_levels_and_show_equal_answers_once(sample: ReportData) -> None:
    views, note = prompt_views(sample)
    assert note == ""
    same = next(view for view in views if view.same and view.state == "identical")
    assert [answer.title for answer in same.answers] == ["both arms"]
    assert len(same.levels.rows) == 8
    apart = next(view for view in views if not view.same)
    baseline, speculative = apart.answers
    assert baseline.common == speculative.common
    assert speculative.rest.startswith("otherwise")


def test_hero_places_everything_on_the_scale(sample: ReportData) -> None:
    hero = build_hero(sample)
    assert [row.label for row in hero.rows] == [f"concurrency {level}" for level in (1, 2, 4, 8)]
    assert 0 <= hero.one <= 100
    for row in hero.rows:
        assert 0 <= row.low <= row.estimate <= row.low + row.width + 0.02 <= 100.02
    assert hero.rows[0].estimate > hero.one > hero.rows[-1].estimate


@pytest.mark.parametrize(
    ("warning", "place"),
    [
        ("2 of the baseline arm's requests failed; they are in no latency", "general"),
        ("few pairs (12 at concurrency 1): intervals are rough below 20", "speed"),
        ("few blocks (2 at concurrency 4): requests of a block ran together", "speed"),
        ("the counters of 3 requests contradict their acceptance histogram", "acceptance"),
        ("the baseline arm answers in one piece: time to first token and all chunk metrics are void", "metrics"),
        ("temperature 0.7: answers are samples, so arms may differ without a fault", "outputs"),
        ("something that nobody has thought of yet", "general"),
    ],
)
def test_warnings_stand_beside_what_they_are_about(warning: str, place: str) -> None:
    (text,) = getattr(sort_warnings({"warnings": [warning]}), place)
    assert text == f"{warning[0].upper()}{warning[1:]}."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.01234, "0.0123"),
        (0.123, "0.123"),
        (4.5, "4.50"),
        (53.31, "53.3"),
        (130.4, "130"),
        (1320.0, "1 320"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert number_text(value) == text.replace(" ", "\u202f" if "\u202f" in number_text(value) else " ")


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.004, "0.4 %"), (0.614, "61 %"), (0.995, "99.5 %"), (1, "100 %")]
)
def test_shares_are_never_rounded_to_all_or_nothing(share: float, text: str) -> None:
    assert percent_text(share) == text


def test_seconds_are_shown_in_milliseconds_up_to_ten() -> None:
    assert display_unit("s", [0.05, None]).name == "ms"
    assert display_unit("s", [12.0]).name == "s"
    assert display_unit("tokens/s", [12.0]).factor == 1
