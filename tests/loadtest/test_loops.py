"""The closed and the open loop by themselves, against a send that takes its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from trtspec.loadtest.arrivals import Traffic, closed_loop, open_loop
from trtspec.loadtest.closed_loop import run_closed_loop
from trtspec.loadtest.open_loop import arrivals_of, run_open_loop
from trtspec.loadtest.plan import Block, Shape, make_plan
from trtspec.loadtest.prompts import load_prompts
from trtspec.loadtest.share import Finish, Piece, Share

BUILTIN = load_prompts("builtin-60").prompts
NS = 1e9


def block_of(traffic: Traffic, requests: int) -> Block:
    closed = traffic.closed
    shape = Shape((traffic.concurrency,) if closed else (), requests, 0, 1, traffic=() if closed else (traffic,))
    (level,) = make_plan(BUILTIN, shape)
    jobs = tuple(job for block in level.blocks for job in block.jobs)
    if not closed:
        jobs = tuple(replace(job, at=index / traffic.value) for index, job in enumerate(jobs))
    return replace(level.blocks[0], jobs=jobs)


@dataclass
class Sent:
    """What a loop sent: (pair, excluded, when it was due, begin, end)."""

    seconds: Callable[[str], float] = lambda _: 0.01
    rows: list[tuple[str, str | None, int | None, int, int]] = field(default_factory=list)
    running: int = 0
    most: int = 0

    async def __call__(self, piece: Piece, due_ns: int | None) -> None:
        (job,) = piece
        begin = time.perf_counter_ns()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.seconds(job.pair_id))
        finally:
            self.running -= 1
            self.rows.append((job.pair_id, job.excluded, due_ns, begin, time.perf_counter_ns()))

    @property
    def measured(self) -> list[tuple[str, str | None, int | None, int, int]]:
        return [row for row in self.rows if row[1] is None]


def closed(share: Share, sent: Callable[[Piece, int | None], Awaitable[None]], ramp: float = 0.0) -> None:
    async def run() -> None:
        finish = Finish(len(share.pieces))
        await asyncio.wait_for(run_closed_loop(share, ramp=ramp, send=sent, finish=finish), 60)

    asyncio.run(run())


def opened(share: Share, sent: Callable[[Piece, int | None], Awaitable[None]], lead: float = 0.05) -> int:
    async def run() -> int:
        begin = time.perf_counter_ns() + round((lead + 0.05) * NS)
        finish = Finish(len(share.pieces))
        await asyncio.wait_for(run_open_loop(share, begin_ns=begin, lead=lead, send=sent, finish=finish), 60)
        return begin

    return asyncio.run(run())


def test_a_closed_loop_keeps_its_connections_busy_until_the_last_measured_request_has_ended() -> None:
    sent = Sent()
    closed(Share(block_of(closed_loop(4), 24), closed_loop(4)), sent, ramp=0.02)
    assert len(sent.measured) == 24
    assert sent.most == 4
    assert {row[1] for row in sent.rows} == {None, "warm-up", "fill"}
    # what runs at the end is broken off, not waited for
    assert max(row[3] for row in sent.rows) < max(row[4] for row in sent.measured)


def test_a_late_answer_does_not_move_the_next_request() -> None:
    traffic, stall = open_loop(50, "constant"), 0.5
    block = block_of(traffic, 20)
    first = block.jobs[0].pair_id
    sent = Sent(seconds=lambda pair: stall if pair == first else 0.01)
    begin = opened(Share(block, traffic), sent)
    by_pair = {row[0]: row for row in sent.measured}
    for index, job in enumerate(block.jobs):
        due = by_pair[job.pair_id][2]
        assert due is not None
        assert (due - begin) / NS == pytest.approx(index / 50, abs=1e-6)
        # sent in time although the first one blocks its connection all along: never early, and hardly late
        assert -0.001 < (by_pair[job.pair_id][3] - due) / NS < 0.4


def test_requests_wait_for_a_place_and_their_latency_counts_from_when_they_were_due() -> None:
    traffic = Traffic("constant", 50, "constant", in_flight=2)
    sent = Sent(seconds=lambda _: 0.1)
    opened(Share(block_of(traffic, 12), traffic), sent, lead=0.0)
    assert sent.most == 2
    late = [(row[3] - (row[2] or 0)) / NS for row in sent.measured]
    assert late[-1] > 0.25, "two at a time take 0.6 s for what was due in 0.24"


def test_the_load_goes_on_until_the_last_measured_request_has_ended() -> None:
    traffic = open_loop(50, "constant")
    block = block_of(traffic, 5)
    last = block.jobs[-1].pair_id
    sent = Sent(seconds=lambda pair: 0.4 if pair == last else 0.01)
    opened(Share(block, traffic), sent, lead=0.1)
    fill = [row for row in sent.rows if row[1] == "fill"]
    assert len(fill) > 5
    assert [row for row in sent.rows if row[1] == "warm-up"]
    assert all((row[2] or 0) > (sent.measured[0][2] or 0) for row in fill)


@pytest.mark.parametrize("parts", [2, 3])
def test_several_processes_together_send_what_one_sends(parts: int) -> None:
    traffic = open_loop(50, "poisson")
    block = block_of(traffic, 30)

    def first(share: Share, count: int) -> list[tuple[float, str, bool]]:
        found = []
        for due, _ in zip(arrivals_of(share, 0.5), range(count), strict=False):
            found.append((due.at, due.piece[0].pair_id, due.measured))
        return found

    whole = first(Share(block, traffic), 80)
    split = [item for part in range(parts) for item in first(Share(block, traffic, part, parts), 80)]
    assert set(whole) <= set(split)
    measured = [item for item in split if item[2]]
    assert len(measured) == len(set(measured)) == 30


@pytest.mark.parametrize(("connections", "parts"), [(5, 2), (4, 4), (2, 3), (16, 3)])
def test_shares_of_a_closed_loop_are_the_whole(connections: int, parts: int) -> None:
    traffic = closed_loop(connections)
    block = block_of(traffic, 48)
    shares = [Share(block, traffic, part, parts) for part in range(parts)]
    assert sorted(index for share in shares for index in share.connections) == list(range(connections))
    pairs = [job.pair_id for share in shares for piece in share.pieces for job in piece]
    assert sorted(pairs) == sorted(job.pair_id for job in block.jobs)
    for share in shares:
        # every connection has as much to do, wherever it is
        assert len(share.pieces) == pytest.approx(48 * len(share.connections) / connections, abs=len(share.connections))


def test_a_fault_of_the_program_ends_the_block_instead_of_hanging_it() -> None:
    async def broken(_piece: Piece, _due_ns: int | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened(Share(block_of(open_loop(50), 5), open_loop(50)), broken)
    with pytest.raises(ZeroDivisionError):
        closed(Share(block_of(closed_loop(2), 8), closed_loop(2)), broken)
