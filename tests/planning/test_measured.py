from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.planning.pairs import metadata_spec
from tests.reports.sample import Shape, make_records, sample_provenance, write_run
from trtspec.errors import RecordsError
from trtspec.planning.acceptance import Acceptance
from trtspec.planning.measured import Level, implied_costs, measured_run
from trtspec.planning.plan import Plan, PlanOptions, make_plan
from trtspec.reports.measured import read_measured

FAST = Level(1, 1.5, 1.4, 1.6, 1.6, 0.010, 0.00625)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"), make_records())


def test_a_run_gives_acceptance_by_position_and_levels(run: Path) -> None:
    found = read_measured(run)
    assert found.acceptance is not None
    assert found.acceptance.draft_length == 4
    assert len(found.acceptance.positions) == 4
    assert [level.concurrency for level in found.levels] == [1, 2, 4, 8]
    assert found.output_tokens is not None
    assert all(level.baseline_tpot for level in found.levels)
    assert found.loses_at == (8,)


def test_summary_and_records_say_the_same(run: Path, tmp_path: Path) -> None:
    from trtspec.loadtest.run_folder import read_run, summarise_run

    path = tmp_path / "summary.json"
    path.write_text(json.dumps(summarise_run(read_run(run))))
    from_records, from_summary = read_measured(run), read_measured(path)
    assert from_summary.levels == from_records.levels
    assert from_summary.acceptance is not None
    assert from_records.acceptance is not None
    assert from_summary.acceptance.rate == from_records.acceptance.rate
    assert read_measured(tmp_path).levels == from_records.levels


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"arms": 3, "acceptance": {}}'])
def test_files_that_are_no_summary_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(RecordsError) as caught:
        read_measured(path)
    assert caught.value.where == str(path)


ACCEPTANCE = {"acceptance_rate": 0.5, "acceptance_histogram": [2, 2, 2, 2, 2], "per_position": [0.8, 0.6, 0.4, 0.2]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"acceptance_rate": -0.5}, "shares from 0 to 1"),
        ({"acceptance_rate": float("nan")}, "no acceptance rate"),
        ({"acceptance_rate": 10**400}, "no acceptance rate"),
        ({"acceptance_rate": True}, "no acceptance rate"),
        ({"acceptance_histogram": 3}, "no acceptance histogram"),
        ({"acceptance_histogram": [1] * 70}, "no acceptance histogram"),
        ({"per_position": [0.2, 0.8]}, "fall from position to position"),
        ({"per_position": ["x"]}, "shares from 0 to 1"),
        ({"per_position": [None]}, "shares from 0 to 1"),
        ({"per_position": 0.5}, "shares from 0 to 1"),
    ],
)
def test_an_acceptance_that_cannot_be_is_left_out_with_the_reason(change: dict[str, Any], reason: str) -> None:
    good = measured_run(Path("run"), {"arms": {}, "acceptance": ACCEPTANCE})
    assert good.acceptance == Acceptance(0.5, 4, "measured", (0.8, 0.6, 0.4, 0.2), "run")
    found = measured_run(Path("run"), {"arms": {}, "acceptance": {**ACCEPTANCE, **change}})
    assert found.acceptance is None
    assert reason in str(found.reason)


def test_levels_and_figures_that_cannot_be_are_left_out() -> None:
    odd = {
        "speedup": {"latency_per_token": {"estimate": 0, "low": "x", "high": float("inf")}, "time_per_output_token": 3}
    }
    compared = {"1": odd, "01": odd, "9" * 5000: odd, "²": odd, "x": odd, "0": odd, "2": 7}
    arms = {
        "baseline": {"by_concurrency": {"1": {"time_per_output_token": {"mean": -1}}, "2": [0.5]}},
        "speculative": 3,
    }
    found = measured_run(Path("run"), {"arms": arms, "comparison": {"by_concurrency": compared, "verdict": 3}})
    assert found.levels == (Level(1, *[None] * 6), Level(2, *[None] * 6))
    assert found.verdict is None


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="no such file"):
        read_measured(tmp_path / "nothing")


def test_a_server_without_counters_has_no_acceptance_and_says_so(tmp_path: Path) -> None:
    found = read_measured(write_run(tmp_path, make_records(Shape(server=False))))
    assert found.acceptance is None
    assert found.reason


def test_implied_costs_lead_back_to_the_measured_speedup() -> None:
    acceptance = Acceptance(0.5, 4, "measured")
    found = implied_costs(FAST, acceptance)
    assert found is not None
    assert found["round_in_target_steps"] == pytest.approx(3.0 / 1.6)
    ratio = found["cost_ratio"]
    assert acceptance.tokens_per_round(4) / (4 * ratio + 1) == pytest.approx(1.6)
    needed = Acceptance(found["break_even_acceptance_rate"], 4, "option")
    assert needed.tokens_per_round(4) == pytest.approx(4 * ratio + 1)


def test_a_draft_as_dear_as_the_target_breaks_even_nowhere() -> None:
    slow = Level(1, 0.3, 0.2, 0.4, 0.3, 0.010, 0.033)
    found = implied_costs(slow, Acceptance(0.5, 4, "measured"))
    assert found is not None
    assert found["break_even_acceptance_rate"] is None


def test_nothing_is_implied_without_an_acceptance() -> None:
    assert implied_costs(FAST, None) is None


def test_on_a_cpu_the_run_itself_tells_what_a_round_costs(run: Path, tmp_path: Path) -> None:
    plan = make_plan(toy_spec(tmp_path), PlanOptions(measured=read_measured(run)))
    data = plan.to_json()["measured"]
    assert plan.forecast is None
    assert "for GPUs" in data["prediction_reason"]
    assert data["loses_at"] == [8]
    assert data["ideal_speedup"] > max(level["measured"]["speedup"] for level in data["levels"])
    for level in data["levels"]:
        assert level["predicted"] is None
        assert level["error"] is None
        assert level["implied"]["cost_ratio"] > 0
    assert "it loses at 8" in plan.verdict


@pytest.fixture(scope="module")
def predicted(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return make_plan(metadata_spec(tmp_path_factory.mktemp("pair")), PlanOptions(measured=read_measured(run)))


def test_on_a_gpu_prediction_and_error_stand_beside_the_measurement(predicted: Plan) -> None:
    assert predicted.forecast is not None
    assert predicted.forecast.acceptance is not None
    assert predicted.forecast.acceptance.origin == "measured"
    for level in predicted.to_json()["measured"]["levels"]:
        for name, error in level["error"].items():
            assert error == pytest.approx(level["predicted"][name] / level["measured"][name] - 1)


def test_a_prediction_is_made_under_the_traffic_of_the_run(predicted: Plan) -> None:
    assert predicted.run is not None
    assert predicted.forecast is not None
    outputs = predicted.run.output_tokens
    assert outputs is not None
    assert outputs != predicted.forecast.model.traffic.output_tokens
    level = predicted.to_json()["measured"]["levels"][0]
    usual = predicted.forecast.model.baseline(1).time_per_output_token
    # the same steps over a shorter context
    assert level["predicted"]["baseline_time_per_output_token"] == pytest.approx(usual, rel=0.02)
    assert level["predicted"]["baseline_time_per_output_token"] != usual


def test_a_run_of_another_spec_is_pointed_out(tmp_path: Path) -> None:
    provenance = sample_provenance() | {"spec": {"name": "other", "runtime": "torch"}}
    folder = write_run(tmp_path / "run", make_records(), provenance)
    plan = make_plan(metadata_spec(tmp_path), PlanOptions(measured=read_measured(folder)))
    assert any("name other, this plan llama70b" in text for text in plan.run_warnings)
