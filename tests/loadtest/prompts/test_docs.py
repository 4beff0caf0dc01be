"""docs/prompts.md says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtspec.loadtest.prompts import Prompt, load_prompts
from trtspec.loadtest.prompts.rows import _FORMS
from trtspec.spec.model import LoadTestOptions

PAGE = (Path(__file__).parents[3] / "docs" / "prompts.md").read_text(encoding="utf-8")
ALL = load_prompts("builtin").prompts


def line(members: list[Prompt]) -> str:
    sizes = sorted(len(prompt.text) for prompt in members)
    counts = [sum(prompt.language == name for prompt in members) for name in ("en", "zh")]
    languages = " / ".join(map(str, [*counts, len(members) - sum(counts)]))
    characters = f"{sizes[0]}, {sizes[len(sizes) // 2]}, {sizes[-1]}"
    limit = max(prompt.max_tokens for prompt in members)
    return f"| {members[0].category} | {members[0].entropy} | {languages} | {characters} | {limit} |\n"


@pytest.mark.parametrize("category", sorted({prompt.category for prompt in ALL}))
def test_the_table_of_categories(category: str) -> None:
    assert line([prompt for prompt in ALL if prompt.category == category]) in PAGE


def test_every_form_and_every_option_is_told() -> None:
    assert [key for key, _, _ in _FORMS if key not in PAGE] == []
    options = [
        "categories", "language", "min_prompt_chars", "max_prompt_chars", "min_prompt_tokens", "max_prompt_tokens",
        "turns", "system_prompt", "unique_prefixes", "chat_template", "input_length", "output_length",
    ]  # fmt: skip
    assert set(options) <= set(LoadTestOptions.model_fields)
    assert [name for name in options if f"--{name.replace('_', '-')}" not in PAGE] == []
