"""The README's blocks are run or held against the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.serving.toy import ToyDeployment
from trtspec.cli.main import COMMANDS, cli
from trtspec.spec import parse_spec

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def typed_commands() -> list[str]:
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("trtspec ")]


def test_there_is_something_to_hold() -> None:
    assert len(typed_commands()) >= 6
    assert blocks("yaml")
    assert blocks("python")


@pytest.mark.parametrize("line", typed_commands())
def test_every_command_is_one_with_these_options(line: str) -> None:
    name, *arguments = shlex.split(line, comments=True)[1:]
    assert name in COMMANDS
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, arguments)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_spec_is_valid(text: str) -> None:
    parse_spec(text)


@pytest.mark.parametrize("path", re.findall(r"\]\((?!https?://)([^)#]+)\)", README))
def test_every_link_leads_somewhere(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("script", re.findall(r"(?:^|`)(scripts/[a-z-]+)", README, flags=re.MULTILINE))
def test_every_script_is_there_and_runs(script: str) -> None:
    path = ROOT / script
    assert path.is_file()
    assert path.stat().st_mode & 0o111


@pytest.mark.triton
def test_the_python_client_streams_an_answer(toy_deployment: ToyDeployment, tmp_path: Path) -> None:
    server = toy_deployment.server("speculative")
    (code,) = blocks("python")
    script = tmp_path / "client.py"
    script.write_text(code.replace("localhost:8001", f"127.0.0.1:{server.ports.grpc}"))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.triton
def test_the_curl_command_streams_an_answer(toy_deployment: ToyDeployment) -> None:
    server = toy_deployment.server("speculative")
    (line,) = (block for block in blocks("bash") if block.startswith("curl"))
    command = line.replace("localhost:8000", f"127.0.0.1:{server.ports.http}")
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert '"text_output"' in result.stdout
    assert '"finish_reason":"length"' in result.stdout
