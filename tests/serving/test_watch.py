from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import ServeRepository
from tests.serving.models import model_repository
from trtspec.errors import ServerNotReady
from trtspec.serving import watch

pytestmark = pytest.mark.triton


def test_a_pause_is_told_and_an_end_raised(tmp_path: Path, serve_repository: ServeRepository) -> None:
    said: list[str] = []
    errors: list[ServerNotReady] = []

    def run() -> None:
        try:
            watch(server, said.append, interval=0.1)
        except ServerNotReady as error:
            errors.append(error)

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 20
        while len(said) < count and time.monotonic() < deadline:
            time.sleep(0.05)

    with serve_repository(model_repository(tmp_path / "repo")) as server:
        watcher = threading.Thread(target=run)
        watcher.start()
        os.kill(server.pid, signal.SIGSTOP)
        wait_for(1)
        os.kill(server.pid, signal.SIGCONT)
        wait_for(2)
        os.kill(server.pid, signal.SIGKILL)
        watcher.join(20)
    assert said == ["[yellow]warning:[/] the server does not answer; still waiting", "the server answers again"]
    assert errors[0].message.startswith("the server ended (signal 9)")
