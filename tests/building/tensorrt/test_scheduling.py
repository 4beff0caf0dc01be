"""Running products at once: order, GPUs, failures."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from tests.building.tensorrt.gpu_box import GpuBox, make_gpu_box
from trtspec.building import BuildSettings
from trtspec.building.tensorrt.devices import Devices, gpus_needed
from trtspec.building.tensorrt.planning import plan_build
from trtspec.building.tensorrt.scheduling import Schedule, run_all
from trtspec.building.tensorrt.steps import Product
from trtspec.errors import BuildError
from trtspec.progress import SilentReporter
from trtspec.spec import ROLES


def products(box: GpuBox) -> list[Product]:
    return plan_build(box.spec_file, ROLES, BuildSettings(), SilentReporter()).to_make


def schedule(items: list[Product], jobs: int, gpus: int, *, share: bool = False) -> Schedule:
    return Schedule(items, jobs, tuple(str(index) for index in range(gpus)), share, Event())


def test_one_job_keeps_the_order_and_gives_no_gpus(box: GpuBox) -> None:
    made: list[tuple[str, tuple[str, ...]]] = []
    items = products(box)
    seconds = run_all(schedule(items, 1, 4), lambda item, gpus: made.append((item.label, gpus)), SilentReporter())
    assert made == [(item.label, ()) for item in items]
    assert set(seconds) == {item.key for item in items}


def test_an_engine_waits_for_its_checkpoint_while_others_run(box: GpuBox) -> None:
    both = Event()
    running: list[str] = []

    def make(item: Product, gpus: tuple[str, ...]) -> None:
        if item.kind == "checkpoint":
            running.append(gpus[0])
            if len(running) == 2:
                both.set()
            assert both.wait(30)  # each conversion waits for the other: they run at once, on different GPUs
        else:
            assert both.is_set()

    run_all(schedule(products(box), 3, 2), make, SilentReporter())
    assert sorted(running) == ["0", "1"]


def test_after_a_failure_what_runs_is_finished_and_nothing_is_started(box: GpuBox) -> None:
    failed, finished, started = Event(), Event(), []

    def make(item: Product, _gpus: tuple[str, ...]) -> None:
        started.append(item.label)
        if "draft" in item.label:
            failed.set()
            raise BuildError("no")
        assert failed.wait(30)
        finished.set()

    with pytest.raises(BuildError, match="no"):
        run_all(schedule(products(box), 2, 2), make, SilentReporter())
    assert finished.is_set()
    assert started == ["convert baseline + target", "convert draft"]


def test_an_interruption_stops_what_runs(box: GpuBox) -> None:
    plan = schedule(products(box), 2, 2)

    def make(item: Product, _gpus: tuple[str, ...]) -> None:
        if "draft" in item.label:
            raise KeyboardInterrupt
        assert plan.stop.wait(30)

    with pytest.raises(KeyboardInterrupt):
        run_all(plan, make, SilentReporter())
    assert plan.stop.is_set()


def test_gpus_that_each_program_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": "fp8", "tp": 2}
    box = make_gpu_box(tmp_path, monkeypatch, target=target)
    assert {item.label: gpus_needed(item, 8) for item in products(box)} == {
        "quantize baseline + target": 8,
        "build baseline": 2,
        "build target": 2,
        "convert draft": 1,
        "build draft": 1,
    }
    assert {gpus_needed(item, 1) for item in products(box)} == {1}


def test_devices_are_handed_out_once_unless_shared() -> None:
    devices = Devices(("0", "1", "2"), share=False)
    assert devices.take(2) == ("0", "1")
    assert devices.take(2) is None
    assert devices.take(1) == ("2",)
    devices.give_back(("0", "1"))
    assert devices.take(2) == ("0", "1")
    shared = Devices(("0",), share=True)
    assert shared.take(1) == shared.take(1) == ("0",)
    assert Devices((), share=False).take(0) == ()
