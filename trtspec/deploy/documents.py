"""The generated files about monitoring."""

from __future__ import annotations

import json
from pathlib import Path

from trtspec.deploy.dashboard import dashboard
from trtspec.deploy.metrics_document import metrics_document
from trtspec.files import write_text

__all__ = ["monitoring_documents", "write_monitoring"]


def monitoring_documents() -> dict[str, str]:
    """Path in the repository → text."""
    return {
        "docs/metrics.md": metrics_document(),
        "dashboards/trtspec.json": json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n",
    }


def write_monitoring(root: Path) -> None:
    """Write them below `root`."""
    for name, text in monitoring_documents().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
