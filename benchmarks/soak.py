"""Sixty-four mixed clients on one server for a while: every valid answer right, nothing left behind.

Starts the real Triton with the frontend and two scripted leaves, sends streaming, whole, cancelled, abandoned, invalid
and huge requests at once, and holds afterwards: each valid request gave its text, each bad one its error; no inner
request runs on; the counters of the metrics endpoint are what the clients saw; memory did not grow.

Five minutes on 2 busy cores: 10016 requests of 64 clients, no problem; the frontend's memory 60 MiB after settling and
63 MiB at the end, the server's 95 and 96 MiB.

    python benchmarks/soak.py [--seconds 300] [--clients 64]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.triton_models.deployment import ANSWERS, Deployment, GrpcStream, make_deployment
from tests.triton_models.scraping import scrape, settled, total
from trtspec.serving import free_ports, repository_plan, start_server

ERRORS = ("invalid_request", "prompt_too_long", "timeout", "cancelled", "target_failed", "internal")
# The processes' memory settles while caches fill; what it grows by after that, in bytes, is a leak.
SETTLING = 0.3
MOST_GROWTH = 24 << 20


@dataclass
class Tally:
    """What the clients saw."""

    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)  # as the metrics should count them
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, kind: str, last: dict[str, Any], text: str, expected: str) -> None:
        with self.lock:
            self.done[kind] += 1
            self.results[last["finish_reason"]] += 1
            self.rounds += last["num_spec_steps"]
            self.drafted += last["total_draft_tokens"]
            self.accepted += last["total_accepted_draft_tokens"]
            if text != expected:
                self.problems.append(f"{kind}: {text!r} instead of {expected!r}")

    def refused(self, kind: str, text: str, code: str) -> None:
        with self.lock:
            self.done[kind] += 1
            self.results[code] += 1
            if not text.startswith(f"{code}: ") or "\n" in text:
                self.problems.append(f"{kind}: refused with {text!r}")

    def left(self, kind: str) -> None:
        with self.lock:
            self.done[kind] += 1


def whole(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    prompt = rng.choice(list(ANSWERS)[:4])
    answer = deployment.generate({"text_input": prompt, "num_draft_tokens": rng.randrange(9)})
    tally.answered("whole", answer, answer["text_output"], ANSWERS[prompt])


def streaming(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    prompt = rng.choice(list(ANSWERS)[:4])
    events = deployment.stream({"text_input": prompt, "num_draft_tokens": rng.randrange(9)})
    tally.answered("streaming", events[-1], "".join(event["text_output"] for event in events), ANSWERS[prompt])


def stopping(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    body = {"text_input": "Long", "stop_words": ["lazy dog", "zzz"], "num_draft_tokens": rng.randrange(9)}
    events = deployment.stream(body)
    tally.answered(
        "stop word", events[-1], "".join(e["text_output"] for e in events), "the quick brown fox jumps over the "
    )


def leaving(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    """A client whose connection ends in the middle of a stream."""
    events = deployment.events({"text_input": "Long", "num_draft_tokens": rng.choice([0, 2])})
    for _ in range(rng.randrange(1, 4)):
        next(events)
    events.close()  # type: ignore[attr-defined]
    tally.left("leaving")


def cancelling(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    """A client that cancels over gRPC."""
    stream = GrpcStream(
        deployment.grpc_url,
        {"text_input": ["Long"], "max_tokens": [120], "stream": [True], "num_draft_tokens": [rng.choice([0, 2])]},
        {"text_input": "BYTES", "max_tokens": "INT32", "stream": "BOOL", "num_draft_tokens": "INT32"},
    )
    stream.next()
    stream.close(cancel=True)
    tally.left("cancelling")


BAD = (
    ({"max_tokens": 0}, "invalid_request"),
    ({"num_draft_tokens": 99}, "invalid_request"),
    ({"messages": "[]", "text_input": ""}, "invalid_request"),
    ({"lora_task_id": 1}, "invalid_request"),
    ({"stop_words": ["x"] * 100}, "invalid_request"),
    ({"text_input": "no script has this"}, "target_failed"),
)


def invalid(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    body, code = rng.choice(BAD)
    tally.refused("invalid", deployment.refused({"text_input": "Say hello", **body})[1], code)


def huge(deployment: Deployment, tally: Tally, rng: random.Random) -> None:
    size = rng.choice([400, 200_000])
    tally.refused("huge", deployment.refused({"text_input": "the cat " * size})[1], "prompt_too_long")


KINDS: tuple[Callable[[Deployment, Tally, random.Random], None], ...] = (
    whole, whole, streaming, streaming, stopping, leaving, cancelling, invalid, huge,
)  # fmt: skip


def client(number: int, deployment: Deployment, tally: Tally, until: float) -> None:
    rng = random.Random(number)
    while time.monotonic() < until:
        kind = rng.choice(KINDS)
        try:
            kind(deployment, tally, rng)
        except Exception as error:  # noqa: BLE001 - reported
            text = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
            with tally.lock:
                tally.problems.append(f"{kind.__name__}: {type(error).__name__}: {error} {text}")


def memory(pid: int) -> dict[str, int]:
    """Bytes of memory of its own, by process: the server, and each model's."""
    found = {"tritonserver": psutil.Process(pid).memory_info().rss}
    for child in psutil.Process(pid).children(recursive=True):
        parts = [part for part in child.cmdline() if part.endswith("/1/model.py")]
        if parts:
            usage = child.memory_info()
            found[Path(parts[0]).parents[1].name] = usage.rss - usage.shared
    return found


def leaked_calls(deployment: Deployment) -> int:
    """Inner requests that go on after all clients have gone."""
    before = len(deployment.calls())
    time.sleep(1.5)
    return len(deployment.calls()) - before


def check(deployment: Deployment, tally: Tally) -> None:
    """Add to the problems what does not add up."""
    samples = settled(deployment.metrics_url, lambda found: total(found, "trtspec_running_requests") == 0)
    running = total(samples, "trtspec_running_requests")
    if running:
        tally.problems.append(f"{running:.0f} requests still in work")
    if leaked := leaked_calls(deployment):
        tally.problems.append(f"{leaked} inner calls after the last client had gone")
    time.sleep(2.0)
    samples = scrape(deployment.metrics_url)
    started = sum(tally.done.values())
    ended = total(samples, "trtspec_requests_total")
    if ended != started:
        tally.problems.append(f"{started} requests were sent, {ended:.0f} are counted")
    # those that left may have been answered before anybody noticed
    loose = tally.done["leaving"] + tally.done["cancelling"]
    for result in {*tally.results, *ERRORS} - {"cancelled"}:
        counted = total(samples, "trtspec_requests_total", result=result)
        if (
            not tally.results[result]
            <= counted
            <= tally.results[result] + (loose if result in {"stop", "length"} else 0)
        ):
            tally.problems.append(f"{result}: {tally.results[result]} seen, {counted:.0f} counted")
    rounds = total(samples, "trtspec_rounds_total")
    drafted, accepted = (total(samples, f"trtspec_{what}_tokens_total") for what in ("drafted", "accepted"))
    if rounds < tally.rounds or drafted < tally.drafted or accepted < tally.accepted or accepted > drafted:
        tally.problems.append(f"rounds {tally.rounds} seen, {rounds} counted; drafted {tally.drafted}, {drafted}")


def soak(folder: Path, *, clients: int, seconds: float) -> tuple[Tally, dict[str, tuple[int, int]]]:
    """The tally, and the memory of each process after settling and at the end (bytes)."""
    deployment = make_deployment(folder, delay_ms=1, max_prompt_bytes="1000000")
    plan = repository_plan(deployment.repository, free_ports(), log=folder / "server.log")
    server = start_server(plan, ready_timeout=120)
    try:
        deployment.url, deployment.grpc_url = f"http://{server.http_url}", server.grpc_url
        # a hundred rounds at a sixty-fourth of the rounds that a busy machine makes
        deployment.timeout = 120
        deployment.metrics_url = f"http://127.0.0.1:{server.ports.metrics}/metrics"
        tally, until = Tally(), time.monotonic() + seconds
        threads = [threading.Thread(target=client, args=(n, deployment, tally, until)) for n in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(SETTLING * seconds)
        early = memory(server.pid)
        for thread in threads:
            thread.join()
        deployment.forget()
        check(deployment, tally)
        late = memory(server.pid)
        if not server.alive():
            tally.problems.append("the server has ended")
    finally:
        server.stop(now=True)
    growth = {name: (early[name], late.get(name, 0)) for name in early}
    # the leaves of the tests remember every request, so theirs does not count
    for name in ("tritonserver", "tensorrt_llm_bls"):
        if growth[name][1] - growth[name][0] > MOST_GROWTH:
            tally.problems.append(f"{name} grew from {growth[name][0] >> 20} to {growth[name][1] >> 20} MiB")
    return tally, growth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally, growth = soak(Path(folder), clients=options.clients, seconds=options.seconds)
    print(f"{sum(tally.done.values())} requests in {options.seconds:g} s: {dict(tally.done)}")
    print(f"results: {dict(tally.results)}; rounds {tally.rounds}, drafted {tally.drafted}, accepted {tally.accepted}")
    for name, (early, late) in growth.items():
        print(f"memory of {name}: {early >> 20} MiB, at the end {late >> 20} MiB")
    for problem in tally.problems[:20]:
        print("PROBLEM", problem)
    print(f"{len(tally.problems)} problems")
    sys.exit(1 if tally.problems else 0)


if __name__ == "__main__":
    main()
