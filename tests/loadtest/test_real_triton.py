"""The load test against the real Triton server and a tiny pair."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving.toy import ToyDeployment
from trtspec.loadtest import RunOptions, read_run, run
from trtspec.loadtest.arms import open_arms
from trtspec.loadtest.run_folder import RunFolder
from trtspec.progress import SilentReporter
from trtspec.wire import Connection, FrontendRequest, model_counts, next_token_logits, stream

pytestmark = pytest.mark.triton


def options(toy: ToyDeployment, out: Path, **values: Any) -> RunOptions:
    urls: Any = {arm: toy.server(arm).grpc_url for arm in ("baseline", "speculative")}
    small = {"concurrency": (1, 3), "requests": 12, "warmup": 2, "max_tokens": 24, "timeout": 60.0, **values}
    return RunOptions(urls=urls, out=out, **small)


def test_both_arms_answer_alike_and_speculation_is_counted(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    result = run(toy_deployment.spec_file, options(toy_deployment, tmp_path / "run"), SilentReporter())
    assert result.failure is None
    summary = result.summary
    for arm in ("baseline", "speculative"):
        assert summary["arms"][arm]["requests"]["ok"] == 24
        assert summary["arms"][arm]["error_rate"] == 0
        assert summary["arms"][arm]["time_to_first_token"]["mean"] > 0
    equality = summary["comparison"]["equality"]
    assert equality["identical"] + equality["diverged"] == 24
    assert all(place["verdict"] == "near-tie" for place in equality["first_divergence"])
    acceptance = summary["acceptance"]
    assert acceptance["source"] == "server"
    assert 0 < acceptance["acceptance_rate"] < 1
    histogram = acceptance["acceptance_histogram"]
    assert sum(histogram) == acceptance["num_spec_steps"]
    assert sum(k * count for k, count in enumerate(histogram)) == acceptance["num_accepted_tokens"]
    warnings = summary["comparison"]["warnings"]
    assert not any("contradict" in text or "others used it" in text for text in warnings), warnings


def test_over_http_it_measures_the_same_and_knows_the_server(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    urls: Any = {arm: f"http://{toy_deployment.server(arm).http_url}" for arm in ("baseline", "speculative")}
    opts = RunOptions(urls=urls, out=tmp_path / "run", concurrency=(2,), rate=(5.0,), requests=16, max_tokens=12)
    result = run(toy_deployment.spec_file, opts, SilentReporter())
    assert result.failure is None
    records = [r for r in read_run(result.path).records if r.excluded is None]
    assert {r.protocol for r in records} == {"http"}
    assert {r.load for r in records} == {"concurrency 2", "poisson 5/s"}
    assert len(records) == 2 * 2 * 16
    for record in records:
        assert record.server is not None
        assert sum(chunk.tokens or 0 for chunk in record.chunks) == record.server.num_output_tokens
        assert record.tokens_source == "server"
    measurement = json.loads((result.path / "measurement.json").read_text())
    assert measurement["targets"]["baseline"]["protocol"] == "http"
    # Triton's own count is ours: nobody else was there
    for entry in measurement["servers"]:
        everything = [r for r in read_run(result.path).records if (r.arm, r.load) == (entry["arm"], entry["load"])]
        assert entry["frontend_requests"] is not None
        assert entry["frontend_requests"] <= len(everything)
    assert result.summary["acceptance"]["source"] == "server"


def test_a_baseline_against_itself(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    urls: Any = dict.fromkeys(("baseline", "speculative"), f"http://{toy_deployment.server('baseline').http_url}")
    opts = RunOptions(urls=urls, out=tmp_path / "run", aa=True, concurrency=(1,), requests=20, max_tokens=12)
    summary = run(toy_deployment.spec_file, opts, SilentReporter()).summary
    assert summary["comparison"]["equality"]["diverged"] == 0
    assert summary["comparison"]["noise_floor"]["source"] == "this A/A run"
    assert summary["acceptance"]["num_draft_tokens"] in {None, 0}


def test_tokens_of_the_chunks_add_up_to_the_servers_count(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    opts = options(toy_deployment, tmp_path / "run", concurrency=(1,))
    records = read_run(run(toy_deployment.spec_file, opts, SilentReporter()).path).records
    for record in records:
        assert record.server is not None
        assert sum(chunk.tokens or 0 for chunk in record.chunks) == record.server.num_output_tokens
        assert record.finish_reason in {"stop", "length"}
    engines = toy_deployment.spec_file.engines("baseline")
    assert engines.is_dir()


def test_a_longer_draft_changes_the_rounds(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    rounds = []
    for length in (1, 6):
        opts = options(toy_deployment, tmp_path / f"run-{length}", concurrency=(1,), draft_length=length, requests=6)
        summary = run(toy_deployment.spec_file, opts, SilentReporter()).summary
        assert len(summary["acceptance"]["acceptance_histogram"]) <= length + 1
        rounds.append(summary["acceptance"]["num_spec_steps"])
    assert rounds[1] < rounds[0]


def test_leaf_logits_name_the_token_that_the_frontend_chose(toy_deployment: ToyDeployment) -> None:
    async def ask(url: str) -> tuple[tuple[int, ...], list[int], int]:
        prompt: tuple[int, ...] = ()
        ids: list[int] = []
        async for chunk in stream(url, FrontendRequest("hello world", 5, token_details=True), timeout=60):
            if chunk.details is not None:
                ids += chunk.details.ids
                prompt = chunk.details.prompt_ids or prompt
        async with Connection(url) as connection:
            logits = await next_token_logits(connection, [*prompt, *ids[:2]], timeout=60)
            counts = await model_counts(connection)
        assert counts["tensorrt_llm_bls"].success >= 1
        return prompt, ids, int(np.argmax(logits))

    prompt, ids, best = asyncio.run(ask(toy_deployment.server("baseline").grpc_url))
    assert prompt
    assert best == ids[2]


def test_given_addresses_start_nothing(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    opts = options(toy_deployment, tmp_path)
    with open_arms(toy_deployment.spec_file, opts, RunFolder(tmp_path), SilentReporter()) as servers:
        assert {arm: server.url for arm, server in servers.items()} == opts.urls
        assert list(tmp_path.iterdir()) == []
