"""What the load generator costs and how accurate it is, side by side with AIPerf and a minimal aiohttp loop.

    python benchmarks/loadgen/aiperf.py     once: AIPerf's own environment (without it, its lines are left out)
    python benchmarks/loadgen/run.py [--only cost accuracy command memory] [--repeats 3]

* cost: client CPU a request (one chunk) and a chunk (128 of them, 10 ms apart), minimal and trtspec in turn in one
  process, the cheapest of many short slices each; AIPerf's by the difference of a long and a short run.
* accuracy: error of the time to the first token and arrival lag, 16 and 64 streams of 128 chunks 10 ms apart, started
  over 1.32 s and all at once; of REPEATS runs the one with the smallest p99 (the machine is never quiet).
* command: `trtspec loadtest` as a whole, start-up taken off by the difference of two runs.
* memory: 10 000 requests with 1 000 streams at once through the whole command.

Everything shares one machine with the server and each other: compare columns, not days. The load average is printed.

On 2 CPUs: a request of one chunk costs 97 µs of CPU (minimal 87: 1.1 times; AIPerf 4 500: 47 times), a chunk 28 µs
(minimal 21: 1.35 times; AIPerf 92), at load 4 to 8. TTFT error p50 / p99 in ms at load 1: 16 ramped streams 0.2 / 0.7
(minimal 0.5 / 1.4, AIPerf 0.7 / 4.9), 16 at once 0.2 / 2.0 (0.8 / 4.7, 5.9 / 28); 64 ramped 0.3 / 1.3 at load 2
(0.6 / 1.7; AIPerf 72 / 426 on a busy machine). The whole command: 370 µs a request, AIPerf's 1 650, at load 10; 461 MB
in all processes with 1 000 streams.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.loadgen import aiperf

HERE = Path(__file__).parent
STREAM = "t50g10n128k1"
ONE = "t0g0n1k1"
RAMP = 1.32  # about one answer


@contextlib.contextmanager
def server(plan: str) -> Iterator[str]:
    """The benchmark's server as a process; gives its address."""
    command = [sys.executable, str(HERE / "server.py"), plan]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def client(kind: str, url: str, plan: str, load: tuple[int, int, float]) -> dict[str, Any]:
    """What client.py prints."""
    command = [sys.executable, str(HERE / "client.py"), kind, url, plan, *map(str, load)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"client.py {kind} failed:\n{done.stderr[-2000:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Watched:
    """A command run to its end: seconds, CPU seconds with all its processes, and their largest memory together."""

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        self.memory_mb, done = 0.0, threading.Event()
        watcher = threading.Thread(target=self._watch, args=(psutil.Process(process.pid), done))
        watcher.start()
        output, _ = process.communicate()
        done.set()
        watcher.join()
        self.seconds = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if process.returncode:
            raise SystemExit(f"{command[0]} failed:\n{output.decode(errors='replace')[-2000:]}")

    def _watch(self, process: psutil.Process, done: threading.Event) -> None:
        while not done.wait(0.25):
            with contextlib.suppress(psutil.Error):
                tree = [process, *process.children(recursive=True)]
                self.memory_mb = max(self.memory_mb, sum(_memory(part) for part in tree) / 1e6)


def _memory(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        return float(process.memory_info().rss)
    return 0.0


def run_aiperf(url: str, plan: str, load: tuple[int, int, float]) -> tuple[Watched, list[float]]:
    """AIPerf's run, and its errors of TTFT in ms."""
    with tempfile.TemporaryDirectory() as name:
        watched = Watched(aiperf.arguments(Path(name), url, plan, load), aiperf.environment())
        return watched, aiperf.ttft_errors(Path(name), url)


def loadtest(url: str, plan: str, load: tuple[int, int]) -> Watched:
    """`trtspec loadtest` of the server against itself: twice as many requests as asked for, one half an arm."""
    streams, requests = load
    with tempfile.TemporaryDirectory() as name:
        prompts = Path(name) / "prompts.jsonl"
        prompts.write_text('{"prompt": "Hello", "max_tokens": 128}\n')
        options = {
            "--a": url, "--b": url, "--kind": "triton-http", "--a-model": plan, "--concurrency": streams,
            "--requests": requests, "--warmup": 1, "--prompts": prompts, "--out": Path(name) / "run",
            "--progress": "none", "--output": "quiet",
        }  # fmt: skip
        given = [str(part) for option in options.items() for part in option]
        return Watched([sys.executable, "-m", "trtspec", "loadtest", *given, "--no-report"])


def cost(_options: argparse.Namespace) -> None:
    print("client CPU, cheapest slice                minimal    trtspec   ratio     AIPerf    AIPerf / trtspec")
    with server(ONE) as url:
        found = client("both", url, ONE, (16, 200, 60))
        theirs = _slope(lambda requests: run_aiperf(url, ONE, (16, requests, 0.0))[0], 300, 1500)
        _cost_line("us a request of one chunk", found, "us_per_request", theirs)
    with server(STREAM) as url:
        found = client("both", url, STREAM, (64, 64, 8))
        chunks = 128
        theirs = _slope(lambda requests: run_aiperf(url, STREAM, (64, requests, RAMP))[0], 64, 320)
        _cost_line("us a chunk, 64 streams", found, "us_per_chunk", None if theirs is None else theirs / chunks)
    print()


def _slope(run: Any, few: int, many: int) -> float | None:
    """Microseconds of CPU a request beyond the start-up; None without AIPerf."""
    if not aiperf.PROGRAM.exists():
        return None
    return float(1e6 * (run(many).cpu_seconds - run(few).cpu_seconds) / (many - few))


def _cost_line(name: str, found: dict[str, Any], key: str, theirs: float | None) -> None:
    minimal, ours = found["minimal"][key], found["trtspec"][key]
    tail = "" if theirs is None else f"{theirs:11.0f}    {theirs / ours:8.1f}"
    print(f"{name:38} {minimal:10.1f} {ours:10.1f} {ours / minimal:7.2f}{tail}", flush=True)


def accuracy(options: argparse.Namespace) -> None:
    print("TTFT error, ms                              p50     p99   lag p50     p99   requests/s   memory MB   load")
    with server(STREAM) as url:
        for streams in (16, 64):
            for ramp, start in ((RAMP, "ramped"), (0.0, "at once")):
                for kind in ("minimal", "trtspec", "AIPerf"):
                    runs = [_accuracy(kind, url, (streams, 8 * streams, ramp)) for _ in range(options.repeats)]
                    known = [run for run in runs if run]
                    if known:
                        print(f"{streams:3} streams {start:8} {kind:10} {min(known)[1]}", flush=True)
    print()


def _accuracy(kind: str, url: str, load: tuple[int, int, float]) -> tuple[float, str] | None:
    """(p99, its line); None without AIPerf."""
    if kind == "AIPerf":
        if not aiperf.PROGRAM.exists():
            return None
        watched, errors = run_aiperf(url, STREAM, load)
        lag, rate, memory = "        -       -", "         -", watched.memory_mb
        p50, p99 = np.percentile(errors, [50, 99])
    else:
        found = client(kind, url, STREAM, load)
        (p50, p99), memory = found["ttft_error_ms"], found["memory_mb"]
        lag = "{:9.2f} {:7.2f}".format(*found["lag_ms"])
        rate = f"{found['requests'] / found['seconds']:10.1f}"
    line = f"      {p50:8.2f} {p99:7.2f} {lag}   {rate}  {memory:10.0f} {os.getloadavg()[0]:6.1f}"
    return float(p99), line


def command(_options: argparse.Namespace) -> None:
    print("the whole command, start-up taken off             us a request   requests/s")
    with server(ONE) as url:
        few, many = loadtest(url, ONE, (32, 1000)), loadtest(url, ONE, (32, 5000))
        _command_line("trtspec loadtest, 32 streams", few, many, 2 * 4000)
        if aiperf.PROGRAM.exists():
            few, many = (run_aiperf(url, ONE, (32, requests, 0.0))[0] for requests in (300, 1500))
            _command_line("aiperf profile, 32 streams", few, many, 1200)
    print()


def _command_line(name: str, few: Watched, many: Watched, more: int) -> None:
    cpu, wall = many.cpu_seconds - few.cpu_seconds, many.seconds - few.seconds
    rate = f"{more / wall:12.0f}" if wall > 0 else "           -"  # the machine did something else meanwhile
    print(f"{name:46} {1e6 * cpu / more:15.0f} {rate}", flush=True)


def memory(_options: argparse.Namespace) -> None:
    with server(STREAM) as url:
        watched = loadtest(url, STREAM, (1000, 5000))
    print(f"10 000 requests, 1 000 streams: {watched.memory_mb:.0f} MB in all processes, {watched.seconds:.0f} s\n")


PARTS = {"cost": cost, "accuracy": accuracy, "command": command, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not aiperf.PROGRAM.exists():
        print(f"AIPerf is not there; make its environment with: python {HERE / 'aiperf.py'}\n")
    for part in options.only:
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
        PARTS[part](options)


if __name__ == "__main__":
    main()
