"""Where converters are looked for, and what is said when they are nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.building.tensorrt.pairs import toolchain
from tests.building.tensorrt.stand_in import install_stand_in
from trtspec.building.tensorrt import tools as module
from trtspec.building.tensorrt.tools import find_tools
from trtspec.errors import EnvironmentMissing
from trtspec.toolchain.detect import Toolchain


def test_a_folder_that_the_user_names(tmp_path: Path) -> None:
    stand_in = install_stand_in(tmp_path)
    found = find_tools(toolchain(), ["llama", "chatglm"], examples=stand_in.examples)
    assert found.converter("llama") == str(stand_in.examples / "models/core/llama/convert_checkpoint.py")
    assert found.converter("chatglm") == str(stand_in.examples / "models/core/glm-4-9b/convert_checkpoint.py")
    assert found.quantizer() == str(stand_in.examples / "quantization/quantize.py")


def test_the_checkout_around_it_will_do(tmp_path: Path) -> None:
    stand_in = install_stand_in(tmp_path)
    assert (
        find_tools(toolchain(), ["qwen"], examples=stand_in.folder / "app")
        .converter("qwen")
        .startswith(str(stand_in.examples))
    )


def test_the_interpreter_is_the_one_of_the_command(tmp_path: Path) -> None:
    stand_in = install_stand_in(tmp_path)
    here = Toolchain("1.2.1", "1.2", "installed", None, "1.2.1", str(stand_in.trtllm_build))
    found = find_tools(here, [], examples=stand_in.examples)
    assert (found.python, found.trtllm_build) == (sys.executable, str(stand_in.trtllm_build))


def test_an_environment_on_top_of_it_does_not_run_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "trtllm-build"
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.2.1")  # seen from here as well
    here = Toolchain("1.2.1", "1.2", "installed", None, "1.2.1", str(script))
    assert find_tools(here, []).python == sys.executable
    script.write_text("#!/usr/bin/python3\n")
    assert find_tools(here, []).python == "/usr/bin/python3"


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("#!/usr/bin/python3.12", "/usr/bin/python3.12"),
        ("#!/usr/bin/env python3", "python3"),
        ("#!/bin/sh", "python3"),
        ("\x7fELF", "python3"),
    ],
)
def test_other_first_lines(tmp_path: Path, line: str, python: str) -> None:
    script = tmp_path / "trtllm-build"
    script.write_text(f"{line}\n")
    assert find_tools(Toolchain("1.2.1", "1.2", "spec", None, None, str(script)), []).python == python


def test_every_place_is_named_when_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "image", tmp_path / "package"]
    monkeypatch.setattr(module, "_places", lambda: places)
    found = find_tools(toolchain(), ["llama"])
    with pytest.raises(EnvironmentMissing) as caught:
        found.converter("llama")
    for place in places:
        assert f"{place}/models/core/llama/convert_checkpoint.py" in caught.value.message
    assert "-b v1.2.1" in (caught.value.fix or "")
    with pytest.raises(EnvironmentMissing, match=r"quantization/quantize\.py is nowhere"):
        found.quantizer()


@pytest.mark.parametrize(
    ("image", "folder"),
    [
        ("nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3", "/app/examples"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.1", "/app/tensorrt_llm/examples"),
    ],
)
def test_inside_an_image_nothing_is_looked_up(image: str, folder: str) -> None:
    found = find_tools(toolchain(), ["gemma"], image=image)
    assert (found.python, found.trtllm_build) == ("python3", "trtllm-build")
    assert found.converter("gemma") == f"{folder}/models/core/gemma/convert_checkpoint.py"
    assert found.quantizer() == f"{folder}/quantization/quantize.py"


@pytest.mark.parametrize(("version", "fits"), [("1.2.0", True), ("1.2.0rc6", True), ("1.3.0rc20", False)])
def test_a_checkout_of_another_release(tmp_path: Path, version: str, *, fits: bool) -> None:
    stand_in = install_stand_in(tmp_path)
    package = stand_in.folder / "app" / "tensorrt_llm"
    package.mkdir()
    (package / "version.py").write_text(f'# release\n__version__ = "{version}"\n')
    if fits:
        find_tools(toolchain(), ["llama"], examples=stand_in.examples).converter("llama")
        return
    with pytest.raises(EnvironmentMissing, match=r"is of TensorRT-LLM 1\.3\.0rc20"):
        find_tools(toolchain(), ["llama"], examples=stand_in.examples)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="no such folder"):
        find_tools(toolchain(), ["llama"], examples=tmp_path / "nowhere")
