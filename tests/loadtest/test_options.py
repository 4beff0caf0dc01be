"""What the spec and the command line make of a run's options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.loadtest.fakes import write_lines
from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, run_options
from trtspec.loadtest.options import options_from_json
from trtspec.loadtest.what import prepare

TWO: Any = {"baseline": "http://a:1", "speculative": "http://b:2"}


def labels(options: RunOptions) -> list[str]:
    return [traffic.label for traffic in prepare(None, options).shape.levels]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["concurrency 1", "concurrency 4"]),
        ({"rate": (2.0, 8.0)}, ["poisson 2/s", "poisson 8/s"]),
        ({"rate": (2.0,), "concurrency": (4,)}, ["concurrency 4", "poisson 2/s"]),
        ({"rate": (2.0,), "arrivals": "gamma", "burstiness": 0.5}, ["gamma 2/s"]),
        ({"rate": (2.0,), "arrivals": "burst", "burst": 3}, ["burst 2/s"]),
        ({"profile": "1:10,1..4:10"}, ["steps"]),
    ],
)
def test_levels(given: dict[str, Any], expected: list[str]) -> None:
    assert labels(run_options(None, urls=TWO, **given)) == expected


def test_every_option_of_an_open_loop_reaches_its_level(tmp_path: Path) -> None:
    trace = write_lines(tmp_path / "t.jsonl", [json.dumps({"timestamp": 1000 * i}) for i in range(4)])
    options = run_options(
        None, urls=TWO, rate=(2.0,), arrivals="gamma", burstiness=0.5, max_in_flight=7, trace=trace, trace_speed=4.0
    )
    gamma, replay = prepare(None, options).shape.levels
    assert (gamma.burstiness, gamma.in_flight, gamma.concurrency) == (0.5, 7, 7)
    assert (replay.label, replay.value, replay.times) == ("trace", 4.0, (0.0, 1.0, 2.0, 3.0))
    assert prepare(None, run_options(None, urls=TWO, rate=(2.0,), burst=5, arrivals="burst")).shape.levels[0].burst == 5


def test_a_spec_may_hold_all_of_it(tmp_path: Path) -> None:
    loadtest = {
        "rate": [3], "arrivals": "constant", "duration": 20, "disconnect": 0.1, "protocol": "grpc", "workers": 2,
        "slo": {"ttft": 0.5}, "reading_speed": 7, "unique_prefixes": True, "servers": "one",
    }  # fmt: skip
    options = run_options(toy_spec(tmp_path, loadtest=loadtest), slo={"tpot": 0.1})
    assert (options.concurrency, options.rate, options.arrivals) == ((), (3,), "constant")
    assert (options.duration, options.disconnect, options.protocol, options.workers) == (20, 0.1, "grpc", 2)
    assert options.slo == {"ttft": 0.5, "tpot": 0.1}
    assert (options.reading_speed, options.unique_prefixes, options.servers) == (7, True, "one")
    shape = prepare(None, options).shape
    assert (shape.disconnect, shape.unique_prefixes, shape.duration, shape.few_turns) == (0.1, True, 20, True)
    assert not options.counted
    assert run_options(toy_spec(tmp_path / "b", loadtest={"requests": 9})).counted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"urls": {"baseline": "a:1"}}, "no address for the speculative arm"),
        ({"urls": {"baseline": "a:1", "speculative": "http://b:2"}}, "same protocol: .*gRPC.*Triton's HTTP"),
        ({"urls": {"baseline": "http://a/v1", "speculative": "http://b:2"}}, "OpenAI-compatible"),
        ({"rate": (2.0, 2.0), "urls": TWO}, "rate 2, 2: one is given twice"),
        ({"until": 0.05, "requests": 9, "urls": TWO}, "--until"),
        ({"servers": "one", "urls": TWO}, "--servers one"),
        ({}, "neither a spec nor addresses"),
    ],
)
def test_options_that_contradict_each_other(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_options(None, **given)


def test_a_tokenizer_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no tokenizer\.json there"):
        prepare(None, run_options(None, urls=TWO, tokenizer=tmp_path))


def test_options_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    options = run_options(
        None, urls=TWO, rate=(2.5,), trace=tmp_path / "t", slo={"ttft": 1.0}, labels={"baseline": "old"}, duration=5.0
    )
    assert options_from_json(json.loads(json.dumps(options.as_json()))) == options
    with pytest.raises(UsageError, match="another version"):
        options_from_json({"rate": 3})
