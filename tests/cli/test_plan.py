"""`trtspec plan` as a user runs it: a process, its exit code, stdout and stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import toy_spec
from tests.planning.pairs import metadata_spec


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trtspec", "plan", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    metadata_spec(folder)
    return folder


def test_a_plan_from_metadata_alone(folder: Path) -> None:
    done = run("--acceptance-rate", "0.6", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fits on 4 × H100-80GB-SXM")
    assert "--detail" in done.stdout
    assert all(len(line.rstrip()) <= 80 for line in done.stdout.splitlines() if "fix:" not in line)


def test_json_is_one_document_and_quiet_one_line(folder: Path) -> None:
    data = json.loads(run("--output", "json", cwd=folder).stdout)
    quiet = run("--output", "quiet", cwd=folder)
    assert data["schema"] == 1
    assert quiet.stdout.strip() == data["verdict"]


def test_a_plan_that_does_not_fit_exits_with_3(folder: Path) -> None:
    done = run("--gpu", "L4", "--output", "json", cwd=folder)
    assert done.returncode == 3
    assert json.loads(done.stdout)["ok"] is False


def test_a_page_is_written_where_asked(folder: Path, tmp_path: Path) -> None:
    done = run("--html", str(tmp_path / "plan.html"), "--output", "quiet", cwd=folder)
    assert done.returncode == 0
    assert (tmp_path / "plan.html").read_text().startswith("<!DOCTYPE html>")


def test_detail_adds_terms_and_notes(folder: Path) -> None:
    plain, detail = (run(*options, cwd=folder).stdout for options in ((), ("--detail",)))
    assert "bandwidth_efficiency" in detail
    assert "bandwidth_efficiency" not in plain
    assert "default-fractions-collide" in detail


def test_what_to_type_next_after_a_plan_of_the_spec_as_it_is(folder: Path) -> None:
    assert run(cwd=folder).stdout.endswith("next: trtspec build --dry-run\n")
    assert "next: trtspec build" not in run("--gpu", "H200", cwd=folder).stdout


def test_the_list_of_gpus_needs_no_spec(tmp_path: Path) -> None:
    done = run("--gpus", "--output", "json", cwd=tmp_path)
    rows = json.loads(done.stdout)["gpus"]
    assert done.returncode == 0
    assert all(row["source"] and row["memory_bytes"] > 0 for row in rows)
    lines = run("--gpus", cwd=tmp_path).stdout.splitlines()
    assert any(line.startswith("H200-141GB-SXM") for line in lines)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert "H200-141GB-SXM" in run("--gpus", "--output", "quiet", cwd=tmp_path).stdout.split()


def test_the_torch_runtime_without_a_gpu(tmp_path: Path) -> None:
    toy_spec(tmp_path)
    done = run(cwd=tmp_path)
    assert done.returncode == 0
    assert "in this machine's memory" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--gpu", "H1000X"), 2, "H1000X"),
        (("--concurrency", "0"), 2, "numbers from 1 to 4096"),
        (("--concurrency", "1,,2"), 2, "numbers from 1 to 4096"),
        (("--concurrency", "9" * 5000), 2, "numbers from 1 to 4096"),
        (("--draft-length", "65"), 2, "numbers from 0 to 64"),
        (("--acceptance-rate", "1.2"), 2, "1.2"),
        (("--acceptance-rate", "nan"), 2, "nan"),
        (("--price", "-1"), 2, "-1"),
        (("--price", "1e300"), 2, "1e+300"),
        (("--assume", "speed"), 2, "NAME=NUMBER"),
        (("--assume", "speed=1"), 2, "speed"),
        (("--assume", "call_cpu=inf"), 2, "call_cpu"),
        (("--assume", "call_latency=1e308"), 2, "call_latency"),
        (("--measured", "nothing"), 2, "no such file"),
        (("nothing.yaml",), 2, "nothing.yaml"),
    ],
)
def test_bad_input_is_explained(folder: Path, options: tuple[str, ...], code: int, text: str) -> None:
    done = run(*options, cwd=folder)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_loads_no_heavy_package(folder: Path) -> None:
    code = (
        "import sys; from trtspec.cli.main import cli\n"
        "try:\n cli(['plan', '--output', 'quiet'])\nexcept SystemExit:\n pass\n"
        "print([name for name in ('torch', 'transformers', 'plotly', 'scipy', 'tritonclient', 'numpy', 'asyncio', "
        "'trtspec.loadtest') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
