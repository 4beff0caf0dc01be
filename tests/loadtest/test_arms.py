"""Starting the two servers under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtspec.loadtest import RunOptions, arms


class _Notes:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_starting_the_servers_is_told_before_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reporter: Any = _Notes()
    seen: list[int] = []

    def start(*_: object) -> arms.ArmServer:
        seen.append(len(reporter.notes))
        return arms.ArmServer("127.0.0.1:1")

    monkeypatch.setattr(arms._Launcher, "start", start)
    given: Any = tmp_path
    with arms.open_arms(given, RunOptions(), given, reporter) as servers:
        assert set(servers) == {"baseline", "speculative"}
    assert seen == [1, 1]
    urls: Any = {"baseline": "a:1", "speculative": "b:2"}
    with arms.open_arms(given, RunOptions(urls=urls), given, reporter) as servers:
        assert servers["baseline"].grpc == "a:1"
    assert reporter.notes == ["starting both arms' servers"]


def test_an_aa_run_starts_one_server_for_both_arms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reporter: Any = _Notes()
    started: list[str] = []

    def start(_launcher: object, arm: str, _servers: object) -> arms.ArmServer:
        started.append(arm)
        return arms.ArmServer("http://127.0.0.1:1")

    monkeypatch.setattr(arms._Launcher, "start", start)
    given: Any = tmp_path
    with arms.open_arms(given, RunOptions(aa=True), given, reporter) as servers:
        assert servers["baseline"] is servers["speculative"]
    assert started == ["baseline"]


@pytest.mark.parametrize(
    ("urls", "shared"),
    [
        ({}, True),
        ({"baseline": "http://a:8000", "speculative": "http://b:8000"}, False),
        ({"baseline": "http://a:8000/v1", "speculative": "http://a:8001/v1"}, None),
    ],
)
def test_what_is_known_of_the_hardware_under_the_arms(urls: Any, shared: bool | None) -> None:
    found = arms.placement(RunOptions(urls=urls))
    assert found["shared"] is shared
    assert found["under_load_at_once"] is False
    assert found["reason"]


def test_metrics_are_looked_for_where_servers_usually_export_them(tmp_path: Path) -> None:
    given: Any = tmp_path
    urls: Any = {"baseline": "http://gpu1:8000", "speculative": "http://gpu2:9999"}
    with arms.open_arms(None, RunOptions(urls=urls), given, given) as servers:
        assert servers["baseline"].metrics == "http://gpu1:8002/metrics"
        assert servers["speculative"].metrics is None


class _Server:
    """A server that is started and stopped."""

    def __init__(self, log: list[str], arm: str) -> None:
        self._log, self._arm = log, arm
        log.append(f"+{arm}")

    def fatal(self) -> str | None:
        return f"{self._arm} {len(self._log)}"

    def stop(self) -> None:
        self._log.append(f"-{self._arm}")


def test_servers_that_do_not_fit_beside_each_other_take_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log: list[str] = []
    reporter: Any = _Notes()

    def launch(_launcher: object, arm: str) -> tuple[Any, arms.ArmServer]:
        server = _Server(log, arm)
        return server, arms.ArmServer(f"http://{arm}:1", server.fatal, grpc=f"{arm}:2", launch_seconds=1.0)

    monkeypatch.setattr(arms._Launcher, "plan", lambda _launcher, arm: arm)
    monkeypatch.setattr(arms._Launcher, "launch", launch)
    given: Any = tmp_path
    with arms.open_arms(given, RunOptions(servers="one"), given, reporter) as servers:
        assert log == ["+speculative", "-speculative", "+baseline"]
        servers["baseline"].activate()
        servers["speculative"].activate()
        servers["speculative"].activate()
        assert log[3:] == ["-baseline", "+speculative"]
        assert servers["speculative"].fatal() == "speculative 5"
    assert log[5:] == ["-speculative"]
