"""Steps as a person pastes them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.building.tensorrt.gpu_box import GpuBox
from trtspec.building import BuildSettings, build_preview, engine_path
from trtspec.building.tensorrt.commands import Command
from trtspec.building.tensorrt.steps import Step, canonical
from trtspec.spec import ROLES


def test_the_shell_commands_of_a_dry_run_do_what_they_say(box: GpuBox) -> None:
    """Pasted one after the other they make folders that can be given as engines."""
    steps = build_preview(box.spec_file, ROLES, BuildSettings())["steps"]
    for step in steps:
        if step["stage"] != "inspect":
            subprocess.run(["bash", "-c", step["shell"]], env=os.environ, check=True, capture_output=True)
    assert box.programs() == ["convert", "build baseline", "build target", "convert", "build draft"]
    for step in steps:
        assert all(Path(output).is_file() for output in step["outputs"])
    engine = next(step for step in steps if step["stage"] == "build" and step["role"] == "target")
    made = Path(engine["outputs"][0]).parent
    shutil.copytree(made, box.spec_file.root / "mine")
    spec_file = box.edit(target={"checkpoint": "target", "dtype": "float16", "engine": "mine"})
    assert engine_path(spec_file, "target") == box.spec_file.root / "mine"


def test_words_are_quoted() -> None:
    step = Step(
        "id", "draft", ("draft",), "build", ("trtllm-build", "--checkpoint_dir", "/a b/c", "--flag", "--x", "it's"),
        {"NAME": "two words"}, Path("/a place"), (), (), "key", cached=False,
    )  # fmt: skip
    text = step.shell()
    words = shlex.split(text.replace("\\\n", " "))
    assert words == [
        "mkdir", "-p", "/a place", "&&", "cd", "/a place", "&&", "NAME=two words", "trtllm-build",
        "--checkpoint_dir", "/a b/c", "--flag", "--x", "it's",
    ]  # fmt: skip
    assert json.loads(json.dumps(step.to_json()))["shell"] == text


def test_where_programs_lie_does_not_matter_for_keys() -> None:
    here = Command("convert", ("/venv/bin/python3.12", "/home/me/examples/llama/convert_checkpoint.py", "--dtype", "x"))
    there = Command("convert", ("python3", "/app/examples/llama/convert_checkpoint.py", "--dtype", "x"))
    assert canonical([here]) == canonical([there]) == [["python", "llama/convert_checkpoint.py", "--dtype", "x"]]
    other = Command("convert", ("python3", "/app/examples/qwen/convert_checkpoint.py", "--dtype", "x"))
    assert canonical([other]) != canonical([there])
    build = Command("build", ("/usr/local/bin/trtllm-build", "--a", "--workers", "4", "--b", "4"), {"A": "1"})
    assert canonical([build]) == [["A=1", "trtllm-build", "--a", "--b", "4"]]


_WORDS = [
    "a b", "it's", "$(touch x)`id`", "new\nline", "tab\tand\rreturn", "\x1b[31mred", "back\\'s\x07", "日本", "a\u202eb",
    "\udcff", "-x", "", "~",
]  # fmt: skip


@pytest.mark.parametrize("word", _WORDS)
def test_any_word_survives_a_terminal_and_a_shell(tmp_path: Path, word: str) -> None:
    argv = ("printf", "%s\\0", word, "end")
    step = Step("id", "draft", ("draft",), "build", argv, {"NAME": word}, tmp_path, (), (), "", cached=False)
    text = step.shell()
    assert all(character.isprintable() or character == "\n" for character in text)
    done = subprocess.run(["bash", "-c", text], check=True, capture_output=True)
    assert done.stdout == os.fsencode(word) + b"\0end\0"
