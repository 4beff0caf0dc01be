from __future__ import annotations

from typing import Any

import pytest

from tests.loadtest.telemetry.pages import triton
from trtspec.loadtest.telemetry.energy import energy, spent
from trtspec.loadtest.telemetry.gpu import GpuMeter
from trtspec.loadtest.telemetry.samples import Samples
from trtspec.loadtest.telemetry.scrape import Growth, Scrape, growth, parse

SECOND = 1_000_000_000
NOTHING = Growth({}, False)


def rows(**columns: list[float | None]) -> list[dict[str, Any]]:
    """One sample a second."""
    count = len(next(iter(columns.values())))
    return [
        {"gpu": 0, "t_ns": i * SECOND, "energy": None, "power": None, **{name: of[i] for name, of in columns.items()}}
        for i in range(count)
    ]


def test_the_counter_is_interpolated_and_pauses_do_not_count() -> None:
    of = rows(energy=[0.0, 100.0, 300.0, 300.0, 340.0])
    half, pause_left_out = (SECOND // 2, 3 * SECOND // 2), [(0, SECOND), (3 * SECOND, 4 * SECOND)]
    assert spent(of, [half]) == pytest.approx(50 + 100)
    assert spent(of, pause_left_out) == pytest.approx(100 + 40)


def test_without_a_counter_power_is_integrated() -> None:
    of = rows(power=[100.0, 300.0, 300.0])
    assert spent(of, [(0, 2 * SECOND)]) == pytest.approx(200 + 300)
    assert spent(of, [(SECOND, 2 * SECOND)]) == pytest.approx(300)


@pytest.mark.parametrize("of", [[], rows(energy=[5.0]), rows(power=[None, None])])
def test_too_few_samples_are_no_energy(of: list[dict[str, Any]]) -> None:
    assert spent(of, [(0, SECOND)]) is None


def test_tokens_per_joule_from_nvml() -> None:
    samples = Samples(gpus={0: rows(energy=[0.0, 100.0]), 1: rows(energy=[50.0, 150.0])})
    figures = energy([(0, SECOND)], 400, NOTHING, samples)
    assert figures["joules"] == pytest.approx(200)
    assert figures["mean_power"] == pytest.approx(200)
    assert figures["tokens_per_joule"] == pytest.approx(2)
    assert figures["joules_per_token"] == pytest.approx(0.5)
    assert (figures["gpus"], figures["source"], figures["reason"]) == ([0, 1], "NVML", None)


def test_without_nvml_the_servers_counter_is_taken() -> None:
    before, after = (Scrape(0, *parse(triton(energy=joules))) for joules in (10.0, 60.0))
    figures = energy([(0, SECOND)], 50, growth(before, after), Samples())
    assert figures["joules"] == pytest.approx(100)  # of both GPUs
    assert figures["tokens_per_joule"] == pytest.approx(0.5)
    assert figures["source"] == "nv_energy_consumption"
    assert figures["mean_power"] is None


def test_no_energy_is_none_with_a_reason() -> None:
    figures = energy([(0, SECOND)], 50, NOTHING, Samples())
    assert figures["joules"] is None
    assert figures["tokens_per_joule"] is None
    assert figures["reason"]


class FakeNvml:
    """One GPU that tells its power and memory, but no energy."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 250_500 + handle

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: N802
        raise self.NVMLError(handle)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return type("Memory", (), {"used": (1 << 30) + handle})

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return type("Rates", (), {"gpu": 75 + handle})


def test_a_gpu_is_read_as_far_as_it_tells() -> None:
    (row,) = GpuMeter(FakeNvml()).read()
    assert row["power"] == pytest.approx(250.5)
    assert row["energy"] is None
    assert (row["memory_used"], row["utilisation"]) == (1 << 30, 0.75)


class NoDriver(FakeNvml):
    def nvmlInit(self) -> None:  # noqa: N802
        raise self.NVMLError("Driver Not Loaded")


def test_without_a_driver_there_is_a_reason() -> None:
    meter = GpuMeter(NoDriver())
    assert meter.reason == "NVML: Driver Not Loaded"
    assert meter.read() == []
