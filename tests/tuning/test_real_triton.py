"""A search on the real Triton server with a tiny pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving.toy import ToyDeployment
from trtspec.loadtest.reading import read_records
from trtspec.progress import SilentReporter
from trtspec.tuning import TuneOptions, tune, tune_options

pytestmark = pytest.mark.triton

WORDS = ("hello world", "the quick brown fox", "def add(a, b):", "drafts tokens with a small model")


def options(toy: ToyDeployment, out: Path, **own: Any) -> TuneOptions:
    prompts = out.with_suffix(".jsonl")
    prompts.write_text("\n".join(json.dumps({"prompt": f"{word} {n}"}) for n in range(6) for word in WORDS))
    urls = {arm: f"http://{toy.server(arm).http_url}" for arm in ("baseline", "speculative")}
    sizes: dict[str, Any] = {"concurrency": (1, 2), "max_tokens": 10, "warmup": 1, "prompts": str(prompts)}
    return tune_options(toy.spec_file, {"lengths": (1, 6), **own}, urls=urls, out=out, **sizes)


def test_one_pair_of_servers_serves_every_length(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    result = tune(toy_deployment.spec_file, options(toy_deployment, tmp_path / "tune", budget=6.0), SilentReporter())
    assert result.failure is None
    assert result.data["finished"]
    for level in result.data["levels"]:
        assert level["winner"] in {"baseline", "1", "6"}
        assert level["baseline"]["output_tokens_per_second"]["estimate"] > 0
        cells = {cell["candidate"]: cell for cell in level["cells"]}
        for cell in cells.values():
            assert cell["speedup"]["estimate"] > 0
            assert cell["user_tokens_per_second"]["estimate"] > 0
            assert 0 < cell["acceptance_rate"] <= 1
        # of six drafted tokens a smaller share is right than of one
        assert cells["6"]["acceptance_rate"] < cells["1"]["acceptance_rate"]
    records = [r for r in read_records(result.path / "tuning.jsonl") if r.arm == "speculative" and r.ok]
    for record in records:
        assert record.server is not None
        histogram = record.server.acceptance_histogram
        assert histogram is not None
        assert len(histogram) <= (record.draft_length or 0) + 1
