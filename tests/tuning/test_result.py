"""What is recommended from what was measured, without a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.loadtest.fakes import MS, record
from trtspec.loadtest import RunOptions
from trtspec.loadtest.prompts import load_prompts
from trtspec.reports.tuning_page import render_tuning_html
from trtspec.tuning import TuneOptions
from trtspec.tuning.plan import CONFIRM
from trtspec.tuning.result import result_of
from trtspec.tuning.search import Search, first_state

# (concurrency, draft length or None for the baseline) → ms of a token
Pace = dict[tuple[int, int | None], float]


def search_of(pace: Pace, folder: Path, *, pairs: int = 12) -> Search:
    """A finished search of two loads and two lengths in which every token took as long as `pace` says."""
    options = TuneOptions(RunOptions(concurrency=(1, 4)), lengths=(2, 6))
    state = first_state(options)
    search = Search(options, load_prompts("builtin").prompts, state, folder, folder / "none")
    clock = 0.0
    for (concurrency, length), ms in pace.items():
        for number in range(pairs):
            for base in (0, CONFIRM):
                step = ms * (1 + 0.01 * (number % 3))
                chunks = [(step * (at + 1), 1) for at in range(10)]
                fields = {"concurrency": concurrency, "draft_length": length, "block": base + number}
                arm = "baseline" if length is None else "speculative"
                name = f"p{base + number}"
                search.keep(record(chunks, arm=arm, prompt=name, pair_id=name, start_ms=clock, **fields))
                clock += step * 12
    for label, level in state.levels.items():
        concurrency = int(label.split()[1])
        level.leader = min(("baseline", "2", "6"), key=lambda name: pace[concurrency, _length(name)])
        level.settled = True
    state.phase = "finished"
    return search


def _length(name: str) -> int | None:
    return None if name == "baseline" else int(name)


FALLING: Pace = {(1, None): 10, (1, 2): 8, (1, 6): 5, (4, None): 10, (4, 2): 8, (4, 6): 14}


def test_a_schedule_follows_the_winners(tmp_path: Path) -> None:
    data = result_of(search_of(FALLING, tmp_path))
    assert data["recommendation"]["lengths"] == {"1": 6, "4": 2}
    assert data["recommendation"]["values"] == {"policy": "schedule", "draft_length": 6, "schedule": {1: 6, 4: 2}}
    assert data["warnings"] == []
    confirmed = data["levels"][0]["confirmed"]
    assert confirmed["speedup"]["estimate"] == pytest.approx(2)
    assert confirmed["user_tokens_per_second"]["estimate"] == pytest.approx(198, rel=0.02)


def test_the_page_says_the_same_from_the_file(tmp_path: Path) -> None:
    data = result_of(search_of(FALLING, tmp_path))
    page = render_tuning_html(json.loads(json.dumps(data)))
    assert page == render_tuning_html(data)
    shown = yaml.safe_load(page.split("<pre>")[1].split("</pre>")[0])
    assert shown["speculation"]["schedule"] == {1: 6, 4: 2}


def test_lengths_that_would_grow_with_the_load_are_evened_out_and_it_is_said(tmp_path: Path) -> None:
    data = result_of(search_of({**FALLING, (1, 6): 8.2, (4, 6): 4}, tmp_path))
    assert data["recommendation"]["lengths"] == {"1": 6, "4": 6}
    assert data["warnings"] == [
        "concurrency 1: 6 is recommended instead of 2, because drafts may not get longer with the load."
    ]


def test_a_load_where_nothing_pays_gets_no_drafts(tmp_path: Path) -> None:
    data = result_of(search_of({**FALLING, (4, 2): 11}, tmp_path))
    assert data["recommendation"]["values"]["schedule"] == {1: 6}
    assert data["levels"][1]["winner"] == "baseline"
    assert data["levels"][1]["confirmed"] is None


def test_a_winner_that_is_not_shown_to_be_faster_is_not_recommended(tmp_path: Path) -> None:
    search = search_of({**FALLING, (1, 6): 20, (1, 2): 9.99, (4, 2): 20, (4, 6): 20}, tmp_path, pairs=6)
    noisy = [r for r in search.records if r.draft_length == 2 and (r.block or 0) >= CONFIRM]
    assert noisy
    # on fresh prompts it was slower
    search.records = [r for r in search.records if r not in noisy]
    for number, old in enumerate(noisy):
        chunks = [((11 + number) * (at + 1), 1) for at in range(10)]
        start = old.start_ns / MS
        search.keep(
            record(
                chunks, arm="speculative", prompt=old.prompt_id, pair_id=old.pair_id, start_ms=start,
                concurrency=old.concurrency, draft_length=2, block=old.block,
            )
        )  # fmt: skip
    data = result_of(search)
    assert data["recommendation"]["values"] is None
    assert any("draft length 2 is not shown to be faster than none" in text for text in data["warnings"])
