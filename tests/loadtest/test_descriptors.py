"""Open files: raised as far as they may be, refused beforehand where they do not suffice, never the server's fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loadtest.servers import chat_server
from trtspec.errors import UsageError
from trtspec.loadtest import RunOptions, descriptors
from trtspec.loadtest.descriptors import require_files

# the limit holds for a whole process, so each of these is one of its own
_LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); "


def limited(code: str, soft: int, hard: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", _LIMITED.format(soft=soft, hard=hard) + code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_the_limit_is_raised_to_what_is_allowed() -> None:
    code = (
        "from trtspec.loadtest.descriptors import allow_files, places; "
        "print(allow_files(), places(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert limited(code, 70, 300).stdout.strip() == "300 236 (300, 300)"


def test_more_connections_than_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "allow_files", lambda: 256)
    require_files(192, 1)
    require_files(384, 2)
    with pytest.raises(UsageError, match="400 connections from 1 processes are more than 192") as caught:
        require_files(400, 1)
    assert caught.value.fix == "ulimit -n 464, or more --workers"
    monkeypatch.setattr(descriptors, "allow_files", lambda: None)
    require_files(10**6, 1)


def test_grpc_needs_one_connection() -> None:
    assert RunOptions(protocol="grpc").multiplexed
    assert RunOptions(urls={"baseline": "a:1", "speculative": "grpcs://b:1"}).multiplexed
    assert not RunOptions().multiplexed
    assert not RunOptions(urls={"baseline": "http://a:1", "speculative": "http://b:1"}, protocol="grpc").multiplexed


def test_a_client_without_files_does_not_blame_the_server() -> None:
    code = """
import asyncio, os, sys
from trtspec.errors import RequestFailed
from trtspec.wire.http import HttpSession

async def run():
    async with HttpSession(sys.argv[1]) as session:
        await session.document("/v1/models")
        session._idle.clear()
        files = []
        try:
            while True:
                files.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            await session.document("/v1/models")
        except RequestFailed as error:
            print(error.code, error.message)

asyncio.run(run())
"""
    with chat_server() as server:
        argv = [sys.executable, "-c", _LIMITED.format(soft=64, hard=64) + code, server.url]
        result = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout.strip() == "client_limit this machine opens no more connections: Too many open files"


def test_an_open_loop_waits_for_a_place_instead_of_failing(tmp_path: Path) -> None:
    with chat_server() as one, chat_server() as other:
        argv = ["loadtest", "--a", f"{one.url}/v1", "--b", f"{other.url}/v1", "--rate", "200", "--requests", "40"]
        argv += ["--max-tokens", "40", "--out", str(tmp_path / "run"), "--no-report", "--output", "json"]
        code = f"import sys; sys.argv = ['trtspec', *{argv!r}]; from trtspec.cli.main import main; main()"
        result = limited(code, 72, 72)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["arms"]["baseline"]["requests"]["ok"] == 40
