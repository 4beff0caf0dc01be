"""AIPerf in an environment of its own: 140 packages, of which none may reach trtspec's.

python benchmarks/loadgen/aiperf.py        makes .cache/aiperf-VERSION (1.2 GB), which git ignores
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.builders import tiny_tokenizer_files

VERSION = "0.13.0"
FOLDER = Path(__file__).parents[2] / ".cache" / f"aiperf-{VERSION}"
PROGRAM = FOLDER / "bin" / "aiperf"


def set_up() -> None:
    """Make the environment; does nothing where it is whole."""
    if PROGRAM.exists():
        return
    venv.create(FOLDER, with_pip=True)
    subprocess.run([FOLDER / "bin" / "pip", "install", "--quiet", f"aiperf=={VERSION}"], check=True)


def arguments(folder: Path, url: str, plan: str, load: tuple[int, int, float]) -> list[str]:
    """The command line: the completions endpoint, tokens counted by the server, a warm-up of one wave."""
    streams, requests, ramp = load
    tiny_tokenizer_files(folder / "tokenizer")
    (folder / "prompts.jsonl").write_text('{"text": "Hello"}\n')
    options = {
        "--model": plan,
        "--url": url,
        "--endpoint-type": "completions",
        "--tokenizer": folder / "tokenizer",
        "--input-file": folder / "prompts.jsonl",
        "--custom-dataset-type": "single_turn",
        "--concurrency": streams,
        "--request-count": requests,
        "--warmup-request-count": streams,
        "--artifact-dir": folder / "out",
        "--ui": "none",
        **({"--concurrency-ramp-duration": ramp, "--warmup-concurrency-ramp-duration": ramp} if ramp else {}),
    }
    given = [str(part) for option in options.items() for part in option]
    flags = ["--streaming", "--use-server-token-count", "--no-server-metrics", "--no-gpu-telemetry"]
    return [str(PROGRAM), "profile", *given, *flags]


def environment() -> dict[str, str]:
    """This one without what makes AIPerf refuse a tokenizer in a folder."""
    return {name: value for name, value in os.environ.items() if name not in {"HF_HUB_OFFLINE", "VIRTUAL_ENV"}}


def records(folder: Path) -> list[dict[str, Any]]:
    """The measured requests."""
    lines = (folder / "out" / "profile_export.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [record for record in found if record["metadata"]["benchmark_phase"] == "profiling"]


def ttft_errors(folder: Path, url: str) -> list[float]:
    """AIPerf's TTFT less what the server did, in ms, of every measured request."""
    with urllib.request.urlopen(f"{url}/log", timeout=30) as answer:
        log = json.loads(answer.read())
    errors = []
    for record in records(folder):
        received, first = log[record["metadata"]["x_request_id"]]
        errors.append(record["metrics"]["time_to_first_token"]["value"] - (first - received) / 1e6)
    return errors


if __name__ == "__main__":
    set_up()
    print(PROGRAM)
