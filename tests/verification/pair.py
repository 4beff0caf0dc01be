"""Scripted arms: greedy answers that part where they are told to, and samples of a known distribution."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.wire.fake_triton import Received, Reply

__all__ = ["Script", "sampler", "speaker"]

Script = Callable[[Received], Iterable[Any]]


def speaker(ending: Callable[[Received], str] | str = "", logits: tuple[float, ...] | None = None) -> Script:
    """Says "a b " and then an ending; asked as a leaf model it gives `logits` (None: token details are not known)."""

    def script(request: Received) -> Iterable[Any]:
        if request.model == "tensorrt_llm":
            return [Reply(1, None, logits=logits), Reply(1, None, final=True)]
        last = ending if isinstance(ending, str) else ending(request)
        words = ["a ", "b ", *([last] if last else [])]
        # the id of an ending is its length
        ids = (1, 2, *([len(last)] if last else []))
        details: dict[str, Any] = {}
        if logits is not None:
            details = {"token_ids": ids, "token_texts": tuple(words), "prompt_ids": (7, 8)}
        return [Reply(1, "".join(words), len(words), **details), Reply(1, None, final=True)]

    return script


def sampler(weights: Sequence[float], *, details: bool = True, seeded: bool = True) -> Script:
    """Draws every token with these weights, by the request's seed."""

    def script(request: Received) -> Iterable[Any]:
        seed = request.inputs["seed"][0] if seeded else random.getrandbits(60)
        rng = random.Random(f"{seed}/{request.prompt}")
        limit = int(request.inputs["max_tokens"][0])
        ids = tuple(rng.choices(range(len(weights)), weights, k=limit))
        words = tuple(f"w{token} " for token in ids)
        told: dict[str, Any] = {"token_ids": ids, "token_texts": words} if details else {}
        return [Reply(0, "".join(words), limit, **told), Reply(0, None, final=True)]

    return script
