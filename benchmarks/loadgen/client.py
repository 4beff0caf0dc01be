"""One client as a process of its own, so that its CPU time and memory are its own; run by `run.py`.

    python benchmarks/loadgen/client.py minimal|trtspec|both URL MODEL STREAMS REQUESTS RAMP

* minimal: aiohttp on uvloop as in a tutorial. It stamps what comes, splits it at blank lines and reads the JSON; it
  checks nothing and keeps nothing but times, so it is the limit of what aiohttp can do.
* trtspec: the load test's own way of a request, with its checks, its record and the line in requests.jsonl.
* both: the two in turn, RAMP times REQUESTS requests each, and only their CPU time: of so short slices the cheapest is
  free of what else the machine does.

All send over generate_stream; RAMP seconds lie between the first and the last connection's start. Prints one JSON
document.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import uvloop


@dataclass
class Seen:
    """(sent, arrivals, texts) of every request, in ns; `failed` is the first error."""

    requests: list[tuple[int, list[int], list[str]]] = field(default_factory=list)
    failed: str | None = None


Send = Callable[[int], Awaitable[None]]


async def closed_loop(send: Send, streams: int, requests: int, ramp: float) -> None:
    left = iter(range(requests))

    async def connection(index: int) -> None:
        await asyncio.sleep(ramp * index / streams)
        for number in left:
            await send(number)

    await asyncio.gather(*(connection(index) for index in range(streams)))


async def minimal(url: str, model: str, seen: Seen, run: Callable[[Send], Awaitable[None]]) -> None:
    import aiohttp
    import orjson

    address = f"{url}/v2/models/{model}/generate_stream"
    body = orjson.dumps({"text_input": "Hello", "max_tokens": 128, "stream": True})

    async def send(_number: int) -> None:
        start, arrivals, pieces = time.perf_counter_ns(), [], []
        async with session.post(address, data=body) as response:
            async for data in response.content.iter_any():
                now = time.perf_counter_ns()
                for event in data.split(b"\n\n"):
                    if event:
                        arrivals.append(now)
                        pieces.append(orjson.loads(event[6:])["text_output"])
        seen.requests.append((start, arrivals, pieces))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await run(send)


async def trtspec(url: str, model: str, seen: Seen, run: Callable[[Send], Awaitable[None]]) -> None:
    from trtspec.loadtest.jobs import Job
    from trtspec.loadtest.loop import frozen_heap
    from trtspec.loadtest.prompts import Prompt
    from trtspec.loadtest.records import Record, RecordWriter
    from trtspec.loadtest.sender import ArmClient, Place, SendOptions, plain_text
    from trtspec.wire import open_target

    def keep(record: Record) -> None:
        writer.write(record)
        seen.failed = seen.failed or record.error
        seen.requests.append((record.start_ns, [c.t_ns for c in record.chunks], [c.text for c in record.chunks]))

    job = Job(Prompt("hello", "any", "Hello", 128), "1", seed=1, max_tokens=128)
    with tempfile.TemporaryDirectory() as folder, RecordWriter(Path(folder) / "requests.jsonl") as writer:
        async with open_target(url, kind="triton-http", model=model) as target:
            place = Place("concurrency 1", 1, 0, 0)
            client = ArmClient("baseline", target, SendOptions(plain_text), keep)

            async def send(_number: int) -> None:
                await client.send(job, place)

            async with frozen_heap():
                await run(send)


def errors(seen: Seen) -> dict[str, Any]:
    """p50 and p99 of TTFT's error and of the chunks' arrival lag, in ms: what was seen, less what the server did."""
    ttft, lag = [], []
    for start, arrivals, texts in seen.requests:
        received, first = map(int, texts[0].split())
        ttft.append(((arrivals[0] - start) - (first - received)) / 1e6)
        lag += [(at - int(text.split()[1])) / 1e6 for at, text in zip(arrivals, texts, strict=True)]
    return {"ttft_error_ms": list(np.percentile(ttft, [50, 99])), "lag_ms": list(np.percentile(lag, [50, 99]))}


def _peak_memory() -> float:
    """MB of this process; getrusage would tell that of the process which started it, where that was larger."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


CLIENTS = {"minimal": minimal, "trtspec": trtspec}


async def one(kind: str, url: str, model: str, load: tuple[int, int, float]) -> dict[str, Any]:
    """Everything about one client."""
    seen, spent = Seen(), [0.0, 0.0]

    async def run(send: Send) -> None:
        await send(0)  # imports, first connection
        seen.requests.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        await closed_loop(send, *load)
        spent[:] = [time.perf_counter() - wall, time.process_time() - cpu]

    await CLIENTS[kind](url, model, seen, run)
    if seen.failed is not None:
        raise SystemExit(seen.failed)
    return {
        "requests": len(seen.requests),
        "seconds": spent[0],
        "memory_mb": _peak_memory(),
        **errors(seen),
    }


async def both(url: str, model: str, load: tuple[int, int, float]) -> dict[str, Any]:
    """Microseconds of CPU a request and a chunk, the cheapest slice of each client."""
    streams, requests, slices = load
    best: dict[str, list[float]] = {}
    turns = {kind: asyncio.Event() for kind in CLIENTS}

    async def client(kind: str, other: str) -> None:
        seen = Seen()

        async def run(send: Send) -> None:
            for _ in range(int(slices)):
                await turns[kind].wait()
                turns[kind].clear()
                seen.requests.clear()
                begin = time.process_time()
                await closed_loop(send, streams, requests, 0)
                spent = (time.process_time() - begin) * 1e6
                cost = [spent / requests, spent / sum(len(texts) for _, _, texts in seen.requests)]
                best[kind] = min(best.get(kind, cost), cost)
                turns[other].set()

        await CLIENTS[kind](url, model, seen, run)

    turns["minimal"].set()
    await asyncio.gather(client("minimal", "trtspec"), client("trtspec", "minimal"))
    return {kind: {"us_per_request": cost[0], "us_per_chunk": cost[1]} for kind, cost in best.items()}


def main() -> None:
    kind, url, model, streams, requests, ramp = sys.argv[1:]
    load = int(streams), int(requests), float(ramp)
    work = both(url, model, load) if kind == "both" else one(kind, url, model, load)
    print(json.dumps(uvloop.run(work)))


if __name__ == "__main__":
    main()
