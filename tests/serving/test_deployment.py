from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.repository.tensorrt import tensorrt_spec
from tests.serving.tensorrt_plans import GOLDEN, HOST, LAYOUTS, PORTS, deployed, plan_of, plan_text
from trtspec.errors import EnvironmentMissing, UsageError
from trtspec.serving import ServeOptions, drain_seconds, launch_plan
from trtspec.serving.container import shm_bytes
from trtspec.serving.security import AdminKey
from trtspec.serving.served import Served, ServedModel
from trtspec.serving.startup import ready_timeout
from trtspec.serving.ways import Host, image_for
from trtspec.spec import Arm

ARMS: tuple[Arm, ...] = ("speculative", "baseline")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_command_lines_are_the_golden_ones(tmp_path: Path, layout: str) -> None:
    spec_file = deployed(tmp_path, layout)
    for way in ("path", "docker"):
        for arm in ARMS:
            golden = GOLDEN / f"{layout}-{way}-{arm}.txt"
            assert plan_text(plan_of(spec_file, arm, way=way), spec_file.root) == golden.read_text(), golden.name


def test_the_engines_of_the_repository_decide_not_the_spec(tmp_path: Path) -> None:
    spec_file = deployed(tmp_path, "tp4-tp1")
    changed = spec_file.spec.model_copy(update={"target": spec_file.spec.target.model_copy(update={"tp": 1})})
    plan = plan_of(dataclasses.replace(spec_file, spec=changed), "baseline")
    assert plan.start is not None
    assert (plan.start.mode, plan.start.world_size) == ("leader", 4)
    with pytest.raises(UsageError, match="--world-size is 1"):
        plan_of(spec_file, "baseline", mode="leader", world_size=1)


def test_before_there_is_a_repository_the_spec_decides(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, target={"tp": 2})
    plan = plan_of(spec_file)
    assert plan.start is not None
    assert plan.start.mode == "orchestrator"
    assert any("no repository yet" in note for note in plan.notes)


BARE = Host()
DOCKER = Host(docker=True)
TRITON_ALONE = Host(Path("/usr/bin/tritonserver"), backend=False, docker=True)


@pytest.mark.parametrize(
    ("host", "options", "way"),
    [
        (HOST, {}, "path"),
        (DOCKER, {}, "docker"),
        (TRITON_ALONE, {}, "docker"),
        (HOST, {"way": "docker"}, "docker"),
        (HOST, {"image": "26.04"}, "docker"),
        (BARE, {"preview": True}, "docker"),
    ],
)
def test_what_is_here_decides(tmp_path: Path, host: Host, options: dict[str, Any], way: str) -> None:
    assert plan_of(tensorrt_spec(tmp_path), host=host, **options).way == way


@pytest.mark.parametrize(
    ("host", "options", "message"),
    [
        (BARE, {}, "no tritonserver is here, and docker is not on PATH"),
        (DOCKER, {"way": "path"}, "neither on PATH nor at /opt"),
        (TRITON_ALONE, {"way": "path"}, "/usr/bin/tritonserver lacks it"),
    ],
)
def test_what_is_missing_is_told(tmp_path: Path, host: Host, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EnvironmentMissing, match=message) as caught:
        plan_of(tensorrt_spec(tmp_path), host=host, **options)
    assert caught.value.fix


def test_mpirun_is_needed_only_where_ranks_are_started(tmp_path: Path) -> None:
    host = dataclasses.replace(HOST, mpirun=False)
    assert plan_of(tensorrt_spec(tmp_path), host=host).way == "path"
    with pytest.raises(EnvironmentMissing, match="mpirun is not on PATH"):
        plan_of(deployed(tmp_path / "four", "tp4-tp1"), host=host)


def test_runtimes_and_ways_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="torch runtime's models import trtspec"):
        plan_of(toy_spec(tmp_path), way="docker")
    with pytest.raises(UsageError, match="only the Python backend"):
        plan_of(tensorrt_spec(tmp_path / "trt"), way="embedded")


def test_an_image_with_another_version_is_refused(tmp_path: Path) -> None:
    spec_file = deployed(tmp_path, "tp1-tp1")
    with pytest.raises(UsageError, match=r"carries TensorRT-LLM 1\.0.* built with 1\.2\.1"):
        plan_of(spec_file, image="25.10")
    assert image_for(spec_file.spec, "1.2.1", "26.04").endswith(":26.04-trtllm-python-py3")
    assert image_for(spec_file.spec, "1.2.1", "mirror.example/own:1") == "mirror.example/own:1"


def test_older_images_have_no_limit_for_bodies(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, "1.0.0")
    old = plan_of(spec_file, image="25.09").argv
    assert not any(word.startswith("--http-max-input-size") for word in old)
    assert any(word.startswith("--http-max-input-size") for word in plan_of(spec_file, image="25.10").argv)


def test_a_published_container(tmp_path: Path) -> None:
    spec_file = deployed(tmp_path, "tp1-tp1")
    argv = plan_of(spec_file, way="docker", network="bridge").argv
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "-p"] == [
        f"127.0.0.1:{port}:{port}" for _, port in PORTS.items()
    ]
    assert "--http-address=0.0.0.0" in argv


def test_the_container_sees_the_repository_where_the_spec_says(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"repository_root": "/models", "engines": "link"})
    from trtspec.repository import generate

    generate(spec_file)
    engine = spec_file.repository("speculative") / "tensorrt_llm" / "1" / "rank0.engine"
    engine.unlink()
    engine.symlink_to(tmp_path / "built" / "target" / "rank0.engine")
    argv = plan_of(spec_file, way="docker").argv
    assert "--model-repository=/models" in argv
    mounts = [argv[i + 1] for i, word in enumerate(argv) if word == "--mount"]
    linked = tmp_path / "built" / "target"
    assert mounts == [
        f"type=bind,source={spec_file.repository('speculative')},target=/models,readonly",
        f"type=bind,source={linked},target={linked},readonly",
    ]


def test_shared_memory_grows_with_python_models() -> None:
    models = (
        ServedModel("pre", "python"),
        ServedModel("post", "python"),
        ServedModel("bls", "python", instances=8),
    )
    assert shm_bytes(Served(models), 1) >= 640 << 20
    assert shm_bytes(Served(models), 4) >= (640 << 20) + (1 << 30)


def test_big_engines_get_more_time_to_start(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    assert ready_timeout(spec_file, 0) == (spec_file.spec.serving.ready_timeout, None)
    seconds, note = ready_timeout(spec_file, 140 * 10**9)
    assert seconds >= 280
    assert note is not None
    assert ready_timeout(spec_file, 140 * 10**9, 60) == (60, None)
    given = toy_spec(tmp_path / "given", serving={"ready_timeout": 90})
    assert ready_timeout(given, 140 * 10**9) == (90, None)


@pytest.mark.parametrize(("limit", "seconds"), [(None, 120), (30, 31), (10**6, 3600)])
def test_requests_in_work_get_as_long_as_one_may_take(tmp_path: Path, limit: float | None, seconds: int) -> None:
    spec_file = toy_spec(tmp_path, serving={} if limit is None else {"request_timeout": limit})
    assert drain_seconds(spec_file) == seconds
    options = ServeOptions(managed=True, admin=AdminKey("KEY"))
    plan = launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log", options=options)
    assert f"--exit-timeout-secs={seconds}" in plan.argv


@pytest.mark.parametrize("options", [{"mode": "leader"}, {"world_size": 2}])
def test_the_torch_runtime_has_no_ranks(tmp_path: Path, options: dict[str, Any]) -> None:
    spec_file = toy_spec(tmp_path)
    with pytest.raises(UsageError, match="no MPI ranks"):
        launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log", options=ServeOptions(**options))
    same = ServeOptions(mode="direct", world_size=1, admin=AdminKey("KEY"))
    assert launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log", options=same).start is None


def exposed(folder: Path, **serving: Any) -> Any:
    return plan_of(tensorrt_spec(folder, serving={"host": "0.0.0.0", **serving}))


def test_on_loopback_only_loading_asks_for_the_key(tmp_path: Path) -> None:
    plan = plan_of(tensorrt_spec(tmp_path))
    assert "--http-restricted-api=model-repository:trtspec-admin-key=KEY" in plan.argv
    assert plan.notes == ("there is no repository yet: this is the start that the spec leads to",)


def test_elsewhere_every_api_for_administrators_does(tmp_path: Path) -> None:
    plan = exposed(tmp_path)
    apis = "model-repository,model-config,shared-memory,statistics,trace,logging"
    assert f"--http-restricted-api={apis}:trtspec-admin-key=KEY" in plan.argv
    assert f"--grpc-restricted-protocol={apis}:trtspec-admin-key=KEY" in plan.argv
    assert plan.addresses == {"http": "0.0.0.0", "grpc": "0.0.0.0", "metrics": "127.0.0.1"}
    assert "anyone there can send requests" in plan.notes[0]
    assert any("nothing is encrypted" in note for note in plan.notes)


def test_with_tls_plain_http_stays_on_loopback(tmp_path: Path) -> None:
    plan = exposed(tmp_path, tls_certificate="cert.pem", tls_key="key.pem")
    assert f"--grpc-server-cert={tmp_path}/cert.pem" in plan.argv
    assert plan.addresses == {"http": "127.0.0.1", "grpc": "0.0.0.0", "metrics": "127.0.0.1"}
    assert any("HTTP has no TLS" in note for note in plan.notes)


def test_without_a_key_nothing_can_be_loaded_or_unloaded(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    argv = launch_plan(spec_file, "baseline", PORTS, log=tmp_path / "log").argv
    assert not any("model-control-mode" in word for word in argv)
