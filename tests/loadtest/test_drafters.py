"""Who drafted: from the server's counts to the summary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.builders import toy_spec
from tests.loadtest.fakes import counters, record
from tests.wire.fake_triton import FakeTriton, Received, Reply, echo_script
from trtspec.loadtest import RunOptions, run
from trtspec.loadtest.records import Record
from trtspec.loadtest.run_folder import read_run, summarise_run
from trtspec.loadtest.summary import summarise
from trtspec.loadtest.summary_schema import closed_summary_schema
from trtspec.progress import SilentReporter


def request(category: str, lookups: tuple[int, ...], **fields: Any) -> Record:
    """Six rounds of four drafted tokens, ten of them accepted, in an answer of 20 tokens."""
    server = counters([2, 1, 1, 1, 1], 24, 20, lookups)
    return record(arm="speculative", category=category, server=server, **fields)


def acceptance(*records: Record) -> dict[str, Any]:
    summary = summarise([record(server=counters([], 0, 5)), *records])
    jsonschema.validate(summary, closed_summary_schema())
    found: dict[str, Any] = summary["acceptance"]
    return found


def test_rounds_and_tokens_by_who_drafted() -> None:
    found = acceptance(request("code", (4, 16, 8)), request("chat", (0, 0, 0), prompt="q"))
    text, model = found["by_drafter"]["text"], found["by_drafter"]["model"]
    assert text == {
        "num_spec_steps": 4,
        "num_draft_tokens": 16,
        "num_accepted_tokens": 8,
        "acceptance_rate": 0.5,
        "mean_acceptance_length": 3.0,
        "output_share": 0.2,
    }
    assert (model["num_spec_steps"], model["num_draft_tokens"], model["num_accepted_tokens"]) == (8, 32, 12)
    assert (model["acceptance_rate"], model["mean_acceptance_length"], model["output_share"]) == (0.375, 2.5, 0.3)
    for name in ("num_spec_steps", "num_draft_tokens", "num_accepted_tokens"):
        assert text[name] + model[name] == found[name]
    chat = found["by_category"]["chat"]["by_drafter"]
    assert (chat["text"]["num_spec_steps"], chat["text"]["acceptance_rate"]) == (0, None)
    assert chat["model"]["output_share"] == 0.5
    assert found["by_category"]["code"]["by_drafter"]["text"]["output_share"] == 0.4


def test_without_a_model_only_the_text_drafted() -> None:
    found = acceptance(request("code", (6, 24, 10)), request("chat", (6, 24, 10), prompt="q"))
    assert list(found["by_drafter"]) == ["text"]
    assert [list(part["by_drafter"]) for part in found["by_category"].values()] == [["text"], ["text"]]


@pytest.mark.parametrize(
    "lookups",
    [((), ()), ((2, 8, 4), ()), ((7, 8, 4), (2, 8, 4)), ((2, 25, 4), (1, 4, 2))],
    ids=["not told", "told by some", "more rounds than there were", "more tokens than there were"],
)
def test_what_is_not_known_is_not_there(lookups: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    found = acceptance(*(request("code", counts, prompt=f"{place}") for place, counts in enumerate(lookups)))
    assert "by_drafter" not in found
    assert found["acceptance_rate"] == pytest.approx(20 / 48)


def test_failed_and_excluded_requests_do_not_count() -> None:
    other = request("code", (), prompt="q", excluded="warm-up")
    failed = request("code", (), prompt="r", error="boom")
    assert acceptance(request("code", (4, 16, 8)), other, failed)["by_drafter"]["text"]["num_spec_steps"] == 4


def test_a_run_carries_the_servers_counts(tmp_path: Path) -> None:
    """From the wire through requests.jsonl to a summary that is made of the files alone."""
    echo = echo_script(bundle=3)

    def script(asked: Received) -> Iterable[Reply]:
        for step in echo(asked):
            assert isinstance(step, Reply)
            rounds = (step.steps or 0) // 2
            yield step if step.steps is None else Reply(**{**vars(step), "lookups": (rounds, 2 * rounds, rounds)})

    with FakeTriton(echo_script()) as one, FakeTriton(script) as other:
        urls: Any = {"baseline": one.url, "speculative": other.url}
        options = RunOptions(
            urls=urls, out=tmp_path / "run", concurrency=(1,), requests=4, warmup=1, max_tokens=12, timeout=20.0
        )
        summary = run(toy_spec(tmp_path / "toy"), options, SilentReporter()).summary
    told = read_run(tmp_path / "run").records
    servers = [one.server for one in told if one.arm == "speculative" and one.server is not None]
    assert {(server.num_spec_steps, *server[6:]) for server in servers} == {(4, 2, 4, 2)}
    assert all(one.server is None or one.server.num_lookup_steps is None for one in told if one.arm == "baseline")
    found = summary["acceptance"]["by_drafter"]
    assert (found["text"]["num_spec_steps"], found["model"]["num_spec_steps"]) == (8, 8)
    assert found["text"]["output_share"] == pytest.approx(8 / 48)
    assert summarise_run(read_run(tmp_path / "run")) == summary
