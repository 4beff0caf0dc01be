"""docs/openai.md: its examples run, and its lists are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trtspec.openai_api import OpenaiServer
from trtspec.openai_api.app import make_app
from trtspec.openai_api.bodies import ChatBody, CompletionBody
from trtspec.openai_api.settings import Settings
from trtspec.spec import parse_spec

TEXT = (Path(__file__).parents[2] / "docs" / "openai.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:9000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def named(title: str) -> set[str]:
    """What stands in backquotes in the first column of a section's table."""
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def here(text: str, front: OpenaiServer) -> str:
    assert ADDRESS in text
    return text.replace(ADDRESS, f"127.0.0.1:{front.settings.port}")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_spec_is_valid(text: str) -> None:
    assert parse_spec(text).serving.openai_port == 9000


def test_the_curl_line_streams(front: OpenaiServer) -> None:
    (command,) = [block for block in blocks("bash") if block.startswith("curl")]
    shown = subprocess.run(["bash", "-c", here(command, front)], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.startswith('data: {"id":"chatcmpl-')
    assert shown.stdout.endswith("data: [DONE]\n\n")


def test_the_python_example_runs(front: OpenaiServer) -> None:
    (code,) = blocks("python")
    shown = subprocess.run(
        [sys.executable, "-c", here(code, front)], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.search(r"\n\d+ of \d+ tokens were drafted\n$", shown.stdout)


def test_every_field_is_listed() -> None:
    assert named("Fields") == set(CompletionBody.model_fields) | set(ChatBody.model_fields)


def test_every_path_is_listed() -> None:
    app = make_app(Settings(9000, "127.0.0.1:1", "127.0.0.1:2"))
    listed = {path.split()[-1].replace("NAME", "{name}") for path in named("Paths")}
    assert listed == {*app.openapi()["paths"], "/openapi.json"}


def test_the_status_codes_are_listed() -> None:
    sources = "".join(path.read_text() for path in (Path(__file__).parents[2] / "trtspec/openai_api").glob("*.py"))
    used = {int(code) for code in re.findall(r"ApiError\(\s*(\d{3})|\((\d{3}), ", sources) for code in code if code}
    rows = [line.split("|")[1] for line in section("Errors").splitlines() if re.match(r"\| \d", line)]
    assert {int(code) for row in rows for code in re.findall(r"\d{3}", row)} == used | {401}
