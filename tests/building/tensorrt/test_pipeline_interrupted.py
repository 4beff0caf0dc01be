"""Builds that are killed, interrupted, or run twice at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.building.tensorrt.gpu_box import BOX_MAIN, GpuBox
from trtspec.building import build_engines, engine_path
from trtspec.building.locks import is_locked, locked
from trtspec.building.tensorrt.making import Maker
from trtspec.building.tensorrt.steps import Product
from trtspec.errors import ArtefactMissing, BuildError
from trtspec.spec import ROLES, Role

SLOW = {"STAND_IN_SECONDS": "120"}


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


@contextmanager
def standing_in(box: GpuBox, stage: str, program: str) -> Iterator[subprocess.Popen[str]]:
    """A build that works on its `stage` without an end, once `program` is half done."""
    count = len(box.starts())
    process = box.popen("--jobs", "1", STAND_IN_STAGE=stage, **SLOW)
    try:
        wait_for(lambda: process.poll() is not None or box.programs()[count:][-1:] == [program], program)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def kill_in(box: GpuBox, stage: str, program: str) -> None:
    """kill -9 the build while `program` runs; the program must end as well."""
    with standing_in(box, stage, program) as process:
        pid = box.starts()[-1]["pid"]
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: gone(pid), "the program to end with the build", 20)


def built(box: GpuBox) -> list[Role]:
    def is_there(role: Role) -> bool:
        try:
            return engine_path(box.spec_file, role).is_dir()
        except ArtefactMissing:
            return False

    return [role for role in ROLES if is_there(role)]


def test_killed_at_every_step_it_goes_on_at_the_first_unfinished_one(box: GpuBox) -> None:
    kill_in(box, "convert", "convert")
    assert built(box) == []
    kill_in(box, "build", "build baseline")
    assert built(box) == []
    build_engines(box.spec_file, ["baseline"])
    kill_in(box, "build", "build target")
    build_engines(box.spec_file, ["target"])
    kill_in(box, "convert", "convert")
    assert built(box) == ["baseline", "target"]
    kill_in(box, "build", "build draft")
    assert all(not engine.cached for engine in build_engines(box.spec_file, ["draft"]))
    assert built(box) == ["baseline", "target", "draft"]
    assert box.programs() == [
        "convert",  # killed
        "convert", "build baseline",  # killed
        "build baseline",
        "build target",  # killed
        "build target",
        "convert",  # killed
        "convert", "build draft",  # killed
        "build draft",
    ]  # fmt: skip
    assert box.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_build_ends_its_program_and_leaves_nothing(box: GpuBox, number: signal.Signals) -> None:
    with standing_in(box, "build", "build baseline") as process:
        pid = box.starts()[-1]["pid"]
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "build baseline: stopped" in err
        assert gone(pid)
    assert box.leftovers() == []
    assert not list(box.engines.rglob("*.log.*")) + list(box.engines.rglob("*.failed.log"))
    assert [path.parent.parent.name for path in box.engines.rglob("manifest.json")] == ["checkpoints"]


def test_a_program_that_ignores_sigterm_is_killed(box: GpuBox) -> None:
    script = box.stand_in.trtllm_build
    text = script.read_text().replace(
        "import sys\n", "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n", 1
    )
    script.write_text(text)
    with standing_in(box, "build", "build baseline") as process:
        pid = box.starts()[-1]["pid"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert gone(pid)
    assert box.leftovers() == []


def test_two_builds_at_once_make_everything_once(box: GpuBox) -> None:
    runs = [box.popen("--output", "json", STAND_IN_SECONDS="0.5") for _ in range(2)]
    answers = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], answers
    documents = [json.loads(out) for out, _ in answers]
    assert [engine["path"] for engine in documents[0]["engines"]] == [
        engine["path"] for engine in documents[1]["engines"]
    ]
    for first, second in zip(*(document["engines"] for document in documents), strict=True):
        assert sorted([first["cached"], second["cached"]]) == [False, True], first["role"]
    assert sorted(box.programs()) == ["build baseline", "build draft", "build target", "convert", "convert"]
    assert any("waiting, process" in err for _, err in answers)
    assert box.leftovers() == []


def test_the_next_build_waits_for_the_program_of_a_killed_one(box: GpuBox) -> None:
    """It may need a moment to end, and would share the GPU with the new one."""
    script = box.stand_in.trtllm_build
    text = script.read_text().replace(
        "import sys\n", "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n", 1
    )
    script.write_text(text)
    with standing_in(box, "build", "build baseline") as process:
        pid = box.starts()[-1]["pid"]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not gone(pid)
        build_engines(box.spec_file, ["baseline"])
        assert gone(pid)


def test_a_build_under_nohup_outlives_its_terminal(box: GpuBox) -> None:
    ignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    process = box.popen("--role", "baseline", main=ignored + BOX_MAIN, STAND_IN_STAGE="build", STAND_IN_SECONDS="1")
    wait_for(lambda: process.poll() is not None or box.programs()[-1:] == ["build baseline"], "the build")
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert built(box) == ["baseline"]


@pytest.mark.parametrize(
    ("name", "program"),
    [("model.safetensors", "convert"), ("config.json", "convert"), ("tokenizer.json", "build baseline")],
)
def test_a_checkpoint_that_changes_meanwhile_makes_no_engine(box: GpuBox, name: str, program: str) -> None:
    """Its key would name the old content for good, whatever the program has read."""
    stage = program.partition(" ")[0]
    process = box.popen("--role", "baseline", STAND_IN_STAGE=stage, STAND_IN_SECONDS="1.5")
    wait_for(lambda: process.poll() is not None or box.programs()[-1:] == [program], program)
    path = box.spec_file.root / "target" / name
    path.write_bytes(path.read_bytes() + b" ")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert f"the checkpoint changed meanwhile ({name})" in err
    place = "checkpoints" if stage == "convert" else "baseline"
    assert not [path for path in (box.engines / place).iterdir() if path.is_dir()]
    assert box.leftovers() == []


def test_an_engine_keeps_its_converted_checkpoint_while_it_is_built(box: GpuBox) -> None:
    with standing_in(box, "build", "build baseline"):
        [checkpoint] = [path for path in (box.engines / "checkpoints").iterdir() if path.is_dir()]
        assert is_locked(checkpoint)
        with locked(checkpoint, pytest.fail, shared=True):  # another engine may be built of it
            pass
    wait_for(lambda: not is_locked(checkpoint), "the lock", 20)


def test_a_converted_checkpoint_that_is_pruned_meanwhile_is_missed_at_once(
    box: GpuBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker.make

    def prune_first(maker: Maker, product: Product, gpus: tuple[str, ...] = ()) -> None:
        make(maker, product, gpus)
        if product.kind == "checkpoint":
            shutil.rmtree(product.folder)

    monkeypatch.setattr(Maker, "make", prune_first)
    with pytest.raises(BuildError, match="its converted checkpoint was removed meanwhile"):
        build_engines(box.spec_file, ["baseline"])
    assert box.programs() == ["convert"]
