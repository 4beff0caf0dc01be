"""The demo's pair, built and served: what both benchmarks measure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trtspec.building import build_engines, engine_path
from trtspec.checkpoints.chat import render_user
from trtspec.demo.models import draft_path, fetch_target
from trtspec.loadtest.prompts import Prompt, load_prompts
from trtspec.progress import SilentReporter
from trtspec.repository import generate
from trtspec.repository.models import read_engine
from trtspec.serving import RunningServer, free_ports, launch_plan, start_server
from trtspec.spec import Arm, Role, SpecFile, load_spec

__all__ = ["Pair", "Question", "build_pair", "questions", "serving"]


@dataclass(frozen=True)
class Question:
    """A prompt as the model sees it."""

    id: str
    category: str
    text: str


@dataclass(frozen=True)
class Pair:
    """The built pair: checkpoints, engines, and the spec that they were built from."""

    spec_file: SpecFile
    target: Path
    draft: Path
    end_ids: tuple[int, ...]

    def engine(self, role: Role) -> Path:
        """The folder of a built engine."""
        return engine_path(self.spec_file, role)


def build_pair(
    folder: Path,
    *,
    draft_length: int,
    torch: dict[str, Any],
    drafting: dict[str, Any] | None = None,
    batch: int = 8,
) -> Pair:
    """Engines and repositories in `folder`; what is there already stays. `drafting`: the spec's `draft`."""
    target, draft = fetch_target(), {"checkpoint": str(draft_path().resolve()), **(drafting or {})}
    data = {
        "name": "benchmark",
        "target": {"checkpoint": str(target), "dtype": "float16"},
        "draft": draft,
        "speculation": {"draft_length": draft_length, "max_draft_length": max(8, draft_length)},
        "build": {"max_batch_size": batch, "max_seq_len": 1024},
        "torch": torch,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    spec_file = load_spec(path)
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    engine = read_engine(engine_path(spec_file, "target"), target)
    return Pair(spec_file, target, Path(draft["checkpoint"]), engine.end_ids)


def questions(pair: Pair, source: str, categories: list[str], count: int) -> list[Question]:
    """`count` prompts of `source` (0: all), in turn from each category, chat template applied."""
    rows: dict[str, list[Prompt]] = {}
    for prompt in load_prompts(source).prompts:
        if not categories or prompt.category in categories:
            rows.setdefault(prompt.category, []).append(prompt)
    turns = [row[index] for index in range(max(map(len, rows.values()))) for row in rows.values() if index < len(row)]
    return [Question(p.id, p.category, render_user(pair.target, p.text)) for p in turns[: count or None]]


@contextlib.contextmanager
def serving(pair: Pair, arms: tuple[Arm, ...], log: Path) -> Iterator[dict[Arm, RunningServer]]:
    """A Triton for each arm, all at once; an idle one costs memory and no time."""
    running: dict[Arm, RunningServer] = {}
    with contextlib.ExitStack() as stack:
        for arm in arms:
            plan = launch_plan(pair.spec_file, arm, free_ports(), log=log / f"{arm}.log")
            running[arm] = start_server(plan, ready_timeout=300)
            stack.callback(running[arm].stop, now=True)
        yield running
