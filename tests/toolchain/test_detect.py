"""Which TensorRT-LLM is meant: spec, image and what is installed, in every combination."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trtspec.errors import SpecError, VersionUnsupported
from trtspec.spec import parse_spec
from trtspec.toolchain.detect import Toolchain, installed_mismatch, installed_version, resolve_toolchain

PAIR = "name: pair\nruntime: tensorrt_llm\ntarget: {checkpoint: t}\ndraft: {checkpoint: d}\n"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def install(folder: Path, version: str) -> None:
    """An environment with trtllm-build and TensorRT-LLM's metadata, as in a Triton image's /usr/local."""
    script = folder / "bin" / "trtllm-build"
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    (folder / "lib" / "python3.12" / "dist-packages" / f"tensorrt_llm-{version}.dist-info").mkdir(parents=True)


def resolved(*, image: str | None = None, **section: Any) -> Toolchain:
    lines = "".join(f"\n  {key}: '{value}'" for key, value in section.items())
    return resolve_toolchain(parse_spec(f"{PAIR}tensorrt_llm:{lines or ' {}'}"), image=image)


def test_nothing_given_and_nothing_installed() -> None:
    assert resolved() == Toolchain("1.2.1", "1.2", "default", None, None, None)


def test_the_spec_decides() -> None:
    assert resolved(version="1.1.0") == Toolchain("1.1.0", "1.1", "spec", None, None, None)


def test_the_image_decides() -> None:
    toolchain = resolved(image="26.03")
    assert (toolchain.version, toolchain.origin) == ("1.2.0", "image")
    assert toolchain.image == "nvcr.io/nvidia/tritonserver:26.03-trtllm-python-py3"
    assert resolved(version="1.2", image="26.03").version == "1.2.0"


def test_the_installed_one_decides(tmp_path: Path) -> None:
    install(tmp_path, "1.1.0")
    toolchain = resolved()
    assert (toolchain.version, toolchain.origin, toolchain.installed) == ("1.1.0", "installed", "1.1.0")
    assert toolchain.trtllm_build == str(tmp_path / "bin" / "trtllm-build")
    assert installed_mismatch(toolchain) is None


def test_a_short_version_stands_for_what_is_there(tmp_path: Path) -> None:
    assert resolved(version="1.2").version == "1.2"
    install(tmp_path, "1.2.0")
    assert resolved(version="1.2").version == "1.2.0"
    assert resolved(version="1.2", image="26.04").version == "1.2.1"  # built in the image, not here
    assert resolved(version="1.1").version == "1.1"


def test_the_image_wins_over_another_installed_one(tmp_path: Path) -> None:
    install(tmp_path, "1.1.0")
    toolchain = resolved(image="26.04")
    assert (toolchain.version, toolchain.origin, toolchain.installed) == ("1.2.1", "image", "1.1.0")
    assert "1.1.0 is installed here, the spec's image carries 1.2.1" in (installed_mismatch(toolchain) or "")


def test_the_spec_wins_over_another_installed_one(tmp_path: Path) -> None:
    install(tmp_path, "1.1.0")
    toolchain = resolved(version="1.2.1")
    assert (toolchain.version, toolchain.origin) == ("1.2.1", "spec")
    assert "the spec asks for 1.2.1" in (installed_mismatch(toolchain) or "")


def test_version_and_image_that_contradict_name_the_images_that_fit() -> None:
    with pytest.raises(SpecError) as caught:
        resolved(version="1.1.0", image="26.03-trtllm-python-py3")
    assert caught.value.problems[0].path == "tensorrt_llm.image"
    for word in ("carries TensorRT-LLM 1.2.0", "is 1.1.0", "26.02", "26.01", "25.12"):
        assert word in caught.value.message
    assert caught.value.fix == "set tensorrt_llm.image: 26.02"
    assert str(caught.value).startswith("tensorrt_llm.image: nvcr.io/")


def test_a_command_s_image_replaces_the_spec_s() -> None:
    spec = parse_spec(f"{PAIR}tensorrt_llm: {{version: 1.2.0, image: '26.03'}}")
    assert resolve_toolchain(spec).image == "nvcr.io/nvidia/tritonserver:26.03-trtllm-python-py3"
    with pytest.raises(SpecError, match=r"26\.04"):
        resolve_toolchain(spec, image="26.04")


def test_no_image_is_known_for_a_pre_release() -> None:
    with pytest.raises(SpecError, match=r"no image with 1\.2\.0rc6 is known") as caught:
        resolved(version="1.2.0rc6", image="26.03")
    assert caught.value.fix == "set tensorrt_llm.version to 1.2.0"


def test_an_unknown_image_needs_a_version() -> None:
    with pytest.raises(SpecError, match="mine:latest is not known"):
        resolved(image="mine:latest")
    assert resolved(version="1.2.0", image="mine:latest").image == "mine:latest"


@pytest.mark.parametrize("image", ["--privileged", "-v /:/host", "mine; id", "$(id)", "a b", "mine\n", "ünï"])
def test_what_docker_would_take_for_something_else_is_no_image(image: str) -> None:
    with pytest.raises(SpecError, match="is no name of an image"):
        resolved(version="1.2.1", image=f"{image}x" if image.endswith("\n") else image)


def test_an_image_without_tensorrt_llm_is_named() -> None:
    with pytest.raises(SpecError, match="no TensorRT-LLM in it") as caught:
        resolved(image="26.04-py3")
    assert "trtllm-python-py3" in (caught.value.fix or "")


def test_a_release_image_carries_what_its_tag_says() -> None:
    assert resolved(image="tensorrt-llm/release:1.2.0rc6").version == "1.2.0rc6"
    with pytest.raises(VersionUnsupported, match=r"1\.3\.0rc14"):
        resolved(image="1.3.0rc14")


@pytest.mark.parametrize(
    "section", [{"version": "1.3.0rc2"}, {"version": "0.20.0"}, {"version": "newest"}, {"image": "25.08"}]
)
def test_versions_outside_are_refused(section: dict[str, str]) -> None:
    with pytest.raises(VersionUnsupported):
        resolved(**section)


def test_an_installed_one_outside_is_refused(tmp_path: Path) -> None:
    install(tmp_path, "1.3.0rc22")
    assert installed_version() == "1.3.0rc22"
    with pytest.raises(VersionUnsupported, match=r"1\.3\.0rc22"):
        resolved()


def test_a_trtllm_build_without_metadata_has_no_version(tmp_path: Path) -> None:
    install(tmp_path, "1.1.0")
    (tmp_path / "lib" / "python3.12" / "dist-packages" / "tensorrt_llm-1.1.0.dist-info").rmdir()
    assert installed_version() is None
