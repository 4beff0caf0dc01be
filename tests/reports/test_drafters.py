"""Who drafted stands at the head of a report."""

from __future__ import annotations

from typing import Any

import pytest

from trtspec.reports.view import _pair_names


@pytest.mark.parametrize(
    ("draft", "names"),
    [
        ({"checkpoint": "/models/small"}, ["target big", "draft small"]),
        ({"checkpoint": "/models/small", "method": "model"}, ["target big", "draft small"]),
        ({"checkpoint": None, "method": "ngram"}, ["target big", "draft: prompt lookup"]),
        ({"checkpoint": "/models/small", "method": "lookup"}, ["target big", "draft small", "prompt lookup first"]),
    ],
)
def test_the_subtitle_says_who_drafts(draft: dict[str, Any], names: list[str]) -> None:
    assert _pair_names({"target": {"checkpoint": "/models/big"}, "draft": draft}) == names
