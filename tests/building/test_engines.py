"""Building: content-addressed, atomic, shared where it can be, and clear about what is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file

from tests.builders import tiny_checkpoint, toy_spec
from trtspec.building import build_engines, derived_max_seq_len, engine_path
from trtspec.building.engines import planned_steps
from trtspec.errors import ArtefactMissing, BuildError, CheckpointError
from trtspec.files import is_partial
from trtspec.spec import SpecFile, load_spec


def edited(spec_file: SpecFile, **sections: Any) -> SpecFile:
    """The spec with top-level sections replaced."""
    data = {**yaml.safe_load(spec_file.path.read_text()), **sections}
    spec_file.path.write_text(yaml.safe_dump(data))
    return load_spec(spec_file.path)


def config(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return document


def test_three_engines(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    baseline, target, draft = build_engines(spec_file)
    assert [engine.role for engine in (baseline, target, draft)] == ["baseline", "target", "draft"]
    for engine in (baseline, target, draft):
        assert engine.path == tmp_path / "engines" / "toy" / engine.role / engine.key
        assert not engine.cached
        assert engine_path(spec_file, engine.role) == engine.path
    common = {"max_batch_size": 8, "max_beam_width": 1}
    assert config(baseline.path)["build_config"] == {
        **common, "max_seq_len": 512, "max_num_tokens": 2048, "max_draft_len": 0, "speculative_decoding_mode": 0,
    }  # fmt: skip
    assert config(target.path)["build_config"] == {
        **common, "max_seq_len": 520, "max_num_tokens": 2048, "max_draft_len": 8, "speculative_decoding_mode": 2,
    }  # fmt: skip
    assert config(draft.path)["build_config"]["max_draft_len"] == 0
    network = config(target.path)["pretrained_config"]
    assert network["architecture"] == "LlamaForCausalLM"
    assert (network["num_hidden_layers"], network["num_key_value_heads"], network["dtype"]) == (2, 2, "float32")
    assert network["mapping"] == {"world_size": 1, "tp_size": 1, "pp_size": 1}


def test_manifest_names_every_file_with_its_hash(tmp_path: Path) -> None:
    [engine] = build_engines(toy_spec(tmp_path), ["target"])
    manifest = json.loads((engine.path / "manifest.json").read_text())
    found = {
        path.relative_to(engine.path).as_posix(): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in engine.path.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != "manifest.json"
    }
    assert manifest["files"] == found
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"} <= found.keys()
    assert manifest["key"] == engine.key
    assert manifest["provenance"]["packages"]["safetensors"]


def test_baseline_and_target_share_their_weights(tmp_path: Path) -> None:
    baseline, target, draft = (engine.path / "model.safetensors" for engine in build_engines(toy_spec(tmp_path)))
    assert baseline.samefile(target)
    assert not baseline.samefile(draft)
    assert not baseline.samefile(tmp_path / "target" / "model.safetensors")


def test_the_second_run_is_cached_and_quick(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    first = build_engines(spec_file)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    started = time.monotonic()
    second = build_engines(spec_file)
    assert time.monotonic() - started < 1
    assert all(engine.cached for engine in second)
    assert [engine.path for engine in second] == [engine.path for engine in first]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert not any(engine.cached for engine in build_engines(spec_file, force=True))


def test_the_key_follows_content_and_options_and_nothing_else(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    [first] = build_engines(spec_file, ["target"])
    os.utime(tmp_path / "target" / "model.safetensors")
    assert build_engines(edited(spec_file, serving={"http_port": 9999}), ["target"])[0].cached
    longer = edited(spec_file, speculation={"draft_length": 4, "max_draft_length": 6})
    with pytest.raises(ArtefactMissing, match="is not built") as missing:
        engine_path(longer, "target")
    assert missing.value.fix == f"trtspec build {spec_file.path}"
    [second] = build_engines(longer, ["target"])
    assert second.key != first.key
    tiny_checkpoint(tmp_path / "target", hidden=64, layers=2, heads=4, kv_heads=2, seed=2)
    [third] = build_engines(longer, ["target"])
    assert third.key not in {first.key, second.key}


def test_a_damaged_engine_is_built_again(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    [engine] = build_engines(spec_file, ["draft"])
    (engine.path / "tokenizer.json").unlink()
    with pytest.raises(ArtefactMissing):
        engine_path(spec_file, "draft")
    assert not build_engines(spec_file, ["draft"])[0].cached
    assert (engine.path / "tokenizer.json").is_file()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_shards_become_one_file_of_the_asked_type(tmp_path: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import load_file as load_torch

    spec_file = toy_spec(tmp_path)
    shutil.rmtree(tmp_path / "target")
    tiny_checkpoint(tmp_path / "target", shards=3, dtype="float16")
    changed = edited(spec_file, target={"checkpoint": "target", "dtype": dtype})
    [engine] = build_engines(changed, ["target"])
    written = load_torch(engine.path / "model.safetensors")
    kind = getattr(torch, dtype)
    expected: dict[str, torch.Tensor] = {}
    for shard in (tmp_path / "target").glob("model-*.safetensors"):
        expected |= load_torch(shard)
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], value.to(kind)) for name, value in expected.items())
    assert config(engine.path)["pretrained_config"]["dtype"] == dtype


def test_auto_keeps_the_stored_type(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    tiny_checkpoint(tmp_path / "draft", hidden=64, heads=4, kv_heads=2, layers=1, dtype="float16")
    [engine] = build_engines(spec_file, ["draft"])
    assert config(engine.path)["pretrained_config"]["dtype"] == "float16"
    assert all(value.dtype == "float16" for value in load_file(engine.path / "model.safetensors").values())


def test_derived_length(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    assert derived_max_seq_len(spec_file) == 512
    tiny_checkpoint(tmp_path / "draft", max_position_embeddings=128)
    assert derived_max_seq_len(spec_file) == 128
    for role in ("target", "draft"):
        tiny_checkpoint(tmp_path / role, max_position_embeddings=131072)
    assert derived_max_seq_len(spec_file) == 8192
    assert derived_max_seq_len(edited(spec_file, build={"max_seq_len": 100})) == 100


def cut(folder: Path) -> str:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    return "is cut off"


def corrupt(folder: Path) -> str:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:8] + b"!" + path.read_bytes()[9:])
    return "header is not"


def pickled(folder: Path) -> str:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    return "only pickled weights"


def gone(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    return "no weights"


def no_tokenizer(folder: Path) -> str:
    (folder / "tokenizer.json").unlink()
    return "tokenizer"


@pytest.mark.parametrize("damage", [cut, corrupt, pickled, gone, no_tokenizer])
def test_a_broken_checkpoint_is_named_before_anything_is_written(tmp_path: Path, damage: Any) -> None:
    spec_file = toy_spec(tmp_path)
    message = damage(tmp_path / "draft")
    with pytest.raises(CheckpointError, match=message) as caught:
        build_engines(spec_file)
    assert str(tmp_path / "draft") in str(caught.value)
    assert caught.value.fix
    assert not (tmp_path / "engines" / "toy").exists()


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    path = tmp_path / "target" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": {"quant_method": "gptq"}}))
    with pytest.raises(BuildError, match=r"quantized \(gptq\)"):
        build_engines(spec_file)


def test_values_that_float16_cannot_hold(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    spec_file = toy_spec(tmp_path)
    tensors = load_file(tmp_path / "draft" / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"] * 1e6
    save_file(tensors, tmp_path / "draft" / "model.safetensors", metadata={"format": "pt"})
    changed = edited(spec_file, draft={"checkpoint": "draft", "dtype": "float16"})
    with pytest.raises(BuildError, match=r"model.norm.weight has values up to 1e\+06"):
        build_engines(changed, ["draft"])
    assert not [path for path in changed.engines("draft").iterdir() if path.is_dir()]


def test_too_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(BuildError, match=r"needs .* KiB, only 1000 B are free"):
        build_engines(toy_spec(tmp_path), ["draft"])


_BUILD_AND_HANG = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
from trtspec.building import build_engines
from trtspec.spec import load_spec

class Hang:
    def note(self, text): pass
    @contextmanager
    def task(self, label, total=None, unit=""):
        def advance(amount):
            if "weights" in label:
                print("writing", flush=True)
                time.sleep(600)
        yield advance

build_engines(load_spec(Path(sys.argv[1])), ["target"], reporter=Hang())
"""


@contextmanager
def hanging_build(spec_file: SpecFile) -> Iterator[subprocess.Popen[str]]:
    """A build that stands still while it writes the weights."""
    argv = [sys.executable, "-c", _BUILD_AND_HANG, str(spec_file.path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_build_leaves_no_half_engine(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    with hanging_build(spec_file) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    folder = spec_file.engines("target")
    assert [path for path in folder.iterdir() if path.is_dir() and is_partial(path)]
    with pytest.raises(ArtefactMissing):
        engine_path(spec_file, "target")
    [engine] = build_engines(spec_file, ["target"])
    assert [path for path in folder.iterdir() if path.is_dir()] == [engine.path]


def test_a_second_build_waits_for_the_first(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    with hanging_build(spec_file) as process, ThreadPoolExecutor(1) as pool:
        second = pool.submit(build_engines, spec_file, ["target"])
        time.sleep(0.3)
        assert not second.done()
        process.kill()
        [engine] = second.result(timeout=30)
    assert engine_path(spec_file, "target") == engine.path


def test_two_builds_at_once_both_end_whole(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    argv = [sys.executable, "-m", "trtspec", "build", str(spec_file.path), "--output", "json"]
    runs = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [json.loads(run.communicate(timeout=60)[0]) for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert answers[0]["engines"][0]["path"] == answers[1]["engines"][0]["path"]
    assert sum(engine["cached"] for answer in answers for engine in answer["engines"]) == 3
    assert all(engine.cached for engine in build_engines(spec_file))


def test_steps_of_a_dry_run(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    build_engines(spec_file, ["draft"])
    steps = planned_steps(spec_file, ["baseline", "draft"])
    assert [(step["role"], step["stage"], step["cached"]) for step in steps] == [
        ("baseline", "convert", False),
        ("draft", "convert", True),
    ]
    assert str(tmp_path / "target" / "model.safetensors") in steps[0]["inputs"]
    assert steps[0]["argv"] == ["trtspec", "build", str(spec_file.path), "--role", "baseline"]
    assert not spec_file.engines("baseline").exists()
