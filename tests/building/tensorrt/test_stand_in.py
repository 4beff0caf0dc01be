"""The stand-in itself: it refuses what the real programs refuse, and writes what they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from tests.building.tensorrt.pairs import PAIRS, VERSIONS, requests_of
from tests.building.tensorrt.stand_in import StandIn, install_stand_in
from trtspec.building.tensorrt.commands import build_commands, checkpoint_commands
from trtspec.building.tensorrt.tools import Tools

FAILURES = (
    "out_of_memory", "unsupported_architecture", "missing_tensor", "wrong_sm", "quantization_mismatch", "no_gpu",
    "disk_full",
)  # fmt: skip


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return install_stand_in(tmp_path / "tools")


def run(
    stand_in: StandIn, cwd: Path, argv: list[str] | tuple[str, ...], **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={**os.environ, **stand_in.env, **env}, capture_output=True, text=True, check=False
    )


def converted(stand_in: StandIn, folder: Path, **changes: Any) -> Path:
    """A TensorRT-LLM checkpoint of a tiny Llama, its config.json changed."""
    tiny_checkpoint(folder / "model", dtype="float16")
    script = stand_in.examples / "models/core/llama/convert_checkpoint.py"
    argv = [sys.executable, str(script), "--model_dir", "model", "--output_dir", "checkpoint"]
    assert run(stand_in, folder, argv).returncode == 0
    path = folder / "checkpoint" / "config.json"
    document = json.loads(path.read_text())
    document["quantization"].update(changes)
    path.write_text(json.dumps(document))
    return path.parent


def build(stand_in: StandIn, folder: Path, *flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = ["trtllm-build", "--checkpoint_dir", "checkpoint", "--output_dir", "engine", *flags]
    return run(stand_in, folder, argv, **env)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--no_such_flag"], 2, "unrecognized arguments: --no_such_flag"),
        (["--logits_dtype", "bfloat16"], 2, "invalid choice: 'bfloat16'"),
        (["--max_batch_size", "many"], 2, "invalid int value: 'many'"),
        (["--multiple_profiles", "enable", "--opt_num_tokens", "8"], 1, "opt_num_tokens is set"),
        (["--gather_context_logits", "--max_draft_len", "4"], 1, "not support with draft len > 0"),
        (["--gather_all_token_logits", "--max_draft_len", "4"], 1, "not support with draft len > 0"),
        (["--streamingllm", "enable"], 1, "no longer supported"),
        (["--pp_reduce_scatter", "enable"], 1, "only supported in the mixtral model"),
    ],
)
def test_arguments_fail_as_they_do_there(
    stand_in: StandIn, tmp_path: Path, flags: list[str], code: int, words: str
) -> None:
    converted(stand_in, tmp_path)
    result = build(stand_in, tmp_path, *flags)
    assert (result.returncode, words in result.stderr) == (code, True)


def test_no_gpu_no_build(stand_in: StandIn, tmp_path: Path) -> None:
    converted(stand_in, tmp_path)
    result = build(stand_in, tmp_path, STAND_IN_GPUS="0")
    assert (result.returncode, "max_workers" in result.stderr) == (1, True)


@pytest.mark.parametrize("kind", FAILURES)
def test_known_failures_end_with_one_and_words(stand_in: StandIn, tmp_path: Path, kind: str) -> None:
    converted(stand_in, tmp_path)
    result = build(stand_in, tmp_path, STAND_IN_FAIL=kind)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert not (tmp_path / "engine" / "config.json").exists()  # half an engine is left, as a real failure leaves it
    assert build(stand_in, tmp_path, STAND_IN_FAIL=kind, STAND_IN_STAGE="convert").returncode == 0


def test_a_crash_is_a_signal(stand_in: StandIn, tmp_path: Path) -> None:
    converted(stand_in, tmp_path)
    assert build(stand_in, tmp_path, STAND_IN_FAIL="crash").returncode == -11


@pytest.mark.parametrize(
    ("quantization", "sm", "paged", "fp8"),
    [
        ({}, 90, True, False),
        ({"kv_cache_quant_algo": "FP8"}, 90, False, False),
        ({"kv_cache_quant_algo": "INT8"}, 90, False, False),
        ({"quant_algo": "FP8"}, 90, True, False),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, 90, True, True),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, 86, False, False),
        ({"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, 100, True, True),
        ({"quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": "FP8"}, 90, False, False),
    ],
)
def test_what_silently_turns_paged_context_fmha_off(
    stand_in: StandIn, tmp_path: Path, quantization: dict[str, str], sm: int, *, paged: bool, fp8: bool
) -> None:
    converted(stand_in, tmp_path, **quantization)
    assert build(stand_in, tmp_path, STAND_IN_SM=str(sm)).returncode == 0
    plugins = json.loads((tmp_path / "engine" / "config.json").read_text())["build_config"]["plugin_config"]
    assert (plugins["use_paged_context_fmha"], plugins["use_fp8_context_fmha"]) == (paged, fp8)


@pytest.mark.parametrize("algo", ["W8A16", "W4A16", "W8A8_SQ_PER_CHANNEL", "FP8_PER_CHANNEL_PER_TOKEN"])
def test_blackwell_refuses_older_quantization(stand_in: StandIn, tmp_path: Path, algo: str) -> None:
    converted(stand_in, tmp_path, quant_algo=algo)
    assert "not supported on SM>=100" in build(stand_in, tmp_path, STAND_IN_SM="100").stderr


def test_contradictions_can_be_made(stand_in: StandIn, tmp_path: Path) -> None:
    converted(stand_in, tmp_path)
    over = json.dumps({"build_config": {"max_draft_len": 3}, "version": "9.9"})
    assert build(stand_in, tmp_path, STAND_IN_CONFIG=over).returncode == 0
    document = json.loads((tmp_path / "engine" / "config.json").read_text())
    assert (document["version"], document["build_config"]["max_draft_len"]) == ("9.9", 3)
    assert document["build_config"]["max_batch_size"] == 2048


@pytest.mark.parametrize(("version", "written", "logits"), [("1.0.0", "PAGED", 0), ("1.2.1", "paged", False)])
def test_each_release_spells_in_its_own_way(tmp_path: Path, version: str, written: str, logits: Any) -> None:
    stand_in = install_stand_in(tmp_path / "tools", version)
    converted(stand_in, tmp_path)
    assert build(stand_in, tmp_path).returncode == 0
    document = json.loads((tmp_path / "engine" / "config.json").read_text())
    config = document["build_config"]
    assert (document["version"], config["kv_cache_type"]) == (version, written)
    assert repr(config["gather_context_logits"]) == repr(logits)
    assert (tmp_path / "model.cache").is_file()  # in the working directory, as two builds in one find out


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("minor", VERSIONS)
def test_the_commands_of_a_real_pair_run(tmp_path: Path, pair: str, minor: str) -> None:
    """Every command as the product makes it, run; what comes out has the sizes that were computed beforehand."""
    stand_in = install_stand_in(tmp_path / "tools", VERSIONS[minor])
    places = {
        name: stand_in.examples / f"models/core/{name}/convert_checkpoint.py" for name in ("llama", "qwen", "gemma")
    }
    quantize = str(stand_in.examples / "quantization/quantize.py")
    converters = {name: str(path) for name, path in places.items()}
    tools = Tools(sys.executable, str(stand_in.trtllm_build), converters, quantize, VERSIONS[minor])
    for role, request in requests_of(PAIRS[pair].spec(tmp_path / "pair", VERSIONS[minor]), minor).items():
        checkpoint, engine = tmp_path / role / "checkpoint", tmp_path / role / "engine"
        commands = [
            *checkpoint_commands(request, str(request.folder), str(checkpoint), tools),
            *build_commands(request, str(checkpoint), str(engine), tools),
        ]
        for command, folder in zip(commands, (checkpoint, engine), strict=True):
            result = run(stand_in, tmp_path / "pair", command.argv)
            assert result.returncode == 0, result.stderr
            assert set(command.outputs) <= {path.name for path in folder.iterdir()}
        document = json.loads((engine / "config.json").read_text())
        for name, value in vars(request.sizes.written).items():
            assert document["build_config"][name] == value, (role, name)
        assert document["build_config"]["plugin_config"]["use_paged_context_fmha"] is True
        pretrained = document["pretrained_config"]
        assert (pretrained["dtype"], pretrained["architecture"]) == (request.dtype, request.architecture)
        assert pretrained["quantization"]["quant_algo"] == request.quant_algo
        assert pretrained["quantization"]["kv_cache_quant_algo"] == request.kv_cache_dtype
        assert (pretrained["mapping"]["tp_size"], pretrained["mapping"]["pp_size"]) == (request.tp, request.pp)
