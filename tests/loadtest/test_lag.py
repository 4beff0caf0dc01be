"""What the load generator says about itself."""

from __future__ import annotations

import asyncio
import time

from trtspec.loadtest.lag import SelfCheck


def test_the_cpu_share_is_that_of_the_block_also_when_asked_inside_it() -> None:
    async def busy(seconds: float) -> dict[str, float]:
        async with SelfCheck() as check:
            await asyncio.sleep(0.03)
            start, wall = time.process_time(), time.perf_counter()
            while time.process_time() - start < seconds:
                pass
            expected = seconds / (time.perf_counter() - wall + 0.03)
            await asyncio.sleep(0)
            return {"share": check.result()["cpu_share"], "expected": expected}

    told = asyncio.run(busy(0.3))
    assert 0.7 * told["expected"] < told["share"] < 1.3 * told["expected"]


def test_a_blocked_loop_shows_as_lag() -> None:
    async def blocked() -> float:
        async with SelfCheck() as check:
            await asyncio.sleep(0.03)
            time.sleep(0.15)  # noqa: ASYNC251 - that is what is measured
            await asyncio.sleep(0.05)
            lag: float = check.result()["loop_lag"]["max"]
            return lag

    assert asyncio.run(blocked()) > 0.1
