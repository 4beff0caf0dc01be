from pathlib import Path

import click

from trtspec.cli.main import COMMANDS, cli
from trtspec.demo.models import draft_path
from trtspec.demo.run import DemoOptions, demo_steps, write_demo_spec
from trtspec.spec import load_spec


def options(folder: Path) -> DemoOptions:
    return DemoOptions(folder, requests=12, concurrency=(1, 16), max_tokens=40, draft_length=3)


def test_the_spec_carries_every_option(tmp_path: Path) -> None:
    spec = load_spec(write_demo_spec(options(tmp_path), tmp_path / "target")).spec
    assert spec.target.checkpoint == tmp_path / "target"
    assert spec.draft.checkpoint == draft_path()
    assert spec.speculation.draft_length == 3
    assert (spec.draft.method, spec.lookup_length) == ("lookup", 6)
    assert spec.loadtest.concurrency == [1, 16]
    assert (spec.loadtest.requests, spec.loadtest.max_tokens) == (12, 40)
    assert spec.build.max_batch_size >= 16


def test_every_step_is_a_command_that_takes_these_arguments(tmp_path: Path) -> None:
    path = write_demo_spec(options(tmp_path), tmp_path / "target")
    names = []
    for step in demo_steps(path):
        name, *arguments = step.arguments
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, arguments)
        names.append(name)
    assert names == [name for name in COMMANDS if name in {"check", "build", "repo", "ask", "loadtest"}]


def test_the_committed_draft_is_whole_and_small() -> None:
    weights = draft_path() / "model.safetensors"
    assert weights.stat().st_size < 30_000_000
    assert {"config.json", "tokenizer.json", "README.md"} <= {path.name for path in draft_path().iterdir()}
