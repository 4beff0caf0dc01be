"""The requests of a load level in the order in which they are sent. Pure, and the same for the same seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from trtspec.loadtest.arrivals import Traffic, closed_loop, schedule
from trtspec.loadtest.prompts import Prompt, draw

__all__ = ["Job", "Shape", "chains", "measured_jobs", "nonce"]

_SEED_STRIDE = 1_000_003
# a client that disconnects does so within this share of the output limit
_DISCONNECT_WITHIN = 0.5


@dataclass(frozen=True)
class Job:
    """One request to be sent, in either arm.

    `at`: when it is due, in seconds from its block's begin (open loop). `session` and `turn`: jobs of one session are
    sent in order by one client. `disconnect_after`: the client leaves after so many tokens. `nonce` makes its prompt's
    beginning unlike any other's.
    """

    prompt: Prompt
    pair_id: str
    seed: int
    max_tokens: int
    excluded: str | None = None
    at: float | None = None
    session: str | None = None
    turn: int | None = None
    disconnect_after: int | None = None
    nonce: str | None = None


@dataclass(frozen=True)
class Shape:
    """What a plan is made from.

    Levels are the closed loops of `concurrency`, then `traffic`. `limit` cuts a trace or a profile, `duration`
    (seconds) any open loop. `disconnect` is the share of clients that leave early. `unique_prefixes`: no two prompts
    begin alike, so that a cache of prefixes stays cold. `few_turns`: arms take turns as seldom as everywhere above
    concurrency 1, where changing to the other one takes long.
    """

    concurrency: tuple[int, ...]
    requests: int
    warmup: int
    seed: int
    max_tokens: int | None = None
    traffic: tuple[Traffic, ...] = ()
    limit: int | None = None
    duration: float | None = None
    disconnect: float = 0.0
    unique_prefixes: bool = False
    few_turns: bool = False

    @property
    def levels(self) -> tuple[Traffic, ...]:
        """All levels in order."""
        return (*map(closed_loop, self.concurrency), *self.traffic)


def measured_jobs(prompts: Sequence[Prompt], shape: Shape, position: int, number: int) -> list[Job]:
    """The jobs of round `number` of the level at `position`; those of an open loop with their times from its begin.

    No prompt comes twice before all have come once, categories are even, also from one round to the next.
    """
    traffic = shape.levels[position]
    begin, end = number * shape.requests, (number + 1) * shape.requests
    if traffic.closed:
        return _numbered(_drawn(prompts, shape, position, end), shape, position)[begin:]
    times = _times(traffic, shape, None if traffic.ends else end)
    if traffic.ends:
        begin, end = (0, len(times)) if number == 0 else (len(times), len(times))
    drawn = traffic.prompts or _drawn(prompts, shape, position, min(end, len(times)))
    return _timed(_numbered(drawn, shape, position)[begin:end], times[begin:end])


def chains(jobs: Sequence[Job]) -> list[tuple[Job, ...]]:
    """`jobs` in pieces that one client sends in order: a session's turns together, every other job alone."""
    keyed = groupby(enumerate(jobs), key=lambda item: item[1].session or item[0])
    return [tuple(job for _, job in group) for _, group in keyed]


def nonce(*parts: object) -> str:
    """Eight letters that hardly any other `parts` give."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:8]


def _drawn(prompts: Sequence[Prompt], shape: Shape, position: int, count: int) -> list[Prompt]:
    """At least `count` prompts, whole sessions of them."""
    rng = random.Random(f"{shape.seed}/{shape.levels[position].label}/{position}")  # noqa: S311 - order, no secret
    sessions = {first.id: turns for turns in _sessions(prompts) if (first := turns[0])}
    drawn: list[Prompt] = []
    for first in draw([turns[0] for turns in sessions.values()], count, rng):
        if len(drawn) >= count:
            break
        drawn += sessions[first.id]
    return drawn


def _sessions(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    found: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        found.setdefault(f"prompt {prompt.id}" if prompt.session is None else prompt.session, []).append(prompt)
    return [sorted(turns, key=lambda prompt: prompt.turn or 0) for turns in found.values()]


def _times(traffic: Traffic, shape: Shape, count: int | None) -> list[float]:
    rng = random.Random(f"{shape.seed}/arrivals")  # noqa: S311 - reproducible times, no secret
    times = schedule(traffic, rng, count=shape.limit if count is None else count)
    return [time for time in times if shape.duration is None or time <= shape.duration]


def _timed(jobs: Sequence[Job], times: Sequence[float]) -> list[Job]:
    """`jobs` with the times at which their chains begin."""
    pieces = zip(chains(jobs), times, strict=False)
    return [replace(job, at=time) for piece, time in pieces for job in piece]


def _numbered(prompts: Sequence[Prompt], shape: Shape, position: int) -> list[Job]:
    times: dict[str, int] = {}
    jobs = []
    for index, prompt in enumerate(prompts):
        times[prompt.id] = times.get(prompt.id, 0) + 1
        again = "" if times[prompt.id] == 1 else f"~{times[prompt.id]}"
        jobs.append(_job(prompt, f"{prompt.id}{again}", again, (shape, position, index)))
    return jobs


def _job(prompt: Prompt, pair_id: str, again: str, place: tuple[Shape, int, int]) -> Job:
    shape, position, index = place
    limit = shape.max_tokens or prompt.max_tokens
    key = (shape.seed, shape.levels[position].label, pair_id)
    session = None if prompt.session is None else f"{prompt.session}{again}"
    return Job(
        prompt,
        pair_id,
        shape.seed * _SEED_STRIDE + index,
        limit,
        session=session,
        turn=prompt.turn,
        disconnect_after=_disconnect_after(shape.disconnect, limit, key),
        # one for a session, whose later turns begin with what is known
        nonce=nonce(shape.seed, shape.levels[position].label, session or pair_id) if shape.unique_prefixes else None,
    )


def _disconnect_after(share: float, limit: int, key: tuple[object, ...]) -> int | None:
    """Tokens after which this client leaves, the same in both arms; None: it stays."""
    if not share:
        return None
    rng = random.Random(f"disconnect/{'/'.join(map(str, key))}")  # noqa: S311 - reproducible, no secret
    leaves = rng.random() < share
    return 1 + int(rng.random() * _DISCONNECT_WITHIN * limit) if leaves else None
