"""The torch leaf's gauges on Triton's metrics endpoint: requests, tokens that wait, memory for keys and values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import triton_python_backend_utils as pb_utils

from trtspec.triton_models.leaf_metric_table import LEAF_METRICS, Gauges, gauges

if TYPE_CHECKING:
    from trtspec.torch_runtime.engine import Load

__all__ = ["LeafMetrics"]

_SECONDS = 0.5  # setting a gauge is a message to the server's process


class LeafMetrics:
    """Sets what has changed, twice a second, in a thread of its own; nothing on a server without metrics."""

    def __init__(self, model: str, version: str, load: Callable[[], Load]) -> None:
        self._common = {"model": model, "version": version}
        self._load = load
        self._families = _families()
        self._metrics: dict[Any, Any] = {}
        self._set: Gauges = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="leaf-metrics", daemon=True)
        if self._families:
            self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _work(self) -> None:
        while True:
            try:
                self._export()
            except Exception as error:  # noqa: BLE001 - requests are served all the same
                pb_utils.Logger.log_warn(f"the leaf's metrics are not exported any more: {error}")
                return
            if self._closing.wait(_SECONDS):
                return

    def _export(self) -> None:
        for key, value in gauges(self._load()).items():
            if self._set.get(key) != value:
                self._metric(*key).set(value)
                self._set[key] = value

    def _metric(self, name: str, labels: tuple[tuple[str, str], ...]) -> Any:
        key = (name, labels)
        if key not in self._metrics:
            self._metrics[key] = self._families[name].Metric(labels={**self._common, **dict(labels)})
        return self._metrics[key]


def _families() -> dict[str, Any]:
    try:
        return {
            name: pb_utils.MetricFamily(name=name, description=text, kind=pb_utils.MetricFamily.GAUGE)
            for name, text in LEAF_METRICS.items()
        }
    except Exception as error:  # noqa: BLE001 - a server without metrics serves requests all the same
        pb_utils.Logger.log_warn(f"no metrics of the leaf: {error}")
        return {}
