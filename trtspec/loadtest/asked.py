"""The prompts of a run, as its options choose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trtspec.errors import TrtspecError, UsageError
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.prompts import (
    BUILTIN,
    BUILTIN_60,
    RANDOM,
    Lengths,
    Prompt,
    PromptChoice,
    PromptSet,
    choose,
    load_prompts,
    made_prompts,
    shared_head,
)
from trtspec.loadtest.tokens import TextTokens
from trtspec.spec import SpecFile

__all__ = ["asked_prompts"]

Render = Callable[[Sequence[Mapping[str, str]]], str]

# tokens that an answer needs at least, and those of a unique prefix
_MARGIN = 16


def asked_prompts(
    spec_file: SpecFile | None, options: RunOptions, tokens: TextTokens | None, render: Render
) -> PromptSet:
    """The prompts of the file or set that `options` name, filtered, with their system prompt.

    `render` is how a conversation becomes a request's text. UsageError for files and filters that cannot be used.
    """
    root = Path() if spec_file is None else spec_file.root
    choice = _choice(options, root)
    found = choose(_named(options, root, tokens), choice, None if tokens is None else tokens.count)
    room = None if spec_file is None else _room(spec_file)
    if room is not None and tokens is not None and options.prompts in {BUILTIN, BUILTIN_60}:
        found = _fitting(found, room, lambda prompt: _tokens(prompt, tokens, render))
    if options.unique_prefixes:
        head = shared_head(render, None if tokens is None else tokens.count, choice.system)
        found = replace(found, details={**found.details, "shared_head": head.as_json()})
    return found


def _named(options: RunOptions, root: Path, tokens: TextTokens | None) -> PromptSet:
    lengths = Lengths.parse(options.input_length, options.output_length)
    if options.prompts == RANDOM:
        return made_prompts(options.seed, lengths, tokens)
    if lengths != Lengths():
        raise UsageError(
            "--input-length and --output-length make up prompts", fix="--prompts random, or leave them out"
        )
    return load_prompts(options.prompts, root=root)


def _choice(options: RunOptions, root: Path) -> PromptChoice:
    return PromptChoice(
        options.categories,
        options.language,
        (options.min_prompt_chars, options.max_prompt_chars),
        (options.min_prompt_tokens, options.max_prompt_tokens),
        options.turns,
        _system(options.system_prompt, root),
    )


def _system(given: str | None, root: Path) -> str | None:
    """The text itself, or that of the file behind an @."""
    if given is None:
        return None
    text = given
    if given.startswith("@"):
        path = root / Path(given[1:]).expanduser()
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
            fix = "--system-prompt TEXT, or --system-prompt @FILE"
            raise UsageError(f"system prompt: {reason}", where=str(path), fix=fix) from None
    if not text.strip():
        raise UsageError("the system prompt is empty", fix="leave out --system-prompt")
    return text


def _room(spec_file: SpecFile) -> int | None:
    """Tokens that a prompt may have for the spec's engines; None where that cannot be told on this machine."""
    from trtspec.building import derived_max_seq_len

    try:
        room = derived_max_seq_len(spec_file) - _MARGIN
    except TrtspecError:
        return None
    longest = spec_file.spec.build.max_input_len
    return room if longest is None else min(room, longest)


def _tokens(prompt: Prompt, tokens: TextTokens, render: Render) -> int:
    return tokens.count(render(prompt.messages or ({"role": "user", "content": prompt.text},)))


def _fitting(prompts: PromptSet, room: int, size: Callable[[Prompt], int]) -> PromptSet:
    """Without the built-in prompts that the engines would refuse; a user's own prompts are all sent."""
    left = tuple(prompt for prompt in prompts.prompts if size(prompt) <= room)
    gone = len(prompts.prompts) - len(left)
    if not gone:
        return prompts
    limit = f"longer than the {room} tokens that the engines have for a prompt"
    if not left:
        raise UsageError(f"every built-in prompt is {limit}", fix="a longer build.max_seq_len, or prompts of your own")
    note = f"{gone} of {len(prompts.prompts)} built-in prompts are {limit} and are left out"
    return replace(prompts, prompts=left, note=note, details={**prompts.details, "too_long": gone})
