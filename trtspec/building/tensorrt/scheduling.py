"""Running products in the order of their needs, several at once where GPUs or the user allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from trtspec.building.tensorrt.devices import Devices, gpus_needed
from trtspec.building.tensorrt.steps import Product
from trtspec.progress import Reporter

__all__ = ["Schedule", "run_all"]

_TICK = 0.2
Make = Callable[[Product, tuple[str, ...]], None]


@dataclass
class Schedule:
    """Products to make, how many at once, and the GPUs they share; `stop` tells those that run to end."""

    products: list[Product]
    jobs: int
    gpus: tuple[str, ...]
    share: bool
    stop: Event
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class _Running:
    product: Product
    devices: tuple[str, ...]
    started: float


def run_all(schedule: Schedule, make: Make, reporter: Reporter) -> dict[str, float]:
    """Make everything; seconds by key. `make` gets a product and its GPUs (empty: all).

    When one fails no further one is started, those that run are finished, and the first error is raised. An
    interruption ends those that run.
    """
    devices = Devices(schedule.gpus if schedule.jobs > 1 else (), share=schedule.share)
    with ThreadPoolExecutor(max(1, schedule.jobs)) as pool:
        try:
            return _loop(schedule, devices, lambda item, names: pool.submit(make, item, names), reporter)
        except BaseException:
            schedule.stop.set()
            raise


def _loop(
    schedule: Schedule, devices: Devices, submit: Callable[[Product, tuple[str, ...]], Future[None]], reporter: Reporter
) -> dict[str, float]:
    waiting = list(schedule.products)
    running: dict[Future[None], _Running] = {}
    failure: BaseException | None = None
    while waiting or running:
        for product in [] if failure else _ready(waiting, running, schedule.jobs):
            names = devices.take(gpus_needed(product, len(schedule.gpus)) if schedule.jobs > 1 else 0)
            if names is not None:
                waiting.remove(product)
                running[submit(product, names)] = _Running(product, names, time.monotonic())
        for future in wait(running, timeout=_TICK, return_when=FIRST_COMPLETED).done:
            ended = running.pop(future)
            devices.give_back(ended.devices)
            schedule.seconds[ended.product.key] = time.monotonic() - ended.started
            if (error := future.exception()) is not None and failure is None:
                failure, waiting = error, []
                if running:
                    names_left = ", ".join(item.product.label for item in running.values())
                    reporter.note(f"{ended.product.label} failed; {names_left} is finished first")
    if failure is not None:
        raise failure
    return schedule.seconds


def _ready(waiting: list[Product], running: dict[Future[None], _Running], jobs: int) -> list[Product]:
    """Those whose checkpoint is there and for which there is room."""
    unfinished = {product.key for product in waiting} | {item.product.key for item in running.values()}
    free = [product for product in waiting if product.needs is None or product.needs.key not in unfinished]
    return free[: max(0, jobs - len(running))]
