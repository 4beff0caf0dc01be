"""Deterministic toy models: the next token is a function of the tokens so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from trtspec.speculation import Chunk, Generation, LeafError, Limits, Models, fixed_length

VOCAB = 40
END = 1

Next = Callable[[Sequence[int]], int]


def target_next(ids: Sequence[int]) -> int:
    """A token that depends on the last three and on the position; END comes now and then."""
    return (3 * ids[-1] + sum(ids[-3:]) + 5 * len(ids)) % VOCAB


def draft_next(ids: Sequence[int]) -> int:
    """The target's choice in about two places of three."""
    choice = target_next(ids)
    return choice if (choice + len(ids)) % 3 else (choice + 1) % VOCAB


def scripted(prompt: Sequence[int], output: Sequence[int]) -> Next:
    """Continues `prompt` with `output` exactly, and then with END."""

    def following(ids: Sequence[int]) -> int:
        made = len(ids) - len(prompt)
        return output[made] if made < len(output) else END

    return following


def rollout(following: Next, ids: Sequence[int], count: int, end_ids: Sequence[int] = (END,)) -> list[int]:
    """`count` tokens after `ids`, cut after the first end id."""
    made: list[int] = []
    while len(made) < count:
        made.append(following([*ids, *made]))
        if made[-1] in end_ids:
            break
    return made


class ToyTarget:
    """A target leaf in the several shapes that runtimes have."""

    def __init__(
        self, following: Next = target_next, *, echo: bool = False, omit_end: bool = False, deltas: int = 1
    ) -> None:
        self.following, self.echo, self.omit_end, self.deltas = following, echo, omit_end, deltas
        self.verified: list[tuple[int, ...]] = []
        self.streams = 0
        self.closed_early = 0
        self.end_ids: tuple[int, ...] = (END,)

    async def verify(self, ids: Sequence[int], draft: Sequence[int]) -> list[int]:
        self.verified.append(tuple(draft))
        new: list[int] = []
        for position in range(len(draft) + 1):
            new.append(self.following([*ids, *new]))
            if new[-1] in self.end_ids or position == len(draft) or new[-1] != draft[position]:
                break
        if self.omit_end and new[-1] in self.end_ids:
            new.pop()
        await asyncio.sleep(0)
        return [*ids, *new] if self.echo else new

    async def stream(self, ids: Sequence[int], limit: int) -> AsyncGenerator[Sequence[int], None]:
        self.streams += 1
        new = rollout(self.following, ids, limit, self.end_ids)
        if self.omit_end and new[-1] in self.end_ids:
            new.pop()
        try:
            for start in range(0, len(new), self.deltas):
                await asyncio.sleep(0)
                piece = new[start : start + self.deltas]
                yield [*ids, *piece] if self.echo and start == 0 else piece
        except GeneratorExit:
            self.closed_early += 1
            raise


class ToyDraft:
    """A draft leaf; `broken` replaces its answers from the second call on."""

    def __init__(
        self,
        following: Next = draft_next,
        *,
        echo: bool = False,
        broken: Callable[[list[int]], list[int]] | None = None,
    ) -> None:
        self.following, self.echo, self.broken = following, echo, broken
        self.asked: list[int] = []

    async def propose(self, ids: Sequence[int], count: int) -> list[int]:
        self.asked.append(count)
        new = rollout(self.following, ids, count)
        await asyncio.sleep(0)
        if self.broken is not None and len(self.asked) > 1:
            return self.broken(new)
        return [*ids, *new] if self.echo else new


def failing(new: list[int]) -> list[int]:
    raise LeafError("the draft has no memory left")


def letters(ids: Sequence[int]) -> str:
    """One character for each id; END is invisible, as special tokens are."""
    return "".join("" if token == END else chr(ord("0") + token) for token in ids)


def run(
    prompt: Sequence[int],
    limits: Limits,
    target: ToyTarget,
    draft: ToyDraft | None = None,
    length: int = 4,
    *,
    decode: Callable[[Sequence[int]], str] = letters,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Chunk]:
    """All chunks of one request."""

    async def collect() -> list[Chunk]:
        target.end_ids = (*limits.end_ids, *limits.stop_ids)
        generation = Generation(prompt, limits, Models(target, decode, draft), fixed_length(length))
        return [chunk async for chunk in generation.chunks(cancelled)]

    return asyncio.run(collect())


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def ids_of(chunks: Sequence[Chunk]) -> list[int]:
    return [token.id for chunk in chunks for token in chunk.tokens]
