"""`trtspec doctor` as a user runs it, on this machine and on ones made of stand-in programs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

from tests.doctor.programs import docker, triton

FACT = {"type": "object", "required": ["value", "reason"], "maxProperties": 2}
STEP = {
    "type": "object",
    "required": ["usable", "reasons", "cautions", "fixes"],
    "properties": {"usable": {"type": "boolean"}, "reasons": {"type": "array", "items": {"type": "string"}}},
}
DOCUMENT = {
    "type": "object",
    "required": ["schema", "facts", "gpus", "packages", "ports", "runtimes", "anywhere", "runtime", "usable"],
    "properties": {
        "schema": {"const": 1},
        "facts": {"type": "object", "additionalProperties": FACT},
        "gpus": {"type": "array"},
        "runtimes": {
            "type": "object",
            "required": ["torch", "tensorrt_llm", "llmapi"],
            "additionalProperties": {
                "type": "object",
                "required": ["usable", "steps"],
                "properties": {"steps": {"type": "object", "additionalProperties": STEP}},
            },
        },
        "usable": {"type": "boolean"},
    },
}
SPEC = "name: pair\nruntime: {runtime}\ntarget: {{checkpoint: t}}\ndraft: {{checkpoint: d}}\n"


def run(*arguments: str, cwd: Path, path: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trtspec", "doctor", *arguments]
    environment = {**os.environ, **environ, **({"PATH": str(path)} if path else {})}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60, env=environment)


def document(*arguments: str, cwd: Path, path: Path | None = None, **environ: str) -> dict[str, Any]:
    done = run(*arguments, "--output", "json", cwd=cwd, path=path, **environ)
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, DOCUMENT)
    return data


def test_without_a_spec(tmp_path: Path) -> None:
    done = run(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("```") == 2
    assert "Traceback" not in done.stderr
    assert str(Path.home()) not in done.stdout
    data = document(cwd=tmp_path)
    assert data["runtime"] == "torch"
    assert data["facts"]["tensorrt_llm_meant"]["value"] == "1.2.1"
    assert [port["port"] for port in data["ports"]] == [8000, 8001, 8002]


def test_quiet_says_it_in_one_line(tmp_path: Path) -> None:
    assert run("--output", "quiet", cwd=tmp_path).stdout.startswith("torch: ")


def test_docker_and_triton_are_found_on_path(tmp_path: Path) -> None:
    programs = triton(tmp_path / "tritonserver")
    docker(programs)
    data = document(cwd=tmp_path, path=programs, NVIDIA_TRITON_SERVER_VERSION="26.02")
    assert data["facts"]["docker"] == {"value": "28.3.2", "reason": None}
    assert data["facts"]["docker_gpus"] == {"value": True, "reason": None}
    assert data["facts"]["tritonserver_version"]["value"] == "2.66.0"
    reasons = data["runtimes"]["tensorrt_llm"]["steps"]["serve here"]["reasons"]
    assert any("carries TensorRT-LLM 1.1.0, not 1.2.1" in reason for reason in reasons)


def test_the_spec_gives_ports_runtime_and_version(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        (tmp_path / "trtspec.yaml").write_text(
            SPEC.format(runtime="tensorrt_llm")
            + f"serving: {{http_port: {port}}}\ntensorrt_llm: {{version: 1.1.0, image: '26.01'}}\n"
        )
        data = document(cwd=tmp_path)
    assert data["runtime"] == "tensorrt_llm"
    assert data["ports"][0]["port"] == port
    assert data["ports"][0]["free"] is False
    assert data["facts"]["tensorrt_llm_meant"]["value"] == "1.1.0"
    assert data["facts"]["image_meant"]["value"] == "nvcr.io/nvidia/tritonserver:26.01-trtllm-python-py3"


def test_version_and_image_that_contradict_are_a_reason_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "trtspec.yaml").write_text(
        SPEC.format(runtime="tensorrt_llm") + "tensorrt_llm: {version: 1.1.0, image: '26.03'}\n"
    )
    data = document(cwd=tmp_path)
    assert data["facts"]["tensorrt_llm_meant"]["value"] is None
    assert "25.12" in data["facts"]["tensorrt_llm_meant"]["reason"]


def test_require_fails_where_the_runtime_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "engines.yaml").write_text(SPEC.format(runtime="tensorrt_llm"))
    done = run("engines.yaml", "--require", cwd=tmp_path, path=tmp_path)
    assert done.returncode == 3
    assert "tensorrt_llm: not usable here" in done.stdout
    assert run("engines.yaml", cwd=tmp_path, path=tmp_path).returncode == 0


def test_a_broken_spec_in_the_folder_is_left_out_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "trtspec.yaml").write_text("name: [")
    done = run(cwd=tmp_path)
    assert done.returncode == 0
    assert "trtspec.yaml is not used" in done.stderr


def test_a_spec_that_was_named_must_be_there_and_valid(tmp_path: Path) -> None:
    assert run("other.yaml", cwd=tmp_path).returncode == 2
    (tmp_path / "other.yaml").write_text("name: [")
    assert run("other.yaml", cwd=tmp_path).returncode == 2
