"""The package's own prompts: written for it, in twelve categories from copying to stories."""

from __future__ import annotations

from importlib import resources

from trtspec.loadtest.prompts.parsing import parse
from trtspec.loadtest.prompts.prompt import BUILTIN, BUILTIN_60, Prompt, PromptSet

__all__ = ["builtin_prompts", "warmup_prompts"]


def builtin_prompts(name: str) -> PromptSet:
    """All built-in prompts, or for "builtin-60" the 60 of six categories that the demo's draft was measured with."""
    text = _data("prompts.jsonl")
    if name == BUILTIN:
        folder = resources.files("trtspec.loadtest") / "data" / "builtin"
        files = sorted((file for file in folder.iterdir() if file.name.endswith(".jsonl")), key=lambda file: file.name)
        text += "".join(file.read_text(encoding="utf-8") for file in files)
    return parse(text, "built-in prompts", name)


def warmup_prompts() -> tuple[Prompt, ...]:
    """Prompts that are never measured, for warm-up and for keeping the load up."""
    return parse(_data("warmup.jsonl"), "built-in warm-up prompts", BUILTIN_60).prompts


def _data(name: str) -> str:
    return (resources.files("trtspec.loadtest") / "data" / name).read_text(encoding="utf-8")
