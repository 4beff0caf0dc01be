"""Whole searches against scripted servers that speak Triton's protocol and whose best length is known."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.loadtest.servers import chat_server
from tests.tuning.pair import PACE, paced_pair
from tests.wire.fake_triton import FakeTriton
from trtspec.errors import UsageError
from trtspec.files import read_json, write_json
from trtspec.loadtest.reading import read_records
from trtspec.progress import SilentReporter
from trtspec.reports.tuning_page import render_tuning_html
from trtspec.spec import SpecFile
from trtspec.tuning import TuneOptions, TuneResult, TuneStatus, resume, tune, tune_options

LENGTHS = tuple(PACE)


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    return toy_spec(tmp_path_factory.mktemp("toy"))


def options(pair: tuple[FakeTriton, FakeTriton], out: Path, spec_file: SpecFile, **values: Any) -> TuneOptions:
    urls = {"baseline": pair[0].url, "speculative": pair[1].url}
    own: dict[str, Any] = {"lengths": LENGTHS, "budget": 15.0, **values}
    sizes: dict[str, Any] = {name: own.pop(name) for name in ("concurrency", "seed") if name in own}
    small: dict[str, Any] = {"concurrency": (1,), "max_tokens": 12, "warmup": 1, "timeout": 5.0, "out": out, **sizes}
    return tune_options(spec_file, own, urls=urls, **small)


def search(spec_file: SpecFile, out: Path, **values: Any) -> TuneResult:
    with paced_pair() as pair:
        return tune(spec_file, options(pair, out, spec_file, **values), SilentReporter())


@pytest.fixture(scope="module")
def found(spec_file: SpecFile, tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    """One whole search at two loads."""
    return search(spec_file, tmp_path_factory.mktemp("run") / "tune", concurrency=(1, 3), budget=14.0)


def level(result: TuneResult, place: int) -> Any:
    return result.data["levels"][place]


def test_the_best_length_is_found_and_confirmed_on_fresh_prompts(found: TuneResult) -> None:
    assert found.failure is None
    assert found.data["finished"]
    alone = level(found, 0)
    assert alone["winner"] == "2"
    assert alone["confirmed"]["shown"]
    # a token each 8 ms against three in 12, and 4 ms to the first
    assert 1 < alone["confirmed"]["speedup"]["low"] < alone["confirmed"]["speedup"]["high"] < 3
    assert found.data["recommendation"]["lengths"]["1"] == 2


def test_clear_losers_go_and_are_measured_less(found: TuneResult) -> None:
    cells = {cell["candidate"]: cell for cell in level(found, 0)["cells"]}
    assert cells["8"]["dropped"] is not None
    assert cells["8"]["pairs"] <= cells["2"]["pairs"]
    assert cells["8"]["speedup"]["estimate"] < 1 < cells["2"]["speedup"]["estimate"]


def test_the_race_and_the_confirmation_share_no_prompt(found: TuneResult) -> None:
    records = [r for r in read_records(found.path / "tuning.jsonl") if r.excluded is None]
    seen = {r.prompt_id for r in records if (r.block or 0) < 1_000_000}
    fresh = {r.prompt_id for r in records if (r.block or 0) >= 1_000_000}
    assert seen and fresh and not seen & fresh  # noqa: PT018 - one thing


def test_every_candidate_answers_the_same_prompts_of_a_block(found: TuneResult) -> None:
    records = [r for r in read_records(found.path / "tuning.jsonl") if r.excluded is None]
    first = [r for r in records if r.load == "concurrency 1" and r.block == 0]
    assert len({r.prompt_id for r in first}) == 1
    assert {r.draft_length for r in first if r.arm == "speculative"} == set(LENGTHS)
    assert sum(r.arm == "baseline" for r in first) == 1
    # the order changes from block to block
    orders = Counter(
        tuple(r.draft_length for r in records if r.load == "concurrency 1" and r.block == b) for b in (0, 2)
    )
    assert len(orders) == 2


def test_the_folder_is_no_run_that_report_would_take(found: TuneResult) -> None:
    names = {path.name for path in found.path.iterdir()}
    assert {"provenance.json", "state.json", "tuning.json", "tuning.jsonl"} <= names
    assert "requests.jsonl" not in names
    assert read_json(found.path / "tuning.json") == json.loads(json.dumps(found.data))


def test_the_page_shows_every_chart(found: TuneResult) -> None:
    html = render_tuning_html(found.data)
    assert html == render_tuning_html(json.loads(json.dumps(found.data)))
    for chart in ("heat", "pareto", "confirmed"):
        assert f'id="{chart}"' in html
    assert "http://" not in html.split('id="plotly"')[0].replace("http://www.w3.org", "")


def test_without_time_for_more_the_first_rung_decides(spec_file: SpecFile, tmp_path: Path) -> None:
    result = search(spec_file, tmp_path / "tune", budget=0.5)
    assert result.data["finished"]
    assert result.data["rungs"] == 1
    assert len(read_records(tmp_path / "tune" / "tuning.jsonl")) < 200


def test_where_nothing_pays_the_baseline_is_recommended(spec_file: SpecFile, tmp_path: Path) -> None:
    with paced_pair({1: (1, 16.0), 2: (1, 30.0)}) as pair:
        chosen = options(pair, tmp_path / "tune", spec_file, lengths=(1, 2), budget=2.0)
        result = tune(spec_file, chosen, SilentReporter())
    assert level(result, 0)["winner"] == "baseline"
    assert level(result, 0)["confirmed"] is None
    assert result.data["recommendation"]["values"] is None
    assert "serve the baseline" in result.data["verdict"]


def test_the_deployments_own_policy_is_a_candidate(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, speculation={"draft_length": 4, "policy": "adaptive"})
    with paced_pair({1: (2, 9.0), 2: (3, 6.0)}) as pair:
        chosen = options(pair, tmp_path / "tune", spec_file, lengths=(1,), budget=2.0)
        assert chosen.candidates == ("1", "adaptive")
        result = tune(spec_file, chosen, SilentReporter())
    assert level(result, 0)["winner"] == "adaptive"
    assert result.data["recommendation"]["values"] == {}
    assert result.data["verdict"].startswith("Keep policy adaptive")


class Interrupter:
    """Ctrl-C after some statuses."""

    def __init__(self, after: int) -> None:
        self.statuses: list[TuneStatus] = []
        self._after = after

    def __call__(self, status: TuneStatus) -> None:
        self.statuses.append(status)
        if len(self.statuses) == self._after:
            threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_an_interrupted_search_goes_on_where_it_was(spec_file: SpecFile, tmp_path: Path) -> None:
    out = tmp_path / "tune"
    with paced_pair() as pair:
        watch = Interrupter(12)
        result = tune(spec_file, options(pair, out, spec_file, budget=3.0), SilentReporter(), watch)
        assert result.interrupted
        assert not result.data["finished"]
        state = read_json(out / "state.json")
        assert 1 <= len(state["done"]) < 8
        kept = (out / "tuning.jsonl").read_bytes()[: state["bytes"]]
        after: list[TuneStatus] = []
        again = resume(spec_file, out, SilentReporter(), after.append)
    assert again.data["finished"]
    assert again.failure is None
    assert (out / "tuning.jsonl").read_bytes().startswith(kept)
    assert after[0].spent > watch.statuses[0].spent
    # no block is measured twice by a candidate
    sent = Counter(
        (r.load, r.block, r.arm, r.draft_length, r.pair_id)
        for r in read_records(out / "tuning.jsonl")
        if r.excluded is None
    )
    assert set(sent.values()) == {1}


def test_a_folder_without_a_search_cannot_go_on(spec_file: SpecFile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no search to go on with"):
        resume(spec_file, tmp_path, SilentReporter())
    write_json(tmp_path / "state.json", {"schema": 1, "levels": 3})
    with pytest.raises(UsageError, match="no search to go on with"):
        resume(spec_file, tmp_path, SilentReporter())


def test_progress_tells_rung_load_and_leaders(spec_file: SpecFile, tmp_path: Path) -> None:
    statuses: list[TuneStatus] = []
    with paced_pair() as pair:
        tune(spec_file, options(pair, tmp_path / "tune", spec_file, budget=1.5), SilentReporter(), statuses.append)
    assert {status.phase for status in statuses} == {"search", "confirm"}
    assert statuses[-1].levels["concurrency 1"].leader is not None
    assert [s.spent for s in statuses] == sorted(s.spent for s in statuses)
    json.dumps(statuses[-1].as_json())


def test_a_server_that_takes_no_length_is_refused(spec_file: SpecFile, tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        urls = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        chosen = tune_options(None, {"lengths": (2,)}, urls=urls, out=tmp_path / "tune")
        with pytest.raises(UsageError, match="takes no draft length"):
            tune(None, chosen, SilentReporter())
    del spec_file


def test_a_length_beyond_the_engine_is_refused(spec_file: SpecFile) -> None:
    with pytest.raises(UsageError, match="more than the engine's 8"):
        tune_options(spec_file, {"lengths": (4, 12)})
    assert tune_options(spec_file, {}).lengths == (1, 2, 3, 4, 5, 6, 8)
