"""What a call costs the frontend: the figures behind the planner's call_latency, call_cpu and token_cpu.

Starts the real Triton on the frontend and asks it at several concurrencies for short and for long answers, in turn.
What a long answer takes more, over the calls (or streamed tokens) that it has more, is the cost of one; the request's
own costs are in both. Inner calls go to leaves that answer at once. Streamed tokens come from the leaves of the tests,
which take their time: of those the CPU time counts.

    python benchmarks/frontend_call_cost.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.frontend_overhead import FRONTEND, ask, repository
from tests.triton_models.deployment import make_deployment
from trtspec.serving import RunningServer, free_ports, repository_plan, start_server

REQUESTS = 16
BLOCKS = 4  # short and long are asked in turn
SHORT, LONG = 5, 55  # rounds or tokens of an answer


@dataclass(frozen=True)
class Kind:
    """What is measured: `units` of it are in a round or token; `request` asks for so many and takes the seconds."""

    name: str
    units: int
    request: Callable[[int], float]


@contextmanager
def served(folder: Path) -> Iterator[RunningServer]:
    with start_server(repository_plan(folder, free_ports(), log=folder.parent / "log"), ready_timeout=120) as server:
        yield server
        server.stop(now=True)


def frontend_seconds(server_pid: int) -> float:
    """CPU seconds of the frontend's model process so far."""
    for child in psutil.Process(server_pid).children(recursive=True):
        if FRONTEND in " ".join(child.cmdline()):
            times = child.cpu_times()
            return float(times.user + times.system)
    raise SystemExit("the frontend's process was not found")


def measure(kind: Kind, pid: int, concurrency: int) -> None:
    seconds: dict[int, list[float]] = {SHORT: [], LONG: []}
    busy = {SHORT: 0.0, LONG: 0.0}
    with ThreadPoolExecutor(concurrency) as pool:
        for _ in range(BLOCKS):
            for length, found in seconds.items():
                before = frontend_seconds(pid)
                found.extend(pool.map(kind.request, [length] * REQUESTS))
                busy[length] += frontend_seconds(pid) - before
    more = (LONG - SHORT) * kind.units
    latency = 1000 * (statistics.median(seconds[LONG]) - statistics.median(seconds[SHORT])) / more
    cpu = 1000 * (busy[LONG] - busy[SHORT]) / (more * REQUESTS * BLOCKS)
    timing = f"latency {latency:6.2f} ms  frontend CPU {cpu:5.2f} ms"
    print(f"{kind.name:>15}  concurrency {concurrency:>3}  {timing}", flush=True)


def calls(folder: Path) -> None:
    with served(repository(folder)) as server:
        url = f"http://{server.http_url}"

        def request(rounds: int) -> float:
            return ask(url, FRONTEND, rounds, 64) * rounds / 1000

        request(LONG)
        for concurrency in (1, 8, 16):
            measure(Kind("inner call", 2, request), server.pid, concurrency)  # draft and target in a round


def tokens(folder: Path) -> None:
    deployment = make_deployment(folder)
    with served(deployment.repository) as server:
        deployment.url = f"http://{server.http_url}"

        def request(length: int) -> float:
            start = time.perf_counter()
            answer = deployment.generate({"text_input": "Long", "num_draft_tokens": 0, "max_tokens": length})
            if answer["num_output_tokens"] != length:
                raise SystemExit(f"{answer['num_output_tokens']} tokens instead of {length}")
            return time.perf_counter() - start

        request(LONG)
        for concurrency in (1, 8, 16):
            measure(Kind("streamed token", 1, request), server.pid, concurrency)


def main() -> None:
    for part in (calls, tokens):
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder))


if __name__ == "__main__":
    main()
