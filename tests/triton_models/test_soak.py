"""The soak of benchmarks/soak.py, short: mixed clients on one server, every valid answer right, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import KINDS, soak

pytestmark = pytest.mark.triton


def test_mixed_clients_at_once(tmp_path: Path) -> None:
    tally, _ = soak(tmp_path, clients=32, seconds=20)
    assert tally.problems == []
    assert len(tally.done) == len(set(KINDS))
    assert min(tally.done.values()) > 3
