"""Which GPUs each of several programs gets, so that two that run at once do not meet on one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from trtspec.building.tensorrt.steps import Product

__all__ = ["Devices", "gpus_needed"]


def gpus_needed(product: Product, count: int) -> int:
    """GPUs that a product's programs use where `count` are there.

    trtllm-build has one worker a rank, quantize.py spreads the model over all GPUs, a conversion needs one at most.
    """
    stage = product.commands(product.folder)[0].stage
    if stage == "quantize":
        return count
    wanted = product.request.tp * product.request.pp if stage == "build" else 1
    return min(wanted, count)


class Devices:
    """GPUs by name, handed out; with `share` a GPU may be given twice when no other is left."""

    def __init__(self, names: Sequence[str], *, share: bool) -> None:
        self._used = Counter(dict.fromkeys(names, 0))
        self._share = share

    def take(self, count: int) -> tuple[str, ...] | None:
        """`count` GPUs, the least used first; None when they are not free."""
        order = sorted(self._used, key=lambda name: self._used[name])[:count]
        if not self._share and any(self._used[name] for name in order):
            return None
        self._used.update(order)
        return tuple(order)

    def give_back(self, names: Iterable[str]) -> None:
        """They are free again."""
        self._used.subtract(list(names))
