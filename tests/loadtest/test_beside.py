"""Files beside the records in shapes that nobody expects: left out with a word, never the end of a report."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.loadtest.fakes import line, write_lines
from tests.loadtest.servers import chat_server, pace
from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, read_run, resume, run, run_options, summarise_run
from trtspec.loadtest.beside import read_beside
from trtspec.loadtest.options import options_from_json
from trtspec.progress import SilentReporter

ODD: tuple[Any, ...] = (None, -1, 2.5, "x", [], [1], {}, {"a": [1]}, True)
URLS: Any = {"baseline": "http://a:1", "speculative": "http://b:1"}


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "\ufeff{}", "x", "null", '"a"'])
def test_what_is_no_json_object_is_left_out(tmp_path: Path, text: str) -> None:
    told: list[str] = []
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    assert read_beside(tmp_path / "a.json", told.append) == {}
    assert len(told) == 1
    assert read_beside(tmp_path / "none.json", told.append) == {}
    assert len(told) == 1


def test_numbers_that_json_has_not_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"client": {"cpu_share": NaN, "workers": 1e999}, "x": -Infinity}')
    assert read_beside(tmp_path / "a.json") == {"client": {"cpu_share": None, "workers": None}, "x": None}


def test_what_a_run_writes_is_read_as_it_is_and_any_other_shape_gives_a_summary(tmp_path: Path) -> None:
    with chat_server(pace(1, 1)) as one, chat_server(pace(1, 1)) as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(urls=urls, out=tmp_path / "run", concurrency=(1,), requests=4, max_tokens=3)
        path = run(None, options, SilentReporter()).path
    for name in ("provenance.json", "measurement.json"):
        whole = json.loads((path / name).read_text())
        assert read_beside(path / name) == whole
        for key in whole:
            for odd in ODD:
                changed = copy.deepcopy(whole)
                changed[key] = odd
                (path / name).write_text(json.dumps(changed))
                json.dumps(summarise_run(read_run(path)), allow_nan=False)
        (path / name).write_text(json.dumps(whole))


@pytest.mark.parametrize("odd", ODD)
def test_parts_of_another_shape_are_left_out(tmp_path: Path, odd: Any) -> None:
    lag = {"client": {"loop_lag": odd}, "servers": [{"arm": odd}], "telemetry": [{"growth": odd, "load": odd}]}
    more = {"options": {"temperature": odd, "slo": odd}, "targets": {"baseline": odd}, "cold_start": {"baseline": odd}}
    (tmp_path / "run").mkdir()
    write_lines(tmp_path / "run" / "requests.jsonl", [line(), line(arm="speculative")])
    (tmp_path / "run" / "measurement.json").write_text(json.dumps({**lag, **more}))
    (tmp_path / "run" / "provenance.json").write_text(json.dumps(more))
    json.dumps(summarise_run(read_run(tmp_path / "run")), allow_nan=False)


@pytest.mark.parametrize("name", sorted(RunOptions().as_json()))
def test_options_of_another_kind_are_not_gone_on_with(tmp_path: Path, name: str) -> None:
    good = json.loads(json.dumps(RunOptions(urls=URLS).as_json()))
    assert options_from_json(good) == RunOptions(urls=URLS)
    for odd in (*ODD, 10**30, -(10**30)):
        with contextlib.suppress(UsageError):
            json.dumps(options_from_json({**good, name: odd}).as_json(), allow_nan=False)
    (tmp_path / "provenance.json").write_text(json.dumps({"options": {**good, name: {"a": [1]}}, "prompts": 3}))
    with pytest.raises(UsageError):
        resume(None, tmp_path, SilentReporter())


@pytest.mark.parametrize(
    "given",
    [{"requests": 10**12}, {"burst": 10**9}, {"duration": 1e300}, {"workers": 999}, {"timeout": 1e30}, {"seed": 2**70}],
)
def test_options_beyond_reason_are_refused_wherever_they_come_from(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        run_options(None, urls=URLS, **given)
