"""Plans where drafts come from the text: no second model in memory, placement or time, and what that leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.builders import toy_spec
from tests.building.inspection.engines import engine_folder
from tests.planning.pairs import metadata_spec
from trtspec.cli.plan import command
from trtspec.planning.measured import MeasuredRun
from trtspec.planning.plan import Plan, PlanOptions, make_plan
from trtspec.planning.values import value_origins


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


def planned(folder: Path, draft: dict[str, Any], **overrides: Any) -> Plan:
    return make_plan(metadata_spec(folder, draft=draft, **overrides), PlanOptions(acceptance_rate=0.5, price=3.0))


def test_there_is_no_draft_in_memory_and_placement(folder: Path) -> None:
    pair, alone = (planned(folder, draft) for draft in ({"checkpoint": "draft"}, {"method": "ngram"}))
    assert pair.memory is not None
    assert alone.memory is not None
    assert set(alone.memory.kv_cache) == {"target", "baseline"}
    assert {item.role for gpu in alone.memory.per_gpu for item in gpu.items} == {"target", "server"}
    assert alone.memory.placement.launch.mode == "leader"
    assert alone.memory.placement.launch == alone.memory.placement.launches["baseline"]
    more = [plan.memory.kv_cache["target"].max_tokens or 0 for plan in (pair, alone) if plan.memory]
    assert more[0] < more[1]
    data = json.loads(json.dumps(alone.to_json(), allow_nan=False))
    assert data["pair"] is None
    assert "draft" not in data["placement"]
    assert data["cost"]["draft_memory_share"] is None
    assert not [key for key in data["values"] if key.startswith("engines.draft")]


def test_drafts_cost_nothing_but_their_verification(folder: Path) -> None:
    pair, alone = (planned(folder, draft) for draft in ({"checkpoint": "draft"}, {"method": "ngram"}))
    assert pair.forecast is not None
    assert alone.forecast is not None
    ours, theirs = alone.forecast.model.round_time(1, 4), pair.forecast.model.round_time(1, 4)
    assert (ours.draft, ours.verify, 2 * ours.calls) == (0.0, theirs.verify, theirs.calls)
    assert alone.forecast.model.cost_ratio(1) == 0
    assert alone.forecast.cell(1, 4).speedup > pair.forecast.cell(1, 4).speedup  # type: ignore[operator]
    data = alone.to_json()["speedup"]
    assert all(row["draft_step"] is None for row in data["baseline"])
    assert "the most there can be" in data["caveat"]


def test_a_lookup_before_a_model_is_planned_as_the_pair_and_says_what_that_leaves_out(folder: Path) -> None:
    pair, both = (planned(folder, {"checkpoint": "draft", "method": method}) for method in ("model", "lookup"))
    assert pair.memory is not None
    assert both.memory is not None
    assert both.memory.kv_cache == pair.memory.kv_cache
    assert pair.to_json()["speedup"]["caveat"] is None
    assert "costs no draft passes" in both.to_json()["speedup"]["caveat"]
    rows = value_origins(both.spec_file, both.memory)
    assert rows["draft.lookup_length"]["value"] == 8
    assert rows["draft.lookup_length"]["origin"] == "derived"


@pytest.mark.parametrize("runtime", ["torch", "tensorrt_llm"])
def test_the_command_shows_it(tmp_path: Path, runtime: str) -> None:
    spec_file = (toy_spec if runtime == "torch" else metadata_spec)(tmp_path, draft={"method": "ngram"})
    for options in ([], ["--detail"], ["--output", "json"]):
        shown = CliRunner().invoke(command, [str(spec_file.path), *options])
        assert shown.exit_code == 0, shown.output
        assert "draft weights" not in shown.stdout


def test_a_run_says_nothing_of_steps_without_a_draft(folder: Path) -> None:
    run = MeasuredRun(Path("run"), None, "no counters", ())
    for draft, said in (({"method": "ngram"}, True), ({"checkpoint": "draft"}, False)):
        found = make_plan(metadata_spec(folder, draft=draft), PlanOptions(measured=run))
        assert any("held none" in text for text in found.run_warnings) == said


def test_an_engine_alone_can_be_planned(tmp_path: Path) -> None:
    engine_folder(tmp_path / "built", "1.2.1")
    engines = {"target": {"engine": "built"}, "baseline": {"engine": "built"}}
    spec_file = metadata_spec(tmp_path, draft={"method": "ngram"}, build=None, **engines)
    found = make_plan(spec_file)
    assert found.memory is not None
    assert found.memory.inputs.max_seq_len == 8192
