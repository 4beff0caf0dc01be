from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hardware.fake_nvml import FakeNvml, h100
from trtspec.doctor.examination import examine
from trtspec.spec import SpecFile, parse_spec

PAIR = "name: pair\nruntime: tensorrt_llm\ntarget: {checkpoint: t}\ndraft: {checkpoint: d}\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of 127.0.0.1 that this process listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def spec_file(folder: Path, text: str = "") -> SpecFile:
    return SpecFile(folder / "trtspec.yaml", parse_spec(PAIR + text))


def test_gpus_and_driver(tmp_path: Path) -> None:
    found = examine(spec_file(tmp_path), nvml=FakeNvml(*h100(2)), environ={"PATH": "", "CUDA_VISIBLE_DEVICES": "1"})
    assert len(found.gpus) == 2
    assert (found.driver.version, found.driver.cuda, found.driver_reason) == ("590.44.01", "13.1", None)
    assert found.visible_devices == "1"
    assert found.triton.path is None


def test_a_port_in_use_and_one_that_cannot_be_used(tmp_path: Path, taken: int) -> None:
    found = examine(spec_file(tmp_path, f"serving: {{http_port: {taken}}}"), nvml=FakeNvml())
    assert "in use by" in (found.ports[0].problem or "")
    other = examine(spec_file(tmp_path, "serving: {host: no.such.host.invalid}"), nvml=FakeNvml())
    assert all("no.such.host.invalid" in (state.problem or "") for state in other.ports)


@pytest.mark.parametrize(
    ("section", "words"),
    [("version: 1.3.0rc2", "1.3.0rc2"), ("image: 'mine:1'", "mine:1"), ("version: 1.1.0, image: '26.03'", "25.12")],
)
def test_a_tensorrt_llm_that_cannot_be_is_a_reason(tmp_path: Path, section: str, words: str) -> None:
    found = examine(spec_file(tmp_path, f"tensorrt_llm: {{{section}}}"), nvml=FakeNvml())
    assert found.toolchain is None
    assert words in (found.toolchain_reason or "")
    assert found.toolchain_fix
