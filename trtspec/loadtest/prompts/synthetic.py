"""Prompts made of random words, for a load of given lengths: they say nothing about acceptance."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

from trtspec.errors import UsageError
from trtspec.loadtest.prompts.builtin import builtin_prompts
from trtspec.loadtest.prompts.prompt import BUILTIN_60, DEFAULT_MAX_TOKENS, RANDOM, Prompt, PromptSet
from trtspec.loadtest.tokens import TextTokens

__all__ = ["Lengths", "made_prompts"]

_COUNT = 200
_WORDS = (20, 80)
_LONGEST = 1_000_000


@dataclass(frozen=True)
class Lengths:
    """How long made-up prompts and their answers are, in tokens: (least, most), each equally likely.

    None: 20 to 80 words, answers of at most 128 tokens. An answer may always end earlier.
    """

    input: tuple[int, int] | None = None
    output: tuple[int, int] | None = None

    @classmethod
    def parse(cls, given_input: str | None, given_output: str | None) -> Lengths:
        """From "512" or "256-1024"; UsageError when it is neither."""
        return cls(_range("--input-length", given_input), _range("--output-length", given_output))


def _range(option: str, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", text.replace(" ", ""))
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most <= _LONGEST:
        raise UsageError(f"{option} {text!r} is no number of tokens", fix=f"{option} 512, or {option} 256-1024")
    return least, most


def made_prompts(seed: int, lengths: Lengths, tokens: TextTokens | None = None) -> PromptSet:
    """200 prompts of random words, the same for the same seed; UsageError when tokens cannot be counted."""
    rng = random.Random(seed)  # noqa: S311 - reproducible words, no secret
    words = sorted({word for prompt in builtin_prompts(BUILTIN_60).prompts for word in prompt.text.split()})
    texts = [_text(words, rng, lengths, tokens) for _ in range(_COUNT)]
    limits = [rng.randint(*lengths.output) if lengths.output else DEFAULT_MAX_TOKENS for _ in texts]
    prompts = tuple(
        Prompt(f"random-{i + 1:03d}", "random", text, limit)
        for i, (text, limit) in enumerate(zip(texts, limits, strict=True))
    )
    sha256 = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return PromptSet(prompts, RANDOM, sha256, synthetic=True, form="random words")


def _text(words: list[str], rng: random.Random, lengths: Lengths, tokens: TextTokens | None) -> str:
    if lengths.input is None:
        return " ".join(rng.choices(words, k=rng.randint(*_WORDS)))
    if tokens is None:
        fix = "--tokenizer FOLDER of the target's checkpoint"
        raise UsageError("--input-length: tokens cannot be counted without a tokenizer", fix=fix)
    count = rng.randint(*lengths.input)
    return tokens.made_of(rng.choices(words, k=count), count)
