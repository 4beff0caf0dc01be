"""A scripted pair whose speed by draft length is known: the longer the draft, the more tokens and time a round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.wire.fake_triton import FakeTriton, Received, answer

__all__ = ["PACE", "paced_pair"]

# draft length → (tokens of a round, ms of a round); the baseline makes a token in 8 ms
PACE: Mapping[int, tuple[int, float]] = {1: (2, 14.0), 2: (3, 12.0), 4: (4, 34.0), 8: (4, 60.0)}
_BASELINE = (1, 8.0)
_OWN_POLICY = 2


def script(paces: Mapping[int, tuple[int, float]] | None) -> Callable[[Received], Iterable[Any]]:
    def play(request: Received) -> Iterable[Any]:
        limit = int(request.inputs["max_tokens"][0])
        words = [f"w{(len(request.prompt) * 7 + i) % 97} " for i in range(limit)]
        tokens, ms = _BASELINE
        if paces is not None:
            length = request.inputs.get("num_draft_tokens", [_OWN_POLICY])[0]
            tokens, ms = paces[int(length)]
        return answer(words, first_ms=4, gap_ms=ms, bundle=tokens)

    return play


@contextmanager
def paced_pair(paces: Mapping[int, tuple[int, float]] = PACE) -> Iterator[tuple[FakeTriton, FakeTriton]]:
    """(baseline, speculative), both listening."""
    with FakeTriton(script(None)) as baseline, FakeTriton(script(paces)) as speculative:
        yield baseline, speculative
