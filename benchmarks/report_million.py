"""How long a report over a million requests takes, and how much memory: reading, summary, page.

Writes a file of half a million prompts answered by both arms, several chunks each, and does what `trtspec report` does.
Prints seconds and peak memory of each stage; memory is sampled, the processes that help to read included.

On 2 CPUs at load 1: reading 12.1 s, summary 5.5 s, page and tables 1.2 s, together 18.9 s and 699 MB.

    python benchmarks/report_million.py [--requests 1000000] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

SECONDS, MEMORY = 20.0, 10**9
_MS = 1_000_000
_CATEGORIES = ("code", "extraction", "story", "translation", "chat")
_WORDS = ("time ", "of ", "the ", "quick ", "brown ", "fox ", "jumps ", "over ", "a ", "lazy ", "dog ", "again ")


def write_requests(path: Path, count: int) -> None:
    """`count` requests: pairs in blocks of 100 at concurrency 1, 4 and 16, the speculative arm 1.5 times as fast."""
    draw = random.Random(1)
    clock = 0
    with path.open("w", encoding="utf-8") as stream:
        for block in range(count // 200):
            concurrency = (1, 4, 16)[block % 3]
            for order, arm in enumerate(("baseline", "speculative") if block % 2 else ("speculative", "baseline")):
                place = {"arm": arm, "block": block, "order": order, "concurrency": concurrency}
                for index in range(100):
                    start = clock + index * 100 * _MS // concurrency
                    chunks = chunks_of(draw, start, index, fast=arm == "speculative")
                    stream.write(json.dumps(request(place, index, chunks, start)) + "\n")
                clock += 12_000 * _MS


def chunks_of(draw: random.Random, start: int, index: int, *, fast: bool) -> list[dict[str, Any]]:
    """16 tokens in 4 or 7 chunks."""
    sizes = [4, 3, 5, 4] if fast else [3, 2, 3, 2, 2, 2, 2]
    at = start + int(draw.uniform(8, 12) * _MS)
    chunks = []
    words = iter(range(16))
    for size in sizes:
        text = "".join(_WORDS[(index + next(words)) % len(_WORDS)] for _ in range(size))
        chunks.append({"t_ns": at, "text": text, "tokens": size})
        at += int(draw.lognormvariate(0, 0.2) * size * (4 if fast else 6) * _MS)
    return chunks


def request(place: Mapping[str, Any], index: int, chunks: Sequence[Mapping[str, Any]], start: int) -> dict[str, Any]:
    """One line of requests.jsonl; `place` has the arm, the block, its order and the concurrency."""
    fast = place["arm"] == "speculative"
    name = f"prompt-{place['block']}-{index}"
    return {
        **place,
        "prompt_id": name,
        "category": _CATEGORIES[index % len(_CATEGORIES)],
        "scheduled_ns": start,
        "start_ns": start,
        "end_ns": chunks[-1]["t_ns"] + _MS,
        "chunks": chunks,
        "error": None,
        "error_code": None,
        "cancelled": False,
        "server": {
            "num_input_tokens": 40,
            "num_output_tokens": 16,
            "num_spec_steps": 4 if fast else None,
            "num_draft_tokens": 16 if fast else None,
            "num_accepted_tokens": 12 if fast else None,
            "acceptance_histogram": [0, 0, 1, 2, 1] if fast else None,
        },
        "pair_id": name,
        "draft_length": 4 if fast else None,
        "max_tokens": 16,
        "finish_reason": "length",
        "excluded": None,
        "synthetic": False,
        "load": f"concurrency {place['concurrency']}",
        "tokens_source": "server",
    }


class Memory:
    """Peak memory of this process and its children: proportional set size, so that shared pages count once."""

    def __init__(self) -> None:
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.25):
            self._peak = max(self._peak, used())

    def take(self) -> int:
        """The peak since the last call."""
        peak, self._peak = max(self._peak, used()), 0
        return peak

    def stop(self) -> None:
        """End sampling."""
        self._over.set()
        self._thread.join()


def used() -> int:
    """Bytes that this process and its children hold now."""
    own = psutil.Process()
    total = 0
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.Error):  # it has just ended
            total += process.memory_full_info().pss
    return total


def processor_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def stage(name: str, memory: Memory, totals: list[tuple[float, int]]) -> Iterator[None]:
    """Measure and print one stage."""
    memory.take()
    start, begun = time.perf_counter(), processor_seconds()
    yield
    seconds, peak = time.perf_counter() - start, memory.take()
    totals.append((seconds, peak))
    busy = processor_seconds() - begun
    print(f"{name:>16}  {seconds:6.2f} s  ({busy:6.2f} s of CPU)  peak {peak / 1e6:5.0f} MB", flush=True)


def measure(folder: Path) -> list[tuple[float, int]]:
    """Every stage of `trtspec report` on the run in `folder`: (seconds, peak bytes)."""
    from trtspec.loadtest.run_folder import read_run, summarise_run
    from trtspec.reports import open_run, write_report
    from trtspec.reports.data import report_data

    memory, totals = Memory(), []  # type: Memory, list[tuple[float, int]]
    with stage("reading", memory, totals):
        run = read_run(folder)
    with stage("summary", memory, totals):
        summary = summarise_run(run)
    with stage("page and tables", memory, totals):
        source = open_run(folder)
        write_report(source, report_data(source.name, run.table, summary, run.provenance, run.measurement))
    memory.stop()
    return totals


def main() -> int:
    """Exit 1 when the report takes longer or more memory than promised."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--requests", type=int, default=1_000_000)
    options.add_argument("--keep", type=Path, help="write the run here and leave it; an existing one is used again")
    given = options.parse_args()
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        requests = folder / "requests.jsonl"
        if not requests.exists():
            write_requests(requests, given.requests)
        print(f"{given.requests} requests, {requests.stat().st_size / 1e6:.0f} MB, {os.cpu_count()} CPUs", flush=True)
        totals = measure(folder)
    seconds, peak = sum(seconds for seconds, _ in totals), max(peak for _, peak in totals)
    limits = f"limits {SECONDS:.0f} s, {MEMORY / 1e6:.0f} MB"
    print(f"{'together':>16}  {seconds:6.2f} s  peak {peak / 1e6:.0f} MB  ({limits})")
    return int(seconds > SECONDS or peak > MEMORY)


if __name__ == "__main__":
    raise SystemExit(main())
