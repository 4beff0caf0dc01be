"""Which prompts of a set are asked, and with which system prompt."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trtspec.errors import UsageError
from trtspec.loadtest.prompts.prompt import Prompt, PromptSet

__all__ = ["PromptChoice", "choose"]

Count = Callable[[str], int]


@dataclass(frozen=True)
class PromptChoice:
    """What is asked of a set of prompts; empty or None: no demand.

    Lengths (least, most) are of what one turn adds to its conversation, without system prompt, template and unique
    prefix; a session is kept only whole. `turns`: at most so many turns of a session are asked. `system` goes before
    every conversation that brings no system prompt of its own.
    """

    categories: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    characters: tuple[int | None, int | None] = (None, None)
    tokens: tuple[int | None, int | None] = (None, None)
    turns: int | None = None
    system: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What was asked for, for provenance; the system prompt as its hash and length."""
        text = self.system
        values = {
            "categories": list(self.categories),
            "language": list(self.language),
            "min_prompt_chars": self.characters[0],
            "max_prompt_chars": self.characters[1],
            "min_prompt_tokens": self.tokens[0],
            "max_prompt_tokens": self.tokens[1],
            "turns": self.turns,
            "system_prompt": None if text is None else {"sha256": _sha256(text), "characters": len(text)},
        }
        return {name: value for name, value in values.items() if value not in (None, [])}


def choose(prompts: PromptSet, choice: PromptChoice, count: Count | None = None) -> PromptSet:
    """The prompts that `choice` leaves, in the same order; `count` gives the tokens of a text.

    UsageError for a category or language that the set does not have, for token lengths without a tokenizer, and when
    nothing is left.
    """
    if choice.tokens != (None, None) and count is None:
        fix = "--tokenizer FOLDER of the target's checkpoint, or --max-prompt-chars"
        raise UsageError("prompt lengths in tokens need a tokenizer", fix=fix)
    left: Iterable[Prompt] = _of_few_turns(prompts.prompts, choice.turns)
    left = _named(list(left), choice.categories, "category", "--categories")
    left = _named(list(left), choice.language, "language", "--language")
    left = _fitting(list(left), [(len, choice.characters), (count or len, choice.tokens)])
    chosen = tuple(_with_system(prompt, choice.system) for prompt in left)
    if not chosen:
        raise UsageError(
            f"no prompt is left of {len(prompts.prompts)}",
            where=prompts.source,
            fix=f"wider limits: {_lengths(prompts)}",
        )
    return replace(prompts, prompts=chosen, filters=choice.as_json(), available=len(prompts.prompts))


def _of_few_turns(prompts: Sequence[Prompt], turns: int | None) -> list[Prompt]:
    if turns is None:
        return list(prompts)
    left = [prompt for prompt in prompts if prompt.turn is None or prompt.turn < turns]
    sizes = Counter(prompt.session for prompt in left)
    return [replace(one, session=None, turn=None) if one.session and sizes[one.session] == 1 else one for one in left]


def _named(prompts: list[Prompt], wanted: tuple[str, ...], field: str, option: str) -> list[Prompt]:
    if not wanted:
        return prompts
    known = Counter(getattr(prompt, field) for prompt in prompts)
    missing = [name for name in wanted if name not in known]
    if missing:
        names = ", ".join(sorted(str(name) for name in known if name is not None))
        fix = f"there are: {names}" if names else f"leave out {option}: the prompts carry no {field}"
        raise UsageError(f"no prompts of {field} {', '.join(missing)}", fix=fix)
    return [prompt for prompt in prompts if getattr(prompt, field) in wanted]


def _fitting(prompts: list[Prompt], limits: Sequence[tuple[Count, tuple[int | None, int | None]]]) -> list[Prompt]:
    used = [(count, least or 0, most) for count, (least, most) in limits if (least, most) != (None, None)]

    def fits(prompt: Prompt) -> bool:
        sizes = ((count(prompt.content), least, most) for count, least, most in used)
        return all(least <= size and (most is None or size <= most) for size, least, most in sizes)

    if not used:
        return prompts
    conversations: dict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        conversations[_conversation(prompt)].append(prompt)
    kept = {name for name, turns in conversations.items() if all(map(fits, turns))}
    return [prompt for prompt in prompts if _conversation(prompt) in kept]


def _conversation(prompt: Prompt) -> str:
    return f"prompt {prompt.id}" if prompt.session is None else f"session {prompt.session}"


def _with_system(prompt: Prompt, system: str | None) -> Prompt:
    messages: tuple[Mapping[str, str], ...] = prompt.messages or ({"role": "user", "content": prompt.text},)
    has_own = messages[0]["role"] in {"system", "developer"}
    if system is None or prompt.turn or has_own:
        return prompt
    return replace(prompt, messages=({"role": "system", "content": system}, *messages))


def _lengths(prompts: PromptSet) -> str:
    sizes = sorted(len(prompt.content) for prompt in prompts.prompts)
    return f"they have {sizes[0]} to {sizes[-1]} characters, half of them at most {sizes[len(sizes) // 2]}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
