"""`trtspec check` as a user runs it: a process, its exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.builders import tiny_checkpoint, toy_spec
from tests.building.tensorrt.metadata import metadata_folder, real_config

FINDING = {
    "type": "object",
    "required": ["id", "level", "severity", "role", "message", "fix", "data"],
    "properties": {
        "id": {"type": "string"},
        "level": {"enum": ["error", "warning", "note"]},
        "severity": {"enum": ["CRASH", "OOM", "SILENT", "PERF", "INFO"]},
        "role": {"enum": ["target", "draft", "pair", "spec"]},
        "message": {"type": "string", "minLength": 1},
        "fix": {"type": ["string", "null"]},
        "data": {"type": "object"},
    },
}
RESULT = {
    "type": "object",
    "required": ["schema", "ok", "findings", "pair"],
    "properties": {
        "schema": {"const": 1},
        "ok": {"type": "boolean"},
        "findings": {"type": "array", "items": FINDING},
        "pair": {
            "type": "object",
            "required": ["same_tokenizer", "token_overlap", "first_differing_ids", "vocab_size", "usable_length"],
            "properties": {
                "same_tokenizer": {"type": ["boolean", "null"]},
                "token_overlap": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
                "first_differing_ids": {"type": "array", "items": {"type": "integer"}},
                "vocab_size": {"type": "object", "required": ["target", "draft"]},
                "usable_length": {"type": ["integer", "null"]},
            },
        },
    },
}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trtspec", "check", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, RESULT)
    return data


def test_a_pair_that_fits(tmp_path: Path) -> None:
    spec = toy_spec(tmp_path)
    done = run(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for expected in ("LlamaForCausalLM", "same tokenizer", "usable length 512", "the pair fits"):
        assert expected in done.stdout
    assert done.stderr == ""
    data = result_of(run(str(spec.path), "--output", "json", cwd=tmp_path))
    assert data["ok"] is True
    assert data["pair"]["same_tokenizer"] is True
    assert data["pair"]["usable_length"] == 512
    assert data["checkpoints"]["target"]["layers"] == 2
    assert run("--output", "quiet", cwd=tmp_path).stdout.startswith("the pair fits")


def test_errors_are_printed_as_a_result_and_exit_with_3(tmp_path: Path) -> None:
    toy_spec(tmp_path)
    weights = tmp_path / "draft" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    done = run(cwd=tmp_path)
    assert done.returncode == 3
    assert "1 error" in done.stdout
    assert "is cut off: 8 bytes" in done.stdout
    assert str(weights) in done.stdout
    assert "fix:" in done.stdout
    assert "the pair cannot be served" in done.stdout
    json_done = run("--output", "json", cwd=tmp_path)
    assert json_done.returncode == 3
    assert result_of(json_done)["ok"] is False


def test_a_tokenizer_mismatch_is_one_clear_message(tmp_path: Path) -> None:
    toy_spec(tmp_path)
    path = tmp_path / "draft" / "tokenizer.json"
    data = json.loads(path.read_text())
    data["added_tokens"][2]["content"] = "<|other_end|>"
    path.write_text(json.dumps(data))
    done = run("--output", "json", cwd=tmp_path)
    assert done.returncode == 3
    data = result_of(done)
    assert [finding["id"] for finding in data["findings"] if finding["level"] == "error"] == ["tokenizer-differs"]
    assert data["pair"]["first_differing_ids"] == [2]
    assert data["pair"]["same_tokenizer"] is False


def test_a_missing_folder_is_a_finding_not_a_crash(tmp_path: Path) -> None:
    toy_spec(tmp_path, draft={"checkpoint": "gone"})
    done = run("--output", "json", cwd=tmp_path)
    assert done.returncode == 3
    errors = [finding for finding in result_of(done)["findings"] if finding["level"] == "error"]
    assert len(errors) == 1
    assert str(tmp_path / "gone") in errors[0]["message"]


def test_what_differs_is_a_figure_with_the_first_ids(tmp_path: Path) -> None:
    toy_spec(tmp_path)
    path = tmp_path / "draft" / "tokenizer.json"
    data = json.loads(path.read_text())
    data["added_tokens"][2]["content"] = "<|other_end|>"
    path.write_text(json.dumps(data))
    done = run(cwd=tmp_path)
    assert "different tokenizers (319 of 320 ids agree, 99.7%; first differing ids: 2)" in done.stdout


def test_engines_name_their_release_and_gpu(tmp_path: Path) -> None:
    toy_spec(tmp_path, runtime="tensorrt_llm", hardware={"gpu": "h100", "count": 4}, tensorrt_llm={"image": "26.04"})
    done = run(cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    image = "nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3"
    assert f"engines: TensorRT-LLM 1.2.1 (the image's) in {image}" in done.stdout
    assert "4 × H100-80GB-SXM (SM 90, 79.6 GiB)" in done.stdout
    data = result_of(run("--output", "json", cwd=tmp_path))
    assert data["toolchain"]["version"] == "1.2.1"
    assert data["gpu"]["sm"] == 90


def test_findings_lead_to_their_explanation(tmp_path: Path) -> None:
    toy_spec(tmp_path, loadtest={"prompts": "random"})
    done = run(cwd=tmp_path)
    assert "loadtest-synthetic" in done.stdout
    assert "trtspec check --explain ID" in done.stdout
    explained = run("--explain", "loadtest-synthetic", cwd=tmp_path / "target")
    assert explained.returncode == 0, explained.stderr
    assert "Random prompts say nothing about acceptance" in explained.stdout


def test_two_folders_without_a_spec(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "a", layers=3)
    tiny_checkpoint(tmp_path / "b", layers=1)
    done = run("--target", "a", "--draft", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the pair fits" in done.stdout


def test_one_folder_without_a_spec_is_a_usage_error(tmp_path: Path) -> None:
    done = run("--target", "a", cwd=tmp_path)
    assert done.returncode == 2
    assert "--draft is needed as well" in done.stderr


def test_an_option_stands_before_the_spec(tmp_path: Path) -> None:
    toy_spec(tmp_path)
    done = run("--draft", "target", "--output", "json", cwd=tmp_path)
    assert done.returncode == 0
    assert result_of(done)["checkpoints"]["draft"]["layers"] == 2


@pytest.mark.parametrize("content", [None, "name: [", "name: x\n"])
def test_a_bad_spec_is_a_usage_error(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "trtspec.yaml").write_text(content)
    done = run(cwd=tmp_path)
    assert done.returncode == 2
    assert "trtspec.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pair_without_its_weights_is_told_apart_from_one_that_does_not_fit(tmp_path: Path) -> None:
    metadata_folder(tmp_path / "target", real_config("Llama-3.1-70B-Instruct"))
    metadata_folder(tmp_path / "draft", real_config("Llama-3.2-1B-Instruct"))
    folders = ("--target", str(tmp_path / "target"), "--draft", str(tmp_path / "draft"))
    done = run(*folders, cwd=tmp_path)
    assert done.returncode == 3
    assert "the pair would fit, but weights are missing" in done.stdout
    assert "not here (131 GiB)" in done.stdout
    assert "next: trtspec plan" not in done.stdout


def test_what_to_type_next(tmp_path: Path) -> None:
    spec = toy_spec(tmp_path)
    assert run(cwd=tmp_path).stdout.endswith("next: trtspec plan\n")
    named = spec.path.rename(tmp_path / "my pair.yaml")
    assert run(str(named.name), cwd=tmp_path).stdout.endswith("next: trtspec plan 'my pair.yaml'\n")


def test_folders_whose_names_are_no_utf8(tmp_path: Path) -> None:
    """Linux allows them; without a spec nothing has to write them down."""
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    command = ["check", str(tmp_path / "none.yaml"), "--target", str(folder), "--draft", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "trtspec", *command, "--output", "json"], capture_output=True, check=False
    )
    assert done.returncode == 3
    assert json.loads(done.stdout)["checkpoints"]["target"]["folder"] == str(folder)
