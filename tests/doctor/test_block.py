from __future__ import annotations

import getpass
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doctor.found import in_image, laptop, with_gpus
from tests.hardware.fake_nvml import Device, FakeNvml
from trtspec.doctor.block import issue_block, to_json, without_private
from trtspec.doctor.verdicts import verdicts


def test_the_block_is_fenced_and_names_what_was_found() -> None:
    found = in_image()
    text = issue_block(found, verdicts(found))
    assert text.startswith("```text\n")
    assert text.endswith("\n```")
    for word in ("NVIDIA H100 80GB HBM3, SM 90, 79.6 GiB", "590.44.01, CUDA 13.1", "installed: 1.2.1", "2.66.0"):
        assert word in text
    lines = dict(line.split("  ", 1) for line in text.splitlines()[1:-1])
    assert lines["tensorrt_llm, build here"].strip() == "yes"
    assert lines["tensorrt_llm, build in docker"].strip().startswith("no: docker is not on PATH")


def test_the_block_keeps_to_the_width_of_a_terminal() -> None:
    found = laptop()
    lines = issue_block(found, verdicts(found)).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("NVML" in line for line in lines) == 1  # said once, not by every step
    assert "loadtest --arm-url" in " ".join(" ".join(lines).split())


def test_what_is_absent_has_a_reason_and_is_never_zero() -> None:
    found = laptop()
    data = to_json(found, verdicts(found))
    json.dumps(data, allow_nan=False)
    for name, fact in data["facts"].items():
        assert (fact["value"] is None) == (fact["reason"] is not None), name
        assert fact["value"] != 0, name
    assert data["gpus"] == []


def test_gpus_in_json() -> None:
    found = with_gpus(FakeNvml(Device("NVIDIA GB10", None, (12, 1))))
    (gpu,) = to_json(found, verdicts(found))["gpus"]
    assert gpu == {
        "index": 0,
        "name": "NVIDIA GB10",
        "sm": 121,
        "memory_bytes": None,
        "free_bytes": None,
        "mig": False,
        "known_as": None,
    }
    assert "memory unknown" in issue_block(found, verdicts(found))


def test_verdicts_in_json() -> None:
    found = in_image()
    steps = to_json(found, verdicts(found))["runtimes"]["tensorrt_llm"]["steps"]
    assert steps["build here"] == {"usable": True, "reasons": [], "cautions": [], "fixes": []}
    assert steps["serve in docker"]["usable"] is False


def test_no_home_and_no_user_in_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada.lovelace")
    monkeypatch.setattr(getpass, "getuser", lambda: "ada.lovelace")
    triton = replace(in_image().triton, path="/home/ada.lovelace/triton/bin/tritonserver")
    found = in_image(triton=triton, visible_devices="/scratch/ada.lovelace/x")
    assert "lovelace" not in issue_block(found, verdicts(found))
    assert "lovelace" not in json.dumps(to_json(found, verdicts(found)))
    assert "~/triton/bin/tritonserver" in issue_block(found, verdicts(found))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/ada/x", "~/x"),
        ("at /home/ada", "at ~"),
        ("/home/adam/x", "/home/adam/x"),
        ("/data/ada/run", "/data/…/run"),
        ("nvidia/adapter", "nvidia/adapter"),
        ("ada", "ada"),
    ],
)
def test_what_is_private(monkeypatch: pytest.MonkeyPatch, text: str, clean: str) -> None:
    monkeypatch.setattr(Path, "home", classmethod(lambda _cls: Path("/home/ada")))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert without_private(text) == clean


def test_a_user_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert without_private("/data/x") == "/data/x"
