"""When requests are sent: a load level by name, and the absolute schedule of an open loop. Pure and seeded."""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, get_args

from trtspec.errors import UsageError
from trtspec.loadtest.prompts import Prompt

__all__ = ["ARRIVALS", "Arrivals", "Segment", "Traffic", "closed_loop", "open_loop", "parse_profile", "schedule"]

Arrivals = Literal["constant", "poisson", "gamma", "burst"]
ARRIVALS: tuple[Arrivals, ...] = get_args(Arrivals)
Kind = Literal["concurrency", "constant", "poisson", "gamma", "burst", "steps", "trace"]
_MOST = 1e6
_MOST_REQUESTS = 10_000_000
_FOREVER = math.inf
_LEAST_RATE = 0.01


@dataclass(frozen=True)
class Segment:
    """Part of a rate profile: `rate` requests/s at its start, `until` at its end, over `seconds`."""

    rate: float
    until: float
    seconds: float

    @property
    def requests(self) -> float:
        """Expected requests. **Formula:** mean of the two rates × seconds."""
        return (self.rate + self.until) / 2 * self.seconds

    def time_of(self, requests: float) -> float:
        """Seconds from its start until `requests` are expected: the rate's integral turned round."""
        slope = (self.until - self.rate) / self.seconds if math.isfinite(self.seconds) else 0.0
        if slope == 0:
            return requests / self.rate
        return (math.sqrt(max(0.0, self.rate * self.rate + 2 * slope * requests)) - self.rate) / slope


@dataclass(frozen=True)
class Traffic:
    """One load level.

    `value` is the connections of a closed loop, the requests/s of an open one (of a profile: its mean), of a trace the
    speed at which it is replayed. `burstiness` is the shape of the gamma distribution of the gaps (1: Poisson, smaller:
    burstier), `burst` how many requests a burst holds, `in_flight` how many an open loop may have running (None: any
    number). `times` are the seconds at which a trace's requests are due, `prompts` what they ask (empty: any).
    """

    kind: Kind
    value: float
    arrivals: Arrivals = "poisson"
    burstiness: float = 1.0
    burst: int = 1
    segments: tuple[Segment, ...] = ()
    in_flight: int | None = None
    times: tuple[float, ...] = field(default=(), repr=False)
    prompts: tuple[Prompt, ...] = field(default=(), repr=False)

    @property
    def ends(self) -> bool:
        """True for a schedule that comes to its own end."""
        return self.kind in {"steps", "trace"}

    @property
    def closed(self) -> bool:
        """True for a closed loop."""
        return self.kind == "concurrency"

    @property
    def concurrency(self) -> int:
        """Connections of a closed loop; of an open one the limit of requests in flight, 1 where there is none."""
        return int(self.value) if self.closed else self.in_flight or 1

    @property
    def label(self) -> str:
        """The level's name in records: "concurrency 4", "poisson 5/s", "steps", "trace"."""
        if self.closed:
            return f"concurrency {int(self.value)}"
        return self.kind if self.ends else f"{self.kind} {self.value:g}/s"

    @property
    def profile(self) -> tuple[Segment, ...]:
        """Its rate over time."""
        return self.segments or (Segment(self.value, self.value, _FOREVER),)

    def rate_at(self, seconds: float) -> float:
        """Requests/s of an open loop at a time from its begin; of a trace its mean. Never 0."""
        if self.kind == "trace":
            span = (self.times[-1] - self.times[0]) / self.value if self.times else 0.0
            return len(self.times) / span if span > 0 else 1.0
        for segment in self.profile:
            if seconds <= segment.seconds or segment is self.profile[-1]:
                share = min(1.0, seconds / segment.seconds)
                return max(_LEAST_RATE, segment.rate + share * (segment.until - segment.rate))
            seconds -= segment.seconds
        return _LEAST_RATE


def closed_loop(connections: int) -> Traffic:
    """A closed loop of `connections`."""
    return Traffic("concurrency", connections)


def open_loop(rate: float, arrivals: Arrivals = "poisson", *, burstiness: float = 1.0, burst: int = 1) -> Traffic:
    """An open loop of `rate` requests/s."""
    return Traffic(arrivals, rate, arrivals, burstiness, burst)


_PART = re.compile(r"(?P<rate>\d+(?:\.\d+)?)(?:\.\.(?P<until>\d+(?:\.\d+)?))?(?:/s)?:(?P<seconds>\d+(?:\.\d+)?)s?")


def parse_profile(text: str) -> tuple[Segment, ...]:
    """The segments of `RATE:SECONDS` (a step) and `FROM..TO:SECONDS` (a ramp), separated by commas.

    UsageError names the part that is neither.
    """
    segments = []
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(
                f"profile: {part!r} is neither a step nor a ramp", fix="--profile 2:30,2..10:60 (requests/s:seconds)"
            )
        rate, seconds = float(match["rate"]), float(match["seconds"])
        segment = Segment(rate, float(match["until"]) if match["until"] else rate, seconds)
        if segment.requests <= 0 or max(segment.rate, segment.until) > _MOST:
            raise UsageError(f"profile: {part!r} sends nothing, or more than {_MOST:,.0f} requests/s")
        segments.append(segment)
    expected = sum(segment.requests for segment in segments)
    if expected > _MOST_REQUESTS:
        raise UsageError(f"profile: it sends {expected:,.0f} requests, more than {_MOST_REQUESTS:,}")
    return tuple(segments)


def schedule(traffic: Traffic, rng: random.Random, *, count: int | None = None) -> list[float]:
    """Seconds from the level's begin at which its requests are due, in order; at most `count`, which endless ones need.

    Times are absolute: what is late does not move what follows. Arrivals are drawn at one request per unit of expected
    requests and then set on the clock by the profile, so the same seed gives the same pattern at every rate.
    """
    if traffic.kind == "trace":
        return [time / traffic.value for time in traffic.times[:count]]
    bounds = list(accumulate(segment.requests for segment in traffic.profile))
    times: list[float] = []
    for expected in _unit_arrivals(traffic, rng):
        if expected > bounds[-1] or (count is not None and len(times) >= count):
            break
        times.append(_on_the_clock(traffic.profile, bounds, expected))
    return times


def _on_the_clock(profile: Sequence[Segment], bounds: Sequence[float], expected: float) -> float:
    index = min(bisect_right(bounds, expected), len(profile) - 1)
    before = sum(segment.seconds for segment in profile[:index])
    return before + profile[index].time_of(expected - (bounds[index - 1] if index else 0.0))


def _unit_arrivals(traffic: Traffic, rng: random.Random) -> Iterator[float]:
    """Arrival places at one request per unit, without end."""
    place = 0.0
    if traffic.arrivals == "constant":
        while True:
            yield place
            place += 1.0
    if traffic.arrivals == "burst":
        while True:
            yield from [place] * traffic.burst
            place += traffic.burst
    # shape 1 is the exponential distribution, so its process is Poisson
    shape = traffic.burstiness if traffic.arrivals == "gamma" else 1.0
    while True:
        place += rng.gammavariate(shape, 1.0 / shape)
        yield place
