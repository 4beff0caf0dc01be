"""Building inside a container: mounts, command line, and the whole pipeline through a stand-in for docker."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.building.tensorrt.gpu_box import GpuBox, make_gpu_box
from tests.building.tensorrt.test_pipeline_interrupted import gone, wait_for
from trtspec.building import BuildSettings, build_engines, build_preview
from trtspec.building.tensorrt.docker import Container, Mount, checkpoint_mounts, docker_run, reduced_mounts
from trtspec.errors import EnvironmentMissing, SpecError, StepFailed, VersionUnsupported
from trtspec.spec import ROLES

IMAGE = "nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3"

# docker as far as a build sees it: runs the command here, but only with paths that were mounted
_DOCKER = """#!{python}
import json, os, subprocess, sys
from pathlib import Path
argv = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(argv) + "\\n")
if argv[0] != "run":
    sys.exit(0)
words, env, mounts, cwd = argv[1:], dict(os.environ), [], None
while words[0].startswith("-"):
    flag = words.pop(0)
    if flag in ("--rm", "--init"):
        continue
    value = words.pop(0)
    if flag == "-e" and "=" in value:
        name, _, content = value.partition("=")
        env[name] = content
    elif flag == "-w":
        cwd = value
    elif flag == "--mount":
        mounts.append(dict(part.partition("=")[::2] for part in value.split(",")))
image, command = words[0], words[1:]

def visible(path, writable):
    return any(
        Path(path).is_relative_to(mount["target"]) and ("readonly" not in mount or not writable) for mount in mounts
    )

for word in command:
    if word.startswith("/") and not word.startswith("/app/"):
        assert visible(word, writable=".partial-" in word), f"{{word}} is not mounted in {{mounts}}"
assert visible(cwd, writable=True)
for mount in mounts:
    assert mount["source"] == mount["target"] and Path(mount["source"]).exists(), mount
command = [word.replace("/app/examples", {examples!r}) for word in command]
if command[0] == "python3":
    command[0] = sys.executable
sys.exit(subprocess.run(command, env=env, cwd=cwd).returncode)
"""


@pytest.fixture
def docker_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuBox:
    """A machine with docker and without TensorRT-LLM."""
    box = make_gpu_box(tmp_path, monkeypatch, tensorrt_llm={})
    docker = box.stand_in.folder / "bin" / "docker"
    log = str(tmp_path / "docker.jsonl")
    docker.write_text(_DOCKER.format(python=sys.executable, log=log, examples=str(box.stand_in.examples)))
    docker.chmod(0o755)
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: None)
    return box


def calls(box: GpuBox) -> list[list[str]]:
    log = box.log.parent / "docker.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_the_whole_pipeline_in_containers(docker_box: GpuBox) -> None:
    box = docker_box
    engines = build_engines(box.spec_file, settings=BuildSettings(image="26.04"))
    assert box.programs() == ["convert", "build baseline", "build target", "convert", "build draft"]
    assert all(call[:3] == ["run", "--rm", "--init"] and IMAGE in call for call in calls(box))
    names = [call[call.index("--name") + 1] for call in calls(box)]
    assert len(set(names)) == 5
    manifest = json.loads((engines[1].path / "manifest.json").read_text())
    assert manifest["versions"] == {"tensorrt_llm": "1.2.1", "image": IMAGE}
    assert manifest["commands"][0]["argv"][0] == "trtllm-build"
    again = build_engines(box.spec_file, settings=BuildSettings(image="26.05"))  # the same TensorRT-LLM
    assert [engine.path for engine in again] == [engine.path for engine in engines]
    assert len(calls(box)) == 5
    assert box.leftovers() == []


def test_an_image_with_another_version_makes_other_engines(docker_box: GpuBox) -> None:
    first = build_engines(docker_box.spec_file, ["draft"], settings=BuildSettings(image="26.04"))
    keys = {
        step["key"]
        for step in build_preview(docker_box.spec_file, ["draft"], BuildSettings(image="26.02"))["steps"]
        if not step["cached"]
    }
    assert first[0].key not in keys
    assert len(keys) == 2


def test_a_failure_inside_is_explained(docker_box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", "out_of_memory")
    with pytest.raises(StepFailed) as caught:
        build_engines(docker_box.spec_file, ["draft"], settings=BuildSettings(image="26.04"))
    assert caught.value.step.failure == "gpu-memory"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
            "docker-gpu",
        ),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "docker-daemon"),
        ("docker: Error response from daemon: manifest for x:y not found: manifest unknown.", "docker-image"),
    ],
)
def test_what_docker_itself_says_is_explained(docker_box: GpuBox, text: str, failure: str) -> None:
    script = docker_box.stand_in.folder / "bin" / "docker"
    script.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 125\n")
    with pytest.raises(StepFailed) as caught:
        build_engines(docker_box.spec_file, ["draft"], settings=BuildSettings(image="26.04"))
    assert caught.value.step.failure == failure
    assert caught.value.step.exit_code == 125


def test_an_interrupted_build_removes_its_container(docker_box: GpuBox) -> None:
    box = docker_box
    process = box.popen("--role", "draft", "--in-docker", "26.04", STAND_IN_SECONDS="120")
    try:
        wait_for(lambda: process.poll() is not None or bool(box.starts()), "the program")
        assert process.poll() is None, process.communicate()
        pid = box.starts()[-1]["pid"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert gone(pid)
    finally:
        process.kill()
        process.communicate()
    run, remove = calls(box)
    assert remove == ["rm", "-f", run[run.index("--name") + 1]]


def test_refusals(docker_box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    box = docker_box
    with pytest.raises(VersionUnsupported):
        build_engines(box.spec_file, settings=BuildSettings(image="tensorrt-llm/release:1.3.0"))
    with pytest.raises(SpecError, match="not known"):
        build_engines(box.spec_file, settings=BuildSettings(image="registry.local/own:7"))
    box.edit(tensorrt_llm={"version": "1.1.0"})
    with pytest.raises(SpecError, match=r"carries TensorRT-LLM 1\.2\.1"):
        build_engines(box.spec_file, settings=BuildSettings(image="26.04"))
    box.edit(tensorrt_llm={"version": "1.2.1"})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentMissing, match="docker is not installed"):
        build_engines(box.spec_file, settings=BuildSettings(image="registry.local/own:7"))
    assert calls(box) == []


def test_a_dry_run_shows_the_docker_commands(docker_box: GpuBox) -> None:
    steps = build_preview(docker_box.spec_file, ROLES, BuildSettings(image="26.04"))["steps"]
    programs = [step for step in steps if step["stage"] != "inspect"]
    assert all(step["argv"][:2] == ["docker", "run"] for step in programs)
    assert all("--name" not in step["argv"] for step in programs)
    assert f"\n{IMAGE} trtllm-build \\\n" in programs[1]["shell"]
    assert calls(docker_box) == []


def test_a_hub_cache_is_mounted_with_its_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "1234").write_text("{}")
    (blobs / "1234").symlink_to(tmp_path / "disk" / "1234")
    (snapshot / "config.json").symlink_to("../../blobs/1234")
    (tmp_path / "model").symlink_to(snapshot)
    places = {mount.path for mount in checkpoint_mounts(tmp_path / "model")}
    assert places == {snapshot, blobs, tmp_path / "disk"}


def test_a_linked_checkpoint_is_read_where_it_really_lies(docker_box: GpuBox) -> None:
    """Relative links in it would lead nowhere below another name."""
    root = docker_box.spec_file.root
    hub = root / "hub" / "snapshots" / "abc"
    hub.parent.mkdir(parents=True)
    (root / "draft").rename(hub)
    (root / "hub" / "blobs").mkdir()
    (hub / "model.safetensors").rename(root / "hub" / "blobs" / "1234")
    (hub / "model.safetensors").symlink_to("../../blobs/1234")
    (root / "draft").symlink_to(hub)
    [engine] = build_engines(docker_box.spec_file, ["draft"], settings=BuildSettings(image="26.04"))
    convert = docker_box.starts()[0]["argv"]
    assert convert[convert.index("--model_dir") + 1] == str(hub)
    assert engine.path.is_dir()


def test_a_linked_examples_folder_is_seen_where_it_really_lies(docker_box: GpuBox) -> None:
    shutil.copytree(docker_box.stand_in.examples, docker_box.stand_in.folder / "checkout")
    (docker_box.spec_file.root / "examples").symlink_to(docker_box.stand_in.folder / "checkout")
    spec_file = docker_box.edit(tensorrt_llm={"examples": "examples"})
    build_engines(spec_file, ["draft"], settings=BuildSettings(image="26.04"))
    assert docker_box.programs() == ["convert", "build draft"]


def test_mounts_that_others_cover_are_left_out() -> None:
    mounts = [
        Mount(Path("/a/b"), writable=True), Mount(Path("/a/b")), Mount(Path("/a/b/c"), writable=True),
        Mount(Path("/a")), Mount(Path("/a/d")), Mount(Path("/e/f")),
    ]  # fmt: skip
    assert reduced_mounts(mounts) == [Mount(Path("/a")), Mount(Path("/a/b"), writable=True), Mount(Path("/e/f"))]


def test_paths_with_colons_and_commas_survive() -> None:
    assert Mount(Path("/a:b")).option() == "type=bind,source=/a:b,target=/a:b,readonly"
    assert Mount(Path("/a,b"), writable=True).option() == 'type=bind,"source=/a,b","target=/a,b"'


def test_tokens_are_passed_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    argv = docker_run(Container("image", ()), ["true"], {"A": "b"}, Path("/scratch"), "name")
    assert argv[argv.index("HF_TOKEN") - 1] == "-e"
    assert not any("hf_secret" in word for word in argv)
    assert "A=b" in argv
    assert "HOME=/scratch" in argv


def test_links_that_lead_in_a_circle_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for name, target in (("self", "self"), ("a", "b"), ("b", "a"), ("out", "../x/y"), ("gone", "/nowhere/at/all")):
        (tmp_path / "model" / name).symlink_to(target)
    places = {mount.path for mount in checkpoint_mounts(tmp_path / "model")}
    assert places == {tmp_path / "model", tmp_path / "x", Path("/nowhere/at")}
