"""How long an arm takes from its launch to its first answer."""

from __future__ import annotations

from typing import Any

from trtspec.loadtest.jobs import Job
from trtspec.loadtest.prompts import warmup_prompts
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import ArmClient, Place

__all__ = ["first_answer"]

COLD_START = "cold start"
_TOKENS = 8


async def first_answer(client: ArmClient, kept: list[Record], launch_seconds: float) -> dict[str, Any]:
    """Seconds of an arm whose models were ready `launch_seconds` after its launch, from its very first request.

    `launch_to_ready`, `first_token` and `first_answer` (both from the request), `launch_to_first_answer`; None with a
    reason where the request failed. `client` hands its record to the list `kept`.
    """
    prompt = warmup_prompts()[0]
    job = Job(prompt, COLD_START, 0, min(_TOKENS, prompt.max_tokens), COLD_START)
    await client.send(job, Place(COLD_START, 1, 0, 0))
    record = kept[-1]
    found: dict[str, Any] = {"launch_to_ready": launch_seconds, "first_token": None, "first_answer": None,
                             "launch_to_first_answer": None, "reason": record.error, "unit": "s"}  # fmt: skip
    if not record.ok or not record.chunks:
        return {**found, "reason": record.error or "the first answer was empty"}
    first = (record.chunks[0].t_ns - record.start_ns) * 1e-9
    whole = (record.chunks[-1].t_ns - record.start_ns) * 1e-9
    return {**found, "first_token": first, "first_answer": whole, "launch_to_first_answer": launch_seconds + whole}
