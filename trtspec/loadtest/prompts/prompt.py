"""One prompt, and a set of them with where it came from."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["BUILTIN", "BUILTIN_60", "DEFAULT_MAX_TOKENS", "HUMAN_EVAL", "RANDOM", "Entropy", "Prompt", "PromptSet"]

BUILTIN = "builtin"
BUILTIN_60 = "builtin-60"
HUMAN_EVAL = "human-eval"
RANDOM = "random"

# where neither the prompt nor the run says how long its answer may be
DEFAULT_MAX_TOKENS = 128

Entropy = Literal["low", "medium", "high"]


@dataclass(frozen=True)
class Prompt:
    """One user message, its category and how many tokens the answer may have.

    `messages` ({role, content}) are sent instead of the bare `text`, its last one the user's: a system prompt, earlier
    turns. Prompts of one `session` are its turns in order of `turn` (from 0): each is sent with the turns before and
    the answers that they got, so its own `messages` hold only what is new.

    `language`: "en" where everything is English, else the other language that message or answer is in. `entropy`: how
    freely the answer can be worded, "low" where it is mostly copied from the prompt.
    """

    id: str
    category: str
    text: str
    max_tokens: int
    messages: tuple[Mapping[str, str], ...] | None = None
    session: str | None = None
    turn: int | None = None
    language: str | None = None
    entropy: Entropy | None = None

    @property
    def content(self) -> str:
        """All that this turn adds to its conversation, without roles and template."""
        return self.text if self.messages is None else "\n\n".join(one["content"] for one in self.messages)


@dataclass(frozen=True)
class PromptSet:
    """Prompts, where they came from, the hash of what was read, and whether they are made-up words.

    `form` names the form of the file, `filters` what was asked of the set, `available` how many prompts it had before,
    `details` further facts for provenance, `note` what a person should be told.
    """

    prompts: tuple[Prompt, ...]
    source: str
    sha256: str
    synthetic: bool = False
    form: str = "trtspec"
    filters: Mapping[str, Any] = field(default_factory=dict)
    available: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None

    @property
    def selected_sha256(self) -> str:
        """Hash of the prompts that are really asked, in order: ids, texts, messages, limits, sessions."""
        rows = [
            [one.id, one.category, one.text, one.max_tokens, one.messages, one.session, one.turn]
            for one in self.prompts
        ]
        return hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """For provenance: everything but the prompts themselves."""
        return {
            "source": self.source,
            "form": self.form,
            "count": len(self.prompts),
            "available": len(self.prompts) if self.available is None else self.available,
            "categories": dict(sorted(Counter(one.category for one in self.prompts).items())),
            "sessions": len({one.session for one in self.prompts if one.session is not None}),
            "sha256": self.sha256,
            "selected_sha256": self.selected_sha256,
            "synthetic": self.synthetic,
            "filters": dict(self.filters),
            **self.details,
        }
