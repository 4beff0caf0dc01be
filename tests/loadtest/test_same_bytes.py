"""The same run gives the same summary.json on another machine: other folder, processor, threads and hash seed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loadtest.fakes import counters, record
from trtspec.files import json_text
from trtspec.loadtest import reading
from trtspec.loadtest.records import RecordWriter
from trtspec.loadtest.run_folder import read_run, summarise_run
from trtspec.loadtest.summary import rounded

SUMMARISE = """
import sys
from pathlib import Path
from trtspec.files import json_text
from trtspec.loadtest.run_folder import read_run, summarise_run
sys.stdout.write(json_text(summarise_run(read_run(Path(sys.argv[1])))))
"""
# as if the processor had no vector units of the last fifteen years, and one core
OTHER = {
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    "OPENBLAS_CORETYPE": "Nehalem",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "77",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """240 requests at two levels whose times are no round numbers, and the files beside them."""
    run = tmp_path / "here"
    run.mkdir()
    draw = random.Random(5)
    with RecordWriter(run / "requests.jsonl") as writer:
        for index in range(60):
            for concurrency in (1, 4):
                for arm, pace in (("baseline", 11.37), ("speculative", 7.91 + concurrency)):
                    step = pace * (1 + 0.13 * ((index * 7) % 11) / 3) * draw.lognormvariate(0, 0.03)
                    writer.write(
                        record(
                            [(step * (i + 1) ** 1.01, 1 + (i * index) % 3, f"{i} ") for i in range(12)],
                            arm=arm,
                            prompt=f"p{index}-{concurrency}",
                            start_ms=1000.1 * index,
                            concurrency=concurrency,
                            block=index // 5,
                            category=("code", "chat")[index % 2],
                            server=counters([1, index % 3, 2], 9) if arm == "speculative" else None,
                        )
                    )
    with (run / "requests.jsonl").open("a") as stream:
        stream.write('{"arm": "base')
    (run / "provenance.json").write_text(json.dumps({"options": {"slo": {"ttft": 0.02, "e2e": 0.2}, "seed": 3}}))
    (run / "measurement.json").write_text("{")
    return run


def test_on_another_machine(folder: Path, tmp_path: Path) -> None:
    here = json_text(summarise_run(read_run(folder)))
    there = shutil.copytree(folder, tmp_path / "another" / "place")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SUMMARISE, str(there)],
        env={**os.environ, **OTHER},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode("utf-8") == here
    assert str(tmp_path) not in here
    assert "requests.jsonl:241: the last line is cut off" in here


def test_read_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json_text(summarise_run(read_run(folder)))
    monkeypatch.setattr(reading, "_STRETCH", 3000)
    monkeypatch.setattr(reading, "_WORTH_PROCESSES", 10**9)
    assert json_text(summarise_run(read_run(folder))) == whole


def test_fractions_have_nine_digits() -> None:
    assert rounded({"a": [0.1 + 0.2, 1 / 3], "b": {"c": 12345678901234.567}, "n": 2**60}) == {
        "a": [0.3, 0.333333333],
        "b": {"c": 12345678900000.0},
        "n": 2**60,
    }
