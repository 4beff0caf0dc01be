"""Two load tests never write into one folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loadtest.servers import chat_server, pace
from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, Status, resume, run
from trtspec.loadtest.claim import claimed
from trtspec.progress import SilentReporter


def test_a_folder_is_held_by_one_until_it_ends(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(UsageError, match="another load test is writing there"), claimed(tmp_path):
        pytest.fail("held twice")
    with claimed(tmp_path):
        pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\nfrom trtspec.loadtest.claim import claimed\n"
        "with claimed(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another"), claimed(tmp_path):
            pytest.fail("held twice")
        holder.kill()
        holder.wait()
    with claimed(tmp_path):
        pass


def test_a_second_run_into_the_folder_and_a_second_resume_touch_nothing(tmp_path: Path) -> None:
    def listener(status: Status) -> None:
        if status.done == 6:
            os.kill(os.getpid(), signal.SIGINT)

    folder = tmp_path / "run"
    with chat_server(pace(2, 2)) as one, chat_server(pace(2, 2)) as other:
        urls: Any = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = RunOptions(urls=urls, out=folder, concurrency=(1,), requests=12, max_tokens=4, counted=True)
        assert run(None, options, SilentReporter(), listener).interrupted
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with claimed(folder), pytest.raises(UsageError, match="another"):
            resume(None, folder, SilentReporter())
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        (tmp_path / "new").mkdir()
        with claimed(tmp_path / "new"), pytest.raises(UsageError, match="another"):
            run(None, RunOptions(urls=urls, out=tmp_path / "new"), SilentReporter())
        assert not list((tmp_path / "new").iterdir())
        assert not resume(None, folder, SilentReporter()).interrupted
