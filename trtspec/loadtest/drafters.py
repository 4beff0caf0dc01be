"""Who drafted: the text itself or a model, counted by a server that looks drafts up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.table import UNKNOWN, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DRAFTERS", "by_drafter"]

# in the order of being asked
DRAFTERS = ("text", "model")


def _row(counts: Sequence[int], output_tokens: int | None) -> dict[str, Any]:
    """Rounds, drafted and accepted tokens of one drafter, and what follows from them.

    **Formulas:** acceptance rate = accepted / drafted; mean acceptance length = 1 + accepted / rounds; output share =
    accepted / output tokens of all answers.
    """
    rounds, drafted, accepted = counts
    return {
        "num_spec_steps": rounds,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if drafted else None,
        "mean_acceptance_length": 1 + accepted / rounds if rounds else None,
        "output_share": accepted / output_tokens if output_tokens else None,
    }


def by_drafter(table: Table, rows: NDArray[Any], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Drafter → what it did for the requests `rows`; empty where the server does not tell, or tells nonsense.

    `names`: those that are told of, without it the text, and a model where one drafted anything.
    """
    found = _counts(table, rows)
    if found is None:
        return {}
    if names is None:
        names = DRAFTERS if any(found["model"]) else DRAFTERS[:1]
    made = table.output_tokens[rows]
    tokens = None if (made == UNKNOWN).any() else int(made.sum())
    return {name: _row(found[name], tokens) for name in names}


_TEXT = ("lookup_steps", "lookup_drafted", "lookup_accepted")
_TOTAL = ("steps", "drafted", "accepted")


def _counts(table: Table, rows: NDArray[Any]) -> Mapping[str, Sequence[int]] | None:
    """Rounds, drafted and accepted tokens of each; None where a request does not tell, or tells nonsense."""
    columns = [
        (getattr(table, part)[rows], getattr(table, whole)[rows]) for part, whole in zip(_TEXT, _TOTAL, strict=True)
    ]
    if not len(rows) or any(((part == UNKNOWN) | (part > whole)).any() for part, whole in columns):
        return None
    sums = [(int(part.sum()), int(whole.sum())) for part, whole in columns]
    return {"text": [part for part, _ in sums], "model": [whole - part for part, whole in sums]}
