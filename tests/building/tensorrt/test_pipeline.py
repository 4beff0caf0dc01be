"""A whole build with the stand-in: what is made, what is made again, what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from tests.building.tensorrt.gpu_box import GpuBox, h100, make_gpu_box
from trtspec.building import BuildSettings, build_engines, build_preview, engine_path
from trtspec.building.engines import planned_steps
from trtspec.building.inventory import take_inventory
from trtspec.building.tensorrt.site import _visible
from trtspec.errors import (
    ArtefactMissing,
    BuildError,
    CheckpointError,
    EngineRejected,
    EnvironmentMissing,
    PairError,
    SpecError,
    TrtspecError,
    VersionUnsupported,
)
from trtspec.hardware.catalogue import known_gpu
from trtspec.spec import ROLES

ALL = ["convert", "build baseline", "build target", "convert", "build draft"]


def config(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return document


def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return document


def test_three_engines_and_two_converted_checkpoints(box: GpuBox) -> None:
    baseline, target, draft = build_engines(box.spec_file)
    assert box.programs() == ALL
    for engine in (baseline, target, draft):
        assert engine.path == box.engines / engine.role / engine.key
        assert not engine.cached
        assert engine_path(box.spec_file, engine.role) == engine.path
        names = {path.name for path in engine.path.iterdir()}
        assert {"config.json", "rank0.engine", "manifest.json", "build.log", "tokenizer.json"} <= names
        assert "generation_config.json" in names
        assert "model.cache" not in names
    assert config(target.path)["build_config"]["speculative_decoding_mode"] == 2
    assert config(target.path)["build_config"]["max_seq_len"] == 520
    assert config(baseline.path)["build_config"]["max_draft_len"] == 0
    checkpoints = [path for path in (box.engines / "checkpoints").iterdir() if path.is_dir()]
    assert len(checkpoints) == 2
    assert manifest(baseline.path)["converted"] == manifest(target.path)["converted"]
    assert manifest(draft.path)["converted"] != manifest(target.path)["converted"]
    assert box.leftovers() == []


def test_every_program_has_a_working_directory_of_its_own(box: GpuBox) -> None:
    build_engines(box.spec_file)
    places = [start["cwd"] for start in box.starts()]
    assert len(set(places)) == len(places)
    assert not any(Path(place).exists() for place in places)
    assert not list(box.spec_file.root.rglob("model.cache"))


def test_the_manifest_says_what_made_the_engine(box: GpuBox) -> None:
    [engine] = build_engines(box.spec_file, ["target"])
    found = manifest(engine.path)
    assert (found["role"], found["key"], found["spec"], found["sm"]) == ("target", engine.key, "toy", 90)
    assert found["gpu"] == "NVIDIA H100 80GB HBM3"
    assert found["versions"] == {"tensorrt_llm": "1.2.1", "image": None}
    on_disk = {
        path.relative_to(engine.path).as_posix(): path.stat().st_size
        for path in engine.path.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert {name: entry["size"] for name, entry in found["files"].items()} == on_disk
    assert found["files"]["rank0.engine"]["sha256"] is None
    digest = hashlib.sha256((engine.path / "config.json").read_bytes()).hexdigest()
    assert found["files"]["config.json"]["sha256"] == digest
    [command] = found["commands"]
    assert command["argv"][command["argv"].index("--output_dir") + 1] == str(engine.path)
    assert command["peak_rss_bytes"] > 1 << 20
    assert command["seconds"] > 0
    checkpoint = box.engines / "checkpoints" / found["converted"]
    assert manifest(checkpoint)["roles"] == ["target"]
    assert set(found["checkpoint"]["files"]) >= {"config.json", "model.safetensors", "tokenizer.json"}
    log = (engine.path / "build.log").read_text()
    assert log.startswith("$ ")
    assert "[TensorRT-LLM] TensorRT LLM version: 1.2.1" in log


def test_a_second_build_starts_nothing(box: GpuBox) -> None:
    first = build_engines(box.spec_file)
    before = {path: path.stat().st_mtime_ns for path in box.engines.rglob("*")}
    second = build_engines(box.spec_file)
    assert box.programs() == ALL
    assert all(engine.cached for engine in second)
    assert [engine.path for engine in second] == [engine.path for engine in first]
    assert {path: path.stat().st_mtime_ns for path in box.engines.rglob("*")} == before


def test_a_second_build_takes_less_than_a_second(box: GpuBox) -> None:
    build_engines(box.spec_file)
    started = time.perf_counter()
    build_engines(box.spec_file)
    assert time.perf_counter() - started < 1


def test_force_builds_again_and_reconvert_converts_too(box: GpuBox) -> None:
    build_engines(box.spec_file)
    build_engines(box.spec_file, ["draft"], settings=BuildSettings(force=True))
    assert box.programs()[5:] == ["build draft"]
    again = build_engines(box.spec_file, ["draft"], settings=BuildSettings(reconvert=True))
    assert box.programs()[6:] == ["convert", "build draft"]
    assert not again[0].cached


def test_a_checkpoint_is_not_converted_for_an_engine_that_is_there(box: GpuBox) -> None:
    build_engines(box.spec_file)
    shutil.rmtree(box.engines / "checkpoints")
    assert all(engine.cached for engine in build_engines(box.spec_file))
    assert all(step["cached"] for step in planned_steps(box.spec_file, ROLES))
    [engine] = build_engines(box.edit(build={"max_batch_size": 4}), ["baseline"])
    assert not engine.cached
    assert box.programs()[5:] == ["convert", "build baseline"]


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"serving": {"http_port": 9000}}, []),
        ({"speculation": {"draft_length": 5}}, []),
        ({"speculation": {"draft_length": 4, "max_draft_length": 6}}, ["build target"]),
        ({"build": {"max_batch_size": 4}}, ["build baseline", "build target", "build draft"]),
        ({"draft": {"checkpoint": "draft", "dtype": "bfloat16"}}, ["convert", "build draft"]),
        (
            {"build": {"extra_flags": {"profiling_verbosity": "none"}}},
            ["build baseline", "build target", "build draft"],
        ),
    ],
    ids=["port", "draft length", "limit", "batch", "dtype", "extra flag"],
)
def test_what_a_change_of_the_spec_builds_again(box: GpuBox, sections: dict[str, Any], expected: list[str]) -> None:
    build_engines(box.spec_file)
    build_engines(box.edit(**sections))
    assert box.programs()[5:] == expected


def test_other_weights_of_the_same_size_are_noticed(box: GpuBox) -> None:
    build_engines(box.spec_file, ["draft"])
    before = (box.spec_file.root / "draft" / "model.safetensors").stat().st_size
    tiny_checkpoint(box.spec_file.root / "draft", hidden=64, layers=1, heads=4, kv_heads=2, seed=9)
    assert (box.spec_file.root / "draft" / "model.safetensors").stat().st_size == before
    with pytest.raises(ArtefactMissing, match="is not built"):
        engine_path(box.spec_file, "draft")
    assert not build_engines(box.spec_file, ["draft"])[0].cached


def test_a_damaged_engine_and_a_damaged_checkpoint_are_made_again(box: GpuBox) -> None:
    [engine] = build_engines(box.spec_file, ["draft"])
    (engine.path / "rank0.engine").write_bytes(b"short")
    build_engines(box.spec_file, ["draft"])
    assert box.programs() == ["convert", "build draft", "build draft"]
    checkpoint = box.engines / "checkpoints" / manifest(engine.path)["converted"]
    (checkpoint / "rank0.safetensors").unlink()
    build_engines(box.spec_file, ["draft"], force=True)
    assert box.programs()[3:] == ["convert", "build draft"]


def test_engines_are_found_where_gpu_version_and_weights_are_not(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    [engine] = build_engines(box.spec_file, ["draft"])
    (box.spec_file.root / "draft" / "model.safetensors").unlink()
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((), "no driver"))
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    spec_file = box.edit(tensorrt_llm=None)
    assert engine_path(spec_file, "draft") == engine.path
    with pytest.raises(ArtefactMissing):
        engine_path(box.edit(hardware={"gpu": "L40S"}), "draft")  # another architecture than it was built on
    with pytest.raises(ArtefactMissing):
        engine_path(box.edit(hardware=None, tensorrt_llm={"version": "1.1.0"}), "draft")


def test_a_full_hash_is_answered_with_one(box: GpuBox) -> None:
    settings = BuildSettings(full_hash=True)
    [engine] = build_engines(box.spec_file, ["draft"], settings=settings)
    assert manifest(engine.path)["checkpoint"]["files"]["model.safetensors"].startswith("sha256:")
    assert build_engines(box.spec_file, ["draft"], settings=settings)[0].cached
    assert engine_path(box.spec_file, "draft") == engine.path
    path = box.spec_file.root / "draft" / "model.safetensors"
    data = bytearray(path.read_bytes())
    place = len(data) // 4
    data[place] ^= 1  # neither in the middle nor at the end
    path.write_bytes(bytes(data))
    with pytest.raises(ArtefactMissing):
        engine_path(box.spec_file, "draft")


def test_quantization_goes_through_the_quantizer_once_for_both_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": "fp8", "kv_cache_dtype": "fp8", "tp": 2}
    box = make_gpu_box(tmp_path, monkeypatch, gpus=2, target=target)
    _, engine, _ = build_engines(box.spec_file, settings=BuildSettings(jobs=1))
    assert box.programs() == ["quantize", "build baseline", "build target", "convert", "build draft"]
    assert config(engine.path)["pretrained_config"]["quantization"]["quant_algo"] == "FP8"
    assert {"rank0.engine", "rank1.engine"} <= {path.name for path in engine.path.iterdir()}


def test_a_contradicting_engine_is_refused_and_not_kept(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    off = {"build_config": {"max_draft_len": 0, "plugin_config": {"use_paged_context_fmha": False}}}
    monkeypatch.setenv("STAND_IN_CONFIG", json.dumps(off))
    with pytest.raises(EngineRejected, match="not what was asked for") as caught:
        build_engines(box.spec_file, ["target"])
    assert len(caught.value.findings) >= 2
    assert not [path for path in box.spec_file.engines("target").iterdir() if path.is_dir()]
    assert list(box.spec_file.engines("target").glob("*.failed.log"))
    monkeypatch.delenv("STAND_IN_CONFIG")
    build_engines(box.spec_file, ["target"])
    assert box.programs() == ["convert", "build target", "build target"]
    assert not list(box.spec_file.engines("target").glob("*.failed.log"))


def test_engines_built_elsewhere_are_inspected_and_used_as_they_are(box: GpuBox) -> None:
    _, target, draft = build_engines(box.spec_file)
    given = {"checkpoint": "target", "engine": str(target.path)}
    spec_file = box.edit(name="other", target=given, draft={"checkpoint": "draft", "engine": str(draft.path)})
    found = build_engines(spec_file, ["target", "draft"])
    assert [engine.path for engine in found] == [target.path, draft.path]
    assert engine_path(spec_file, "target") == target.path
    assert box.programs() == ALL
    assert not (spec_file.root / "engines" / "other").exists()
    steps = planned_steps(spec_file, ["target", "draft"])
    assert [(step["role"], step["stage"]) for step in steps] == [("target", "inspect"), ("draft", "inspect")]


def test_a_given_engine_that_does_not_fit_stops_everything_beforehand(box: GpuBox) -> None:
    baseline, *_ = build_engines(box.spec_file, ["baseline"])
    count = len(box.starts())
    spec_file = box.edit(name="other", target={"checkpoint": "target", "engine": str(baseline.path)})
    with pytest.raises(EngineRejected):
        build_engines(spec_file)
    with pytest.raises(EngineRejected):  # a dry run says the same
        build_preview(spec_file, ROLES, BuildSettings())
    spec_file = box.edit(target={"checkpoint": "target", "engine": "nowhere"})
    with pytest.raises(ArtefactMissing, match="no such engine folder"):
        build_engines(spec_file)
    with pytest.raises(ArtefactMissing, match="no such engine folder"):
        build_preview(spec_file, ROLES, BuildSettings())
    assert len(box.starts()) == count


def other_class(box: GpuBox) -> None:
    path = box.spec_file.root / "target" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["DeepseekV3ForCausalLM"]}))


def indivisible(box: GpuBox) -> None:
    box.edit(target={"checkpoint": "target", "dtype": "float16", "tp": 3})


def too_new(box: GpuBox) -> None:
    box.edit(tensorrt_llm={"version": "1.3.0"})


def another_version(box: GpuBox) -> None:
    box.edit(tensorrt_llm={"version": "1.1.0"})


def wrong_gpu(box: GpuBox) -> None:
    box.edit(hardware={"gpu": "A100-80GB-SXM"})


def no_weights(box: GpuBox) -> None:
    (box.spec_file.root / "draft" / "model.safetensors").unlink()


def no_converter(box: GpuBox) -> None:
    shutil.rmtree(box.stand_in.examples / "models" / "core" / "llama")


@pytest.mark.parametrize(
    ("spoil", "errors", "match"),
    [
        (other_class, (SpecError, PairError), "DeepseekV3"),
        (indivisible, (SpecError, PairError), "tp|3"),
        (too_new, (VersionUnsupported,), r"1\.3\.0"),
        (another_version, (BuildError,), r"1\.2\.1 is installed here"),
        (wrong_gpu, (BuildError,), "SM 90.*SM 80"),
        (no_weights, (CheckpointError, PairError), "weights|not here"),
        (no_converter, (EnvironmentMissing,), "convert_checkpoint.py is nowhere"),
    ],
)
def test_what_cannot_work_is_refused_before_a_program_starts(
    box: GpuBox, spoil: Any, errors: tuple[type[TrtspecError], ...], match: str
) -> None:
    spoil(box)
    with pytest.raises(errors, match=match):
        build_engines(box.spec_file)
    assert box.starts() == []
    assert not box.engines.exists()


def test_quantization_that_the_gpu_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": "fp8"}
    box = make_gpu_box(tmp_path, monkeypatch, target=target, hardware={"gpu": "A100-80GB-SXM"})
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((), "no driver"))
    with pytest.raises(PairError, match=r"(?i)fp8"):
        build_engines(box.spec_file)
    with pytest.raises(PairError, match=r"(?i)fp8"):
        build_preview(box.spec_file, ROLES, BuildSettings())


@pytest.mark.parametrize(
    ("name", "sm", "quantization", "words"),
    [
        ("NVIDIA A100-SXM4-80GB", 80, "fp8", "fp8 needs SM 89 or newer, A100-80GB-SXM is SM 80"),
        ("NVIDIA Someday 80", 80, "fp8", "fp8 needs SM 89 or newer, NVIDIA Someday 80 is SM 80"),
        ("NVIDIA B200", 100, "int8_wo", "is refused on SM 100 to 119"),
        ("NVIDIA H100 80GB HBM3", 90, "nvfp4", "nvfp4 needs SM 100 or newer"),
    ],
)
def test_the_gpu_that_is_here_counts_where_the_spec_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sm: int, quantization: str, words: str
) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": quantization}
    box = make_gpu_box(tmp_path, monkeypatch, target=target)
    found = replace(h100(), name=name, sm=sm, known=known_gpu(name))
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((found,), None))
    for refused in (
        lambda: build_engines(box.spec_file),
        lambda: build_preview(box.spec_file, ROLES, BuildSettings()),
    ):
        with pytest.raises(PairError) as caught:
            refused()
        assert words in caught.value.message
    assert box.starts() == []


def test_a_short_version_means_the_release_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_gpu_box(tmp_path, monkeypatch)
    examples = str(box.stand_in.examples)
    [engine] = build_engines(box.edit(tensorrt_llm={"version": "1.2", "examples": examples}), ["draft"])
    assert manifest(engine.path)["versions"]["tensorrt_llm"] == "1.2.1"
    assert engine_path(box.edit(tensorrt_llm={"version": "1.2.1", "examples": examples}), "draft") == engine.path
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: "1.2.0")
    with pytest.raises(ArtefactMissing):  # it does not load in the release that is here now
        engine_path(box.edit(tensorrt_llm={"version": "1.2"}), "draft")
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: None)
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((), "no driver"))
    assert engine_path(box.edit(tensorrt_llm={"version": "1.2"}), "draft") == engine.path


@pytest.mark.parametrize("name", ["fast_build", "--fast_build"])
def test_a_fast_build_keeps_its_weights_beside_the_engine(box: GpuBox, name: str) -> None:
    box.edit(build={"extra_flags": {name: True}})
    [engine] = build_engines(box.spec_file, ["draft"])
    assert (engine.path / "rank0_managed_weights.safetensors").is_file()


def test_texts_to_calibrate_with_count_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"checkpoint": "target", "dtype": "float16", "quantization": "fp8"}
    box = make_gpu_box(tmp_path, monkeypatch, target=target, calibration={"dataset": "texts"})
    (box.spec_file.root / "texts" / "data").mkdir(parents=True)
    (box.spec_file.root / "texts" / "data" / "train.jsonl").write_text('{"text": "one"}')

    def keys() -> list[str]:
        return [step["key"] for step in planned_steps(box.spec_file, ["target"])]

    before = keys()
    (box.spec_file.root / "texts").rename(box.spec_file.root / "elsewhere")
    box.edit(calibration={"dataset": "elsewhere"})
    assert keys() == before
    (box.spec_file.root / "elsewhere" / "data" / "train.jsonl").write_text('{"text": "two"}')
    assert not set(keys()) & set(before)


@pytest.mark.parametrize(
    ("given", "visible"),
    [
        (None, ["0", "1"]),
        ("1", ["1"]),
        ("1,0", ["1", "0"]),
        ("0,9,1", ["0"]),
        ("-1", []),
        ("", []),
        ("GPU-7f", ["GPU-7f"]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(
    monkeypatch: pytest.MonkeyPatch, given: str | None, visible: list[str]
) -> None:
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert [name for name, _ in _visible((h100(0), h100(1)))] == visible


def test_without_tensorrt_llm_or_gpu_the_ways_out_are_named(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((), "the driver is not loaded"))
    monkeypatch.setattr("trtspec.building.tensorrt.site._devices_exist", lambda: False)
    with pytest.raises(EnvironmentMissing, match="none is seen here: the driver is not loaded"):
        build_engines(box.spec_file)
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(EnvironmentMissing, match="trtllm-build") as caught:
        build_engines(box.spec_file)
    assert caught.value.fix is not None
    assert all(word in caught.value.fix for word in ("--in-docker nvcr.io", "--dry-run", "trtspec[tensorrt-llm]"))
    assert box.starts() == []


def test_gpus_of_two_architectures(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    found = (h100(0), replace(h100(1), name="NVIDIA L40S", sm=89))
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: (found, None))
    with pytest.raises(BuildError, match="different architectures"):
        build_engines(box.spec_file)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    [engine] = build_engines(box.spec_file, ["draft"])
    assert manifest(engine.path)["sm"] == 89


def test_a_dry_run_works_without_weights_tools_and_gpu(box: GpuBox, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("target", "draft"):
        (box.spec_file.root / role / "model.safetensors").unlink()
    monkeypatch.setattr("trtspec.building.tensorrt.site.detect_gpus", lambda: ((), "no driver"))
    monkeypatch.setattr("trtspec.toolchain.detect.installed_version", lambda: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    spec_file = box.edit(tensorrt_llm={"version": "1.1.0"})
    steps = build_preview(spec_file, ROLES, BuildSettings())["steps"]
    assert [(step["role"], step["stage"]) for step in steps] == [
        ("baseline", "convert"), ("baseline", "build"), ("baseline", "inspect"), ("target", "build"),
        ("target", "inspect"), ("draft", "convert"), ("draft", "build"), ("draft", "inspect"),
    ]  # fmt: skip
    assert steps[0]["roles"] == ["baseline", "target"]
    assert steps[0]["argv"][1].startswith("/app/")
    assert steps[0]["outputs"][0] == f"{steps[1]['inputs'][0]}/config.json"
    assert not (spec_file.root / "engines").exists()
    assert box.starts() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": "x"},
        {"checkpoint": [1]},
        {"checkpoint": {"files": [1]}},
        {"checkpoint": {"files": {"model.safetensors": 5, "config.json": None, "tokenizer.json": {}}}},
        {"versions": "x"},
        {"versions": {"tensorrt_llm": "garbage"}},
        {"versions": {"tensorrt_llm": "1.3.0"}},
        {"sm": "x"},
        {"sm": [90]},
        {"sm": 10**400},
        {"files": {}},
        None,
    ],
)
def test_a_damaged_manifest_of_another_engine_disturbs_nothing(box: GpuBox, changes: dict[str, Any] | None) -> None:
    """A build looks at every finished engine of the role to find one that fits."""
    [engine] = build_engines(box.spec_file, ["target"])
    other = engine.path.with_name("0" * 16)
    engine.path.rename(other)
    text = "[" * 100_000 if changes is None else json.dumps({**manifest(other), **changes})
    (other / "manifest.json").write_text(text)
    assert planned_steps(box.spec_file, ["target"])[-1]["cached"] is False
    assert not build_engines(box.spec_file, ["target"])[0].cached
    assert {entry.key for entry in take_inventory(box.spec_file.root)} >= {other.name, engine.key}
