"""Load processes that end before their time, and a parent that does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.loadtest.servers import chat_server, pace
from tests.loadtest.test_workers import until, workers_alive
from trtspec.errors import LoadTestFailed
from trtspec.loadtest import RunOptions, Status, run
from trtspec.progress import SilentReporter


def test_what_was_measured_until_a_process_died_is_reported(tmp_path: Path) -> None:
    seen: list[Status] = []

    def listener(status: Status) -> None:
        seen.append(status)
        if status.arms.get("speculative") and status.arms["speculative"].done == 8:
            workers_alive()[0].kill()

    with chat_server(pace(2, 4)) as one, chat_server(pace(2, 4)) as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(urls=urls, out=tmp_path / "run", concurrency=(2,), requests=48, max_tokens=4, workers=2)
        result = run(None, options, SilentReporter(), listener)
    assert isinstance(result.failure, LoadTestFailed)
    assert "was ended by SIGKILL" in result.failure.message
    assert result.summary["arms"]["baseline"]["requests"]["ok"] > 0
    assert result.summary["client"]["workers"] == 1
    assert workers_alive() == []


def test_a_parent_that_is_killed_leaves_no_process_behind_not_even_a_stuck_one(tmp_path: Path) -> None:
    with chat_server(pace(5, 50)) as server:
        argv = [sys.executable, "-m", "trtspec", "loadtest", "--a", f"{server.url}/v1", "--b", f"{server.url}/v1"]
        argv += ["--concurrency", "2", "--workers", "2", "--max-tokens", "50", "--out", str(tmp_path / "run")]
        parent = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            asyncio.run(until(lambda: sum(asked.method == "POST" for asked in server.asked) >= 2))
            workers = workers_alive(parent.pid)
            assert len(workers) == 2
            workers[0].suspend()
        finally:
            parent.kill()
            parent.wait()
        gone, alive = psutil.wait_procs(workers, timeout=20)
    assert (len(gone), alive) == (2, [])
