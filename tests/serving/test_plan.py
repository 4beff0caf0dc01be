from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.builders import toy_spec
from trtspec.errors import EnvironmentMissing, ServerError
from trtspec.serving import Ports, free_ports, launch_plan, repository_plan
from trtspec.serving import installation as installation_module
from trtspec.serving.installation import find_installation, prepare_backends

PORTS = Ports(8000, 8001, 8002)


def test_the_plan_follows_the_spec(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, serving={"host": "0.0.0.0"})
    plan = launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log")
    assert f"--model-repository={tmp_path}/model_repo/toy/baseline" in plan.argv
    assert "--http-address=0.0.0.0" in plan.argv
    assert "--grpc-port=8001" in plan.argv
    assert plan.host == "0.0.0.0"


def test_planning_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    assert repository_plan(tmp_path / "repo", PORTS, log=tmp_path / "log") == repository_plan(
        tmp_path / "repo", PORTS, log=tmp_path / "log"
    )
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_names_differ_between_servers(tmp_path: Path) -> None:
    one = repository_plan(tmp_path, PORTS, log=tmp_path / "log")
    other = repository_plan(tmp_path, Ports(9000, 9001, 9002), log=tmp_path / "log")
    assert one.shm_prefix != other.shm_prefix
    assert any(one.shm_prefix in argument for argument in one.argv)


def test_ipv6_addresses_are_written_for_grpc(tmp_path: Path) -> None:
    argv = repository_plan(tmp_path, PORTS, log=tmp_path / "log", host="::1").argv
    assert "--http-address=ipv6:::1" in argv
    assert "--grpc-address=[::1]" in argv


def test_the_environment_of_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    env = repository_plan(tmp_path, PORTS, log=tmp_path / "log").env
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert env["LD_LIBRARY_PATH"].split(os.pathsep)[0].endswith("nvidia_pytriton.libs")
    assert env["HF_HUB_OFFLINE"] == "1"
    assert env["TOKENIZERS_PARALLELISM"] == "false"
    assert "GOMP_SPINCOUNT" not in env
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert 10**4 <= int(repository_plan(tmp_path, PORTS, log=tmp_path / "log").env["GOMP_SPINCOUNT"]) <= 10**6
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    assert repository_plan(tmp_path, PORTS, log=tmp_path / "log").env["GOMP_SPINCOUNT"] == "7"


def test_other_systems_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(EnvironmentMissing, match="Linux x86_64"):
        find_installation()


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", {"pytriton": None}.__getitem__)
    with pytest.raises(EnvironmentMissing) as caught:
        find_installation()
    assert caught.value.fix == "pip install 'trtspec[local]'"


def test_numpy_2_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"numpy": "2.1.0", "nvidia-pytriton": "0.7.0"}
    monkeypatch.setattr(metadata, "version", versions.__getitem__)
    with pytest.raises(EnvironmentMissing, match=r"numpy 2\.1\.0"):
        find_installation()


def test_an_unknown_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_module, "_python_version", lambda: "3.14")
    with pytest.raises(EnvironmentMissing, match=r"does not know Python 3\.14 \(it knows 3\.8, .*3\.13\)"):
        find_installation()


def test_the_backend_folder_is_made_once_and_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    installation = find_installation()
    folder = prepare_backends(installation)
    names = {path.name for path in (folder / "python").iterdir()}
    assert {"libtriton_python.so", "triton_python_backend_utils.py", "triton_python_backend_stub"} <= names
    inode = folder.stat().st_ino
    assert prepare_backends(installation).stat().st_ino == inode
    (folder / "python" / "libtriton_python.so").unlink()
    prepare_backends(installation)
    assert (folder / "python" / "libtriton_python.so").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_many_processes_make_the_backend_folder_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    installation = find_installation()
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: prepare_backends(installation), range(64)))
    assert set(results) == {installation.backends}
    assert [path.name for path in installation.backends.parent.iterdir()] == [installation.backends.name]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    monkeypatch.setenv("TRTSPEC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ServerError) as caught:
        prepare_backends(find_installation())
    assert "TRTSPEC_CACHE" in (caught.value.fix or "")


def test_free_ports_are_random() -> None:
    assert free_ports() != free_ports()
