from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.programs import docker, program, triton
from trtspec.doctor.machine import (
    Docker,
    Tool,
    container_kind,
    cuda_toolkit,
    docker_facts,
    driver_cuda,
    find_triton,
    mpi,
    output_of,
    storage,
    torch_cuda,
)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_docker_with_and_without_the_toolkit(programs: Path) -> None:
    assert docker_facts() == Docker(None, None, "docker is not on PATH")
    docker(programs)
    assert docker_facts() == Docker("28.3.2", nvidia=True)
    docker(programs, {"ServerVersion": "28.3.2", "Runtimes": {"runc": {}}})
    assert docker_facts() == Docker("28.3.2", nvidia=False, reason="the NVIDIA container toolkit is not installed")
    program(programs, "nvidia-ctk", "")
    assert docker_facts().nvidia


def test_docker_that_warns_first(programs: Path) -> None:
    docker(programs, before="WARNING: bridge-nf-call-iptables is disabled\n")
    assert docker_facts().server == "28.3.2"


@pytest.mark.parametrize("info", [{}, {"ServerVersion": ""}, {"ServerErrors": ["permission denied"]}])
def test_docker_whose_server_does_not_answer(programs: Path, info: dict[str, object]) -> None:
    docker(programs, info, code=1 if "ServerErrors" in info else 0)
    facts = docker_facts()
    assert facts.server is None
    assert "does not answer this user" in (facts.reason or "")


@pytest.mark.parametrize("output", ["not json", "{broken", "[]", '"text"', ""])
def test_docker_that_prints_something_else(programs: Path, output: str) -> None:
    program(programs, "docker", output)
    assert docker_facts().server is None


def test_a_program_that_hangs_is_not_waited_for(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.doctor.machine._SECONDS", 0.1)
    programs.mkdir()
    script = programs / "slow"
    script.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    script.chmod(0o755)
    assert output_of([str(script)]) is None


def test_the_cuda_toolkit(programs: Path) -> None:
    assert cuda_toolkit().version is None
    assert "no nvcc" in (cuda_toolkit().reason or "")
    program(programs, "nvcc", "Cuda compilation tools, release 13.1, V13.1.80")
    assert cuda_toolkit() == Tool("13.1")
    program(programs, "nvcc", "?")
    assert cuda_toolkit() == Tool(None, "nvcc does not tell its version")


def test_mpi(programs: Path) -> None:
    assert mpi().version is None
    program(programs, "mpiexec", "mpirun (Open MPI) 4.1.7\n\nReport bugs to …")
    assert mpi() == Tool("mpirun (Open MPI) 4.1.7")
    program(programs, "mpirun", "", code=1)
    assert mpi() == Tool(None, "mpirun does not tell its version")


def test_torch_s_cuda_is_read_without_importing_it() -> None:
    tool = torch_cuda()
    assert (tool.version is None) != (tool.reason is None)


def test_no_driver_library() -> None:
    assert driver_cuda("libnothing-of-that-name.so.1") is None


def test_the_kind_of_container(tmp_path: Path) -> None:
    assert container_kind({}, tmp_path) is None
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").touch()
    assert container_kind({}, tmp_path) == "podman"
    (tmp_path / ".dockerenv").touch()
    assert container_kind({}, tmp_path) == "docker"
    assert container_kind({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) == "kubernetes"


def test_tritonserver_of_an_image(tmp_path: Path) -> None:
    environ = {"PATH": str(triton(tmp_path)), "NVIDIA_TRITON_SERVER_VERSION": "26.04"}
    found = find_triton(environ)
    assert found.path == str(tmp_path / "bin" / "tritonserver")
    assert (found.version, found.tensorrtllm_backend, found.image_month) == ("2.66.0", True, "26.04")


def test_tritonserver_of_another_flavour(tmp_path: Path) -> None:
    environ = {"PATH": str(triton(tmp_path, backend=False, version=None)), "TRITON_SERVER_VERSION": "2.60.0"}
    found = find_triton(environ)
    assert (found.version, found.tensorrtllm_backend) == ("2.60.0", False)


def test_no_tritonserver_on_path(tmp_path: Path) -> None:
    found = find_triton({"PATH": str(tmp_path), "NVIDIA_TRITON_SERVER_VERSION": "26.04"})
    assert (found.path, found.version, found.image_month) == (None, None, None)
    assert (found.embedded is None) == (found.embedded_reason is not None)


def test_storage_where_a_folder_and_shared_memory_are_missing(tmp_path: Path) -> None:
    facts = storage(tmp_path / "not" / "yet", shm=tmp_path / "none")
    assert facts.disk_free > 0
    assert (facts.shm_total, facts.shm_free) == (None, None)
