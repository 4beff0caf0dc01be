"""Who sends: the arms' clients in this process, or in several (`trtspec.loadtest.workers`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from trtspec.loadtest.arrivals import Traffic
from trtspec.loadtest.closed_loop import run_closed_loop
from trtspec.loadtest.lag import SelfCheck
from trtspec.loadtest.open_loop import run_open_loop
from trtspec.loadtest.plan import Block
from trtspec.loadtest.records import Record
from trtspec.loadtest.sender import ArmClient, Place, SendOptions
from trtspec.loadtest.share import Finish, Share
from trtspec.spec.names import Arm
from trtspec.wire.targets import Kind, open_target

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Address", "Crew", "Half", "LocalCrew", "run_half"]

# between the order to begin an open loop and its first request
_HEAD_START_NS = 5_000_000


@dataclass(frozen=True)
class Address:
    """Where an arm answers, what is there, and the model's name (None: the usual or only one)."""

    url: str
    kind: Kind = "auto"
    model: str | None = None


@dataclass(frozen=True)
class Half:
    """One arm's half of a block: `order` is 0 where it goes first. Connections start over `ramp` seconds.

    In an open loop the unmeasured load before the block lasts so long.
    """

    arm: Arm
    block: Block
    traffic: Traffic
    order: int
    ramp: float

    def place(self, worker: int | None = None) -> Place:
        """What its records say of where they belong."""
        return Place(self.traffic.label, self.traffic.concurrency, self.block.index, self.order, worker)


class Crew(Protocol):
    """Sends halves of blocks, one at a time."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def run(self, half: Half) -> None:
        """Send a half and return when its measured requests have ended; when cancelled, what runs is cancelled."""
        ...

    def down(self, arm: Arm) -> str | None:
        """Why an arm's server is given up, None while it is not."""
        ...

    async def report(self) -> dict[str, Any]:
        """What the load generator measured of itself since it was entered (`SelfCheck.result`)."""
        ...


async def run_half(client: ArmClient, half: Half, share: Share, finish: Finish, *, begin_ns: int) -> None:
    """Send `share` of a half to its arm, the block itself beginning at `begin_ns` in an open loop."""
    place = half.place(None if share.parts == 1 else share.part)
    send = partial(_send, client, place)
    if half.traffic.closed:
        await run_closed_loop(share, ramp=half.ramp, send=send, finish=finish)
    else:
        await run_open_loop(share, begin_ns=begin_ns, lead=half.ramp, send=send, finish=finish)


async def _send(client: ArmClient, place: Place, piece: Any, due_ns: int | None) -> None:
    await client.send_chain(piece, place, due_ns)


def block_begin(half: Half) -> int:
    """When an open loop's block begins if it is ordered now."""
    return time.perf_counter_ns() + round(half.ramp * 1e9) + _HEAD_START_NS


class LocalCrew:
    """Sends from this process."""

    def __init__(
        self,
        addresses: Mapping[Arm, Address],
        options: SendOptions,
        on_record: Callable[[Record], None],
        fatal: Mapping[Arm, Callable[[], str | None]] | None = None,
    ) -> None:
        self._addresses, self._options, self._on_record, self._fatal = addresses, options, on_record, fatal or {}
        self._stack = AsyncExitStack()
        self._check = SelfCheck()
        self.clients: dict[Arm, ArmClient] = {}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for arm, address in self._addresses.items():
                target = open_target(address.url, kind=address.kind, model=address.model)
                entered = await stack.enter_async_context(target)
                fatal = self._fatal.get(arm, lambda: None)
                self.clients[arm] = ArmClient(arm, entered, self._options, self._on_record, fatal)
            await stack.enter_async_context(self._check)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def run(self, half: Half) -> None:
        """See `Crew`."""
        share = Share(half.block, half.traffic)
        finish = Finish(len(share.pieces))
        await run_half(self.clients[half.arm], half, share, finish, begin_ns=block_begin(half))

    def down(self, arm: Arm) -> str | None:
        """See `Crew`."""
        return self.clients[arm].down

    async def report(self) -> dict[str, Any]:
        """See `Crew`."""
        return self._check.result()
