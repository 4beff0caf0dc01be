from __future__ import annotations

import re

import pytest

from tests.reports.conftest import report_of
from tests.reports.sample import Shape, make_records
from trtspec.reports import ReportData
from trtspec.reports.answers import prompt_views
from trtspec.reports.formats import display_unit, number_text, percent_text
from trtspec.reports.hero import build_hero
from trtspec.reports.rows import pair_acceptance, pair_speedups, samples, seconds, shown_rows
from trtspec.reports.warning_places import Warnings, sort_warnings


def test_pairs_are_those_of_the_summary(sample: ReportData) -> None:
    assert len(sample.pairs) == sum(row["pairs"] for row in sample.comparison["by_concurrency"].values())
    table, pairs = sample.table, sample.pairs
    same = int((table.text_hash[pairs.baseline] == table.text_hash[pairs.speculative]).sum())
    assert same == sample.comparison["equality"]["identical"]
    assert len(pairs) - same == sample.comparison["equality"]["diverged"]


def test_times_of_single_requests_make_the_summarys_medians(sample: ReportData) -> None:
    for level in sample.levels:
        for arm in sample.arms:
            for name in ("time_to_first_token", "time_per_output_token", "request_latency", "max_stall"):
                values = samples(sample.table, name, arm=arm, load=level.label)
                middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
                assert middle == pytest.approx(level.part.metric(arm, name)["p50"])


def test_pair_speedup_is_the_ratio_of_latencies() -> None:
    data = report_of(make_records(Shape(prompts=1, levels=(1,), failing=0, diverging=0)))
    (speedup,) = pair_speedups(data.pairs)
    latency = seconds(data.table, "request_latency")
    assert speedup == latency[data.pairs.baseline[0]] / latency[data.pairs.speculative[0]]
    (accepted,) = pair_acceptance(data.pairs)
    assert accepted == pytest.approx(data.acceptance["acceptance_rate"])


def test_excluded_requests_are_not_shown() -> None:
    lines = make_records(Shape(prompts=8, levels=(1,), failing=0))
    for line in lines[:4]:
        line["excluded"] = "warm-up"
    data = report_of(lines)
    assert len(data.shown) == 12
    assert len(data.pairs) == 6


def test_answers_that_differ_are_shown_first(sample: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.reports.rows._SHOWN_ROWS", 24)
    rows = shown_rows(sample.table, sample.pairs)
    shown = {record.prompt_id for record in sample.table.records(rows)}
    assert len(rows) == 24
    assert len(shown) == 3
    apart = sample.table.text_hash[sample.pairs.baseline] != sample.table.text_hash[sample.pairs.speculative]
    differing = set(sample.table.names_of(sample.table.prompt[sample.pairs.baseline[apart]]))
    assert differing < shown


def test_a_page_holds_no_more_text_than_it_may(sample: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.reports.rows._SHOWN_CHARACTERS", 10)
    assert len(shown_rows(sample.table, sample.pairs)) == 8


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


def test_warnings_stand_where_their_caveat_says() -> None:
    caveats = [
        {"code": "few-pairs", "text": "few pairs (12 at concurrency 1)", "section": "speed"},
        {"code": "temperature", "text": "temperature 0.7: answers are samples", "section": "outputs"},
        {"code": "new", "text": "of a section that is unknown here", "section": "moon"},
    ]
    warnings = ["requests.jsonl: the last line is cut off", *(caveat["text"] for caveat in caveats)]
    places = sort_warnings({"warnings": warnings, "caveats": caveats})
    assert places.speed == ("Few pairs (12 at concurrency 1).",)
    assert places.outputs == ("Temperature 0.7: answers are samples.",)
    assert len(places.general) == 2


def test_every_warning_of_a_run_has_a_caveat_with_a_known_section(sample: ReportData) -> None:
    caveats = sample.comparison["caveats"]
    assert [caveat["text"] for caveat in caveats] == sample.comparison["warnings"]
    assert len({caveat["code"] for caveat in caveats}) > 1
    assert all(hasattr(Warnings(), caveat["section"]) for caveat in caveats)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", caveat["code"]) for caveat in caveats)


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
