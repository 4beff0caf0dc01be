"""A warning of a summary with a name that stays, and where a report shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from trtspec.loadtest.evidence import Evidence

__all__ = ["SECTIONS", "Caveat", "Check", "found_caveats"]

# the parts of a report; "general" concerns the whole run
SECTIONS = ("general", "speed", "acceptance", "load", "server", "run", "metrics", "outputs")


@dataclass(frozen=True)
class Caveat:
    """`code` says which warning it is, for programs; `text` is for people; `section` is one of `SECTIONS`."""

    code: str
    text: str
    section: str = "general"

    def to_json(self) -> dict[str, str]:
        """For `comparison.caveats`."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """Looks for one kind of caveat."""

    code: str
    section: str
    find: Callable[[Evidence], list[str]]


def found_caveats(checks: Iterable[Check], evidence: Evidence) -> list[Caveat]:
    """What the checks find, in their order."""
    return [Caveat(check.code, text, check.section) for check in checks for text in check.find(evidence)]
