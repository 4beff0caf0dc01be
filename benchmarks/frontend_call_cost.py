"""What a call costs the frontend: the figures behind the planner's call_latency, call_cpu and token_cpu.

Starts the real Triton on the frontend with leaves that answer at once (those of the tests), asks it at several
concurrencies, and prints the latency of one inner call and the CPU time of the frontend's process per call and per
streamed token.

    python benchmarks/frontend_call_cost.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.triton_models.deployment import Deployment, make_deployment
from trtspec.serving import free_ports, repository_plan, start_server

REQUESTS = 48


def frontend_seconds(server_pid: int) -> float:
    """CPU seconds of the frontend's model process so far."""
    for child in psutil.Process(server_pid).children(recursive=True):
        if "tensorrt_llm_bls" in " ".join(child.cmdline()):
            times = child.cpu_times()
            return float(times.user + times.system)
    raise SystemExit("the frontend's process was not found")


def measure(deployment: Deployment, pid: int, draft_length: int, concurrency: int) -> None:
    def ask(_: int) -> tuple[float, int]:
        start = time.perf_counter()
        answer = deployment.generate({"text_input": "Long", "num_draft_tokens": draft_length})
        units = 2 * answer["num_spec_steps"] if draft_length else answer["num_output_tokens"]
        return time.perf_counter() - start, units

    before = frontend_seconds(pid)
    with ThreadPoolExecutor(concurrency) as pool:
        results = list(pool.map(ask, range(REQUESTS)))
    total = sum(units for _, units in results)
    latency = 1000 * statistics.median(seconds / units for seconds, units in results)
    busy = 1000 * (frontend_seconds(pid) - before) / total
    what = "inner call" if draft_length else "streamed token"
    print(f"{what:>15}  concurrency {concurrency:>3}  latency {latency:6.2f} ms  frontend CPU {busy:5.2f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        deployment = make_deployment(Path(folder))
        plan = repository_plan(deployment.repository, free_ports(), log=Path(folder) / "server.log")
        server = start_server(plan, ready_timeout=120)
        try:
            deployment.url = f"http://{server.http_url}"
            deployment.generate({"text_input": "Long", "num_draft_tokens": 4})
            for draft_length in (4, 0):
                for concurrency in (1, 8, 16):
                    measure(deployment, server.pid, draft_length, concurrency)
        finally:
            server.stop(now=True)


if __name__ == "__main__":
    main()
