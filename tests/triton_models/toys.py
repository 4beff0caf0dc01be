"""Servers of tiny pairs that differ in how they draft, beside the session's own."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.builders import toy_spec
from trtspec.progress import SilentReporter
from trtspec.serving import RunningServer, free_ports, launch_plan, start_server
from trtspec.spec import Arm, SpecFile

__all__ = ["built_toy", "post", "served", "stream"]


def built_toy(folder: Path, **overrides: Any) -> SpecFile:
    """The session's toy pair with another spec, built and with repositories."""
    from trtspec.building import build_engines
    from trtspec.repository import generate

    spec_file = toy_spec(folder, **overrides)
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    return spec_file


@contextmanager
def served(spec_file: SpecFile, arm: Arm = "speculative") -> Iterator[RunningServer]:
    """The arm's server while the block runs."""
    plan = launch_plan(spec_file, arm, free_ports(), log=spec_file.root / f"{arm}.log")
    server = start_server(plan, ready_timeout=120)
    try:
        yield server
    finally:
        server.stop(now=True)


def post(server: RunningServer, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request for one answer."""
    with _request(server, "generate", body) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def stream(server: RunningServer, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All events of a streamed answer."""
    with _request(server, "generate_stream", {**body, "stream": True}) as response:
        return [json.loads(line[6:]) for line in response if line.startswith(b"data: ")]


def _request(server: RunningServer, endpoint: str, body: Mapping[str, Any]) -> Any:
    url = f"http://{server.http_url}/v2/models/tensorrt_llm_bls/{endpoint}"
    return urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(body).encode()), timeout=60)
