"""What prompts that come again take away: answers to the same text are no new evidence about other texts.

An interval speaks of prompts like the measured ones. How fast a prompt is depends on its text (above all its
acceptance), so a prompt that is sent five times tells hardly more about others than one that is sent once, and two load
levels with the same prompts are off in the same direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.pairing import Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["clusters", "likeness"]


def clusters(pairs: Pairs) -> NDArray[Any]:
    """0, 1, 2, … for every pair: equal for the same prompt, and for prompts that are turns of the same session."""
    import numpy as np

    table, rows = pairs.table, pairs.baseline
    prompts, of_prompt = np.unique(table.prompt[rows], return_inverse=True)
    session = table.session[rows].astype(np.int64)
    owner = np.full(len(prompts), np.iinfo(np.int64).max)
    np.minimum.at(owner, of_prompt[session >= 0], session[session >= 0])
    # prompts without a session stand behind all sessions, each for itself
    alone = owner == np.iinfo(np.int64).max
    owner[alone] = len(table.names) + prompts[alone]
    found: NDArray[Any] = np.unique(owner, return_inverse=True)[1][of_prompt]
    return found


def likeness(cluster: NDArray[Any], levels: Sequence[tuple[NDArray[Any], bool]]) -> NDArray[Any]:
    """[levels, levels]: how the levels' errors go together (`trtspec.loadtest.intervals.Strata`).

    `levels` are the indices of each level's pairs and whether its units are clusters, which then count once each.
    **Formula:** Σ n[k, c] n[l, c] / √(Σ n[k, c] x Σ n[l, c]) over clusters c, n[k, c] being how often cluster c comes
    in level k: 1 for a level that repeats nothing, the share of common prompts for two such levels. It takes all
    scatter to be the prompts', so intervals over repeated prompts are rather too wide than too narrow.
    """
    import numpy as np

    size = int(cluster.max()) + 1 if len(cluster) else 0
    counts = [np.bincount(cluster[chosen], minlength=size) for chosen, _ in levels]
    counts = [np.minimum(count, 1) if once else count for count, (_, once) in zip(counts, levels, strict=True)]
    found = np.eye(len(levels))
    for k, one in enumerate(counts):
        for m, other in enumerate(counts):
            found[k, m] = int((one * other).sum()) / np.sqrt(int(one.sum()) * int(other.sum()))
    return found
