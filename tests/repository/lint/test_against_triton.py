"""What lint says of files, names, versions and ensembles is what the real server says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serving.models import model_repository
from trtspec.errors import ServerError
from trtspec.repository.lint import lint_repository
from trtspec.serving import free_ports, repository_plan, start_server

pytestmark = pytest.mark.triton

ENSEMBLE = """
name: "both"
platform: "ensemble"
input [{ name: "a" data_type: TYPE_STRING dims: [-1] }]
output [{ name: "b" data_type: TYPE_STRING dims: [-1] }]
ensemble_scheduling {
  step [{
    model_name: "echo"
    model_version: -1
    input_map { key: "text_input" value: "a" }
    output_map { key: "text_output" value: "b" }
  }]
}
"""
Change = Callable[[Path], None]


def edited(model: str, old: str, new: str) -> Change:
    def change(repository: Path) -> None:
        path = repository / model / "config.pbtxt"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def added(model: str, text: str) -> Change:
    def change(repository: Path) -> None:
        with (repository / model / "config.pbtxt").open("a") as stream:
            stream.write(text)

    return change


def nothing(_repository: Path) -> None:
    """The repository as it is."""


def hidden_folder(repository: Path) -> None:
    (repository / ".generations").mkdir()


def no_version(repository: Path) -> None:
    shutil.rmtree(repository / "echo" / "1")


CASES: dict[str, tuple[Change, bool]] = {
    "as it is": (nothing, True),
    "a hidden folder": (hidden_folder, False),
    "another name": (edited("echo", '"echo"', '"other"'), False),
    "no version folder": (no_version, False),
    "a version that is not there": (added("echo", "version_policy { specific { versions: 3 } }"), False),
    "one of two versions": (added("echo", "version_policy { specific { versions: [1, 3] } }"), True),
    "a placeholder": (edited("echo", "max_batch_size: 0", "max_batch_size: ${triton_max_batch_size}"), False),
    "a boolean in capitals": (added("echo", "model_transaction_policy { decoupled: TRUE }"), False),
    "an output twice": (added("echo", 'output { name: "text_output" data_type: TYPE_STRING dims: [-1] }'), False),
    "an ensemble's output twice": (added("both", 'output { name: "b" data_type: TYPE_STRING dims: [-1] }'), True),
    "a map to no input": (edited("both", '"text_input"', '"text_inptu"'), False),
    "a map from no output": (edited("both", '"text_output"', '"text_outptu"'), False),
    "another type": (edited("both", '"a" data_type: TYPE_STRING', '"a" data_type: TYPE_INT32'), False),
    "another rank": (edited("both", "TYPE_STRING dims: [-1] }]\nou", "TYPE_STRING dims: [2, -1] }]\nou"), False),
    "a size for any size": (edited("both", "TYPE_STRING dims: [-1] }]\nou", "TYPE_STRING dims: [1] }]\nou"), True),
    "an output that nothing makes": (edited("both", 'value: "b"', 'value: "c"'), False),
    "a step without its model": (edited("both", 'model_name: "echo"', 'model_name: "ehco"'), False),
}


@pytest.mark.parametrize("name", CASES)
def test_lint_and_server_agree(tmp_path: Path, name: str) -> None:
    change, loads = CASES[name]
    repository = model_repository(tmp_path / "repository")
    (repository / "both" / "1").mkdir(parents=True)
    (repository / "both" / "config.pbtxt").write_text(ENSEMBLE)
    change(repository)
    assert lint_repository(repository).ok == loads
    assert starts(repository, tmp_path / "server.log") == loads


def starts(repository: Path, log: Path) -> bool:
    try:
        server = start_server(repository_plan(repository, free_ports(), log=log), ready_timeout=60)
    except ServerError:
        return False
    server.stop(now=True)
    return True
