"""Power, energy, memory and load of the machine's GPUs, now (NVML, package nvidia-ml-py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["GpuMeter"]


class GpuMeter:
    """Reads every GPU; `reason` says why there is nothing to read. `nvml` stands in for pynvml in tests."""

    def __init__(self, nvml: Any = None) -> None:
        self._nvml, self.reason, self._handles = nvml, None, []  # type: Any, str | None, list[Any]
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
        except ImportError:
            self.reason = "the package nvidia-ml-py is not installed"
        except self._nvml.NVMLError as error:
            self.reason = f"NVML: {error}"

    def read(self) -> list[dict[str, Any]]:
        """One row a GPU; None for what it does not tell (energy needs Volta or newer).

        `power` in W, `energy` in J since the driver was loaded, `memory_used` in bytes, `utilisation` from 0 to 1.
        """
        nvml, t_ns = self._nvml, time.perf_counter_ns()
        return [
            {
                "gpu": index,
                "t_ns": t_ns,
                "power": self._ask(lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1e3, handle),
                "energy": self._ask(lambda h: nvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3, handle),
                "memory_used": self._ask(lambda h: int(nvml.nvmlDeviceGetMemoryInfo(h).used), handle),
                "utilisation": self._ask(lambda h: nvml.nvmlDeviceGetUtilizationRates(h).gpu / 100, handle),
            }
            for index, handle in enumerate(self._handles)
        ]

    def _ask(self, question: Callable[[Any], float], handle: Any) -> float | None:
        with suppress(self._nvml.NVMLError):
            return question(handle)
        return None
