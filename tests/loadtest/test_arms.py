"""Starting the two servers under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtspec.loadtest import arms


class _Notes:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class _Options:
    urls: dict[str, str] | None = None


def test_starting_the_servers_is_told_before_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reporter: Any = _Notes()
    seen: list[int] = []

    def start(*_: object) -> arms.ArmServer:
        seen.append(len(reporter.notes))
        return arms.ArmServer("127.0.0.1:1")

    monkeypatch.setattr(arms, "_start", start)
    given: Any = tmp_path
    options: Any = _Options()
    with arms.open_arms(given, options, given, reporter) as servers:
        assert set(servers) == {"baseline", "speculative"}
    assert seen == [1, 1]
    options.urls = {"baseline": "a:1", "speculative": "b:2"}
    with arms.open_arms(given, options, given, reporter):
        pass
    assert reporter.notes == ["starting both arms' servers"]
