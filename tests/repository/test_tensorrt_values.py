"""Repositories for TensorRT engines: where files lie, what limits are, what is refused and what is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.repository.tensorrt import LAYOUTS, model_configs, parameters, tensorrt_spec
from trtspec.cli.repo import command
from trtspec.errors import ArtefactMissing, EngineRejected, PairError, VersionUnsupported
from trtspec.repository import GeneratedRepository, generate, preview
from trtspec.spec import SpecFile

TARGET, DRAFT, FRONTEND = "speculative/tensorrt_llm", "speculative/tensorrt_llm_draft", "speculative/tensorrt_llm_bls"


def values(spec_file: SpecFile) -> dict[str, dict[str, str]]:
    return {name: parameters(config) for name, config in model_configs(spec_file)}


def made_values(spec_file: SpecFile) -> dict[str, dict[str, str]]:
    generate(spec_file)
    return values(spec_file)


def snapshot(made: GeneratedRepository) -> dict[str, tuple[int, int]]:
    files = [path for folder in made.arms.values() for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_lists_and_urls_arrive_as_they_are(tmp_path: Path) -> None:
    """Nothing is a template: commas and colons need no escaping."""
    spec_file = tensorrt_spec(
        tmp_path,
        target={"tp": 3, "gpus": [1, 2, 3]},
        serving={"engines": "link", "repository_root": "s3://bucket/e"},
    )
    found = made_values(spec_file)
    assert found[TARGET]["gpu_device_ids"] == "1,2,3"
    assert found[TARGET]["gpt_model_path"] == "s3://bucket/e/tensorrt_llm/1"
    assert found[FRONTEND]["tokenizer_dir"] == "s3://bucket/e/tensorrt_llm_bls/1/tokenizer"


def test_references_are_paths_of_this_machine(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"repository_root": "/models"})
    made = generate(spec_file)
    assert values(spec_file)[TARGET]["gpt_model_path"] == str(tmp_path / "built" / "target")
    assert any("serving.engines: copy" in note for note in made.notes)
    # the version folder is there although no engine is in it
    assert [path.name for path in (made.arms["speculative"] / "tensorrt_llm" / "1").iterdir()] == ["engine.txt"]


@pytest.mark.parametrize("how", ["link", "copy"])
def test_engines_inside_the_repository(tmp_path: Path, how: str) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": how, "repository_root": "/models/"})
    made = generate(spec_file)
    folder = made.arms["speculative"]
    engine = folder / "tensorrt_llm" / "1" / "rank0.engine"
    source = tmp_path / "built" / "target" / "rank0.engine"
    assert engine.read_bytes() == source.read_bytes()
    assert engine.samefile(source) == (how == "link")
    found = values(spec_file)
    assert found[TARGET]["gpt_model_path"] == "/models/tensorrt_llm/1"
    assert found[DRAFT]["gpt_model_path"] == "/models/tensorrt_llm_draft/1"
    assert found[FRONTEND]["tokenizer_dir"] == "/models/tensorrt_llm_bls/1/tokenizer"
    assert (folder / "tensorrt_llm_bls" / "1" / "tokenizer" / "tokenizer.json").is_file()
    assert not list(folder.rglob("*.log"))


def test_a_copied_repository_can_be_moved(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    spec_file = tensorrt_spec(home, serving={"engines": "copy", "repository_root": str(elsewhere)})
    folder = generate(spec_file).arms["speculative"]
    folder.rename(elsewhere)
    shutil.rmtree(home)
    files = [path for path in elsewhere.rglob("*") if path.is_file()]
    assert not [path for path in elsewhere.rglob("*") if path.is_symlink()]
    assert [path for path in files if str(home).encode() in path.read_bytes()] == []
    for name in ("tensorrt_llm", "tensorrt_llm_draft"):
        config = (elsewhere / name / "config.pbtxt").read_text()
        assert f'"{elsewhere}/{name}/1"' in config
        assert (elsewhere / name / "1" / "config.json").is_file()


@pytest.mark.parametrize("how", ["reference", "link", "copy"])
def test_a_second_run_touches_nothing(tmp_path: Path, how: str) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": how})
    first = generate(spec_file)
    before = snapshot(first)
    second = generate(spec_file)
    assert (second.changed, second.removed, second.unchanged) == ([], [], len(first.changed))
    assert snapshot(second) == before
    assert preview(spec_file).diff == ""


def test_a_changed_engine_is_taken_over(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": "copy"})
    generate(spec_file)
    (tmp_path / "built" / "target" / "rank0.engine").write_bytes(b"another plan")
    shown = preview(spec_file)
    assert shown.changed == ["speculative/tensorrt_llm/1/rank0.engine"]
    assert "copied from" in shown.diff
    generate(spec_file)
    assert (spec_file.repository("speculative") / "tensorrt_llm/1/rank0.engine").read_bytes() == b"another plan"


def test_from_copies_back_to_references(tmp_path: Path) -> None:
    generate(tensorrt_spec(tmp_path, serving={"engines": "copy"}))
    shutil.rmtree(tmp_path / "built")
    made = generate(tensorrt_spec(tmp_path))
    assert "speculative/tensorrt_llm/1/rank0.engine" in made.removed
    assert not list(made.arms["speculative"].rglob("*.engine"))


def test_sizes_come_from_the_engines(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(
        tmp_path, draft_engine={"build_config__max_batch_size": 16, "build_config__max_seq_len": 4096}
    )
    made = generate(spec_file)
    configs = dict(model_configs(spec_file))
    assert {name: config.max_batch_size for name, config in configs.items()} == {
        TARGET: 32, DRAFT: 16, FRONTEND: 16, "baseline/tensorrt_llm": 32, "baseline/tensorrt_llm_bls": 32,
    }  # fmt: skip
    assert parameters(configs[FRONTEND])["max_seq_len"] == "4096"
    assert parameters(configs["baseline/tensorrt_llm_bls"])["max_seq_len"] == "8192"
    assert {finding.id for finding in made.findings} == {"engines-limits"}


@pytest.mark.parametrize(("asked", "written"), [(8, 8), (32, 32)])
def test_the_spec_may_ask_for_fewer_sequences(tmp_path: Path, asked: int, written: int) -> None:
    spec_file = tensorrt_spec(tmp_path, build={"max_batch_size": asked})
    generate(spec_file)
    assert {config.max_batch_size for _, config in model_configs(spec_file)} == {written}


def test_a_baseline_without_paged_context_fmha(tmp_path: Path) -> None:
    """It can be served, without reuse of blocks and with prompts in one piece."""
    spec_file = tensorrt_spec(tmp_path)
    path = tmp_path / "built" / "baseline" / "config.json"
    document = json.loads(path.read_text())
    document["build_config"]["plugin_config"]["use_paged_context_fmha"] = False
    document["build_config"]["max_num_tokens"] = 2048
    path.write_text(json.dumps(document))
    made = generate(spec_file, ["baseline"])
    found = values(spec_file)
    leaf = found["baseline/tensorrt_llm"]
    assert (leaf["enable_chunked_context"], leaf["enable_kv_cache_reuse"]) == ("false", "false")
    assert found["baseline/tensorrt_llm_bls"]["max_seq_len"] == "2048"
    assert any("limited to 2048 tokens" in note for note in made.notes)


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"build_config__plugin_config": {"use_paged_context_fmha": False}}, "paged context FMHA is off"),
        ({"build_config__max_beam_width": 4}, "max_beam_width 4"),
        ({"pretrained_config__mapping__tp_size": 2, "pretrained_config__mapping__world_size": 2}, "tp_size 2"),
    ],
)
def test_engines_that_may_not_be_served_are_refused(tmp_path: Path, engine: dict[str, Any], message: str) -> None:
    spec_file = tensorrt_spec(tmp_path, engine=engine)
    with pytest.raises(EngineRejected, match=message):
        generate(spec_file)
    assert not spec_file.repository("speculative").exists()


def test_a_target_without_draft_support_is_refused(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path)
    shutil.copy(tmp_path / "built/baseline/config.json", tmp_path / "built/target/config.json")
    with pytest.raises(EngineRejected, match="without draft support"):
        generate(spec_file)


def test_a_release_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VersionUnsupported, match="older than the models"):
        generate(tensorrt_spec(tmp_path, "0.17.0"))


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path)
    shutil.rmtree(tmp_path / "built" / "draft")
    with pytest.raises(ArtefactMissing, match="no such engine folder"):
        generate(spec_file)
    assert list(generate(spec_file, ["baseline"]).arms) == ["baseline"]


def test_a_tokenizer_is_needed(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "built" / "target" / name).unlink()
    with pytest.raises(ArtefactMissing, match="no tokenizer for the target engine"):
        generate(spec_file)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, hardware={"gpu": "H100-80GB-SXM", "memory_gib": 2})
    with pytest.raises(PairError, match="the speculative arm does not fit on GPU 0") as caught:
        generate(spec_file)
    assert "trtspec plan" in (caught.value.fix or "")


def test_gpus_that_are_not_there_are_refused(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, draft={"gpus": [5]}, hardware={"gpu": "H100-80GB-SXM", "count": 2})
    with pytest.raises(PairError, match="names GPU 5"):
        generate(spec_file)


@pytest.mark.parametrize(("sections", "fraction"), [({}, "0.45"), ({"draft": {"gpus": [1]}}, "0.9")])
def test_without_a_known_gpu_tokens_alone_are_capped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any], fraction: str
) -> None:
    monkeypatch.setattr("trtspec.planning.options.detect_gpus", lambda: ((), "none"))
    spec_file = tensorrt_spec(tmp_path, **sections)
    made = generate(spec_file)
    found = values(spec_file)
    # 32 sequences of 8192 tokens and 8 draft tokens, in blocks of 32
    assert found[TARGET]["max_tokens_in_paged_kv_cache"] == str(32 * 8224)
    assert found[DRAFT]["max_tokens_in_paged_kv_cache"] == str(32 * 8192)
    shown = {name: found[name]["kv_cache_free_gpu_mem_fraction"] for name in (TARGET, DRAFT, "baseline/tensorrt_llm")}
    assert shown == {TARGET: fraction, DRAFT: fraction, "baseline/tensorrt_llm": "0.9"}
    assert any("hardware.gpu" in note for note in made.notes)


def test_nothing_is_left_to_be_filled_in(tmp_path: Path) -> None:
    for folder in generate(tensorrt_spec(tmp_path)).arms.values():
        assert not [path for path in folder.rglob("config.pbtxt") if "${" in path.read_text()]


def test_the_command_says_what_was_derived(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, **LAYOUTS["tp4-tp1"])
    run = CliRunner()
    data = json.loads(run.invoke(command, [str(spec_file.path), "--output", "json"]).stdout)
    derived = data["derived"]["speculative"]
    assert (derived["launch_mode"], derived["world_size"], derived["gpu"]) == ("orchestrator", 1, "4 × H100-80GB-SXM")
    target = derived["models"]["tensorrt_llm"]
    assert target["gpu_device_ids"] == "0,1,2,3"
    found = values(spec_file)[TARGET]
    assert str(target["max_tokens_in_paged_kv_cache"]) == found["max_tokens_in_paged_kv_cache"]
    assert f"{target['kv_cache_free_gpu_mem_fraction']:g}" == found["kv_cache_free_gpu_mem_fraction"]
    shown = run.invoke(command, [str(spec_file.path)]).stdout
    assert "GPU 0,1,2,3" in shown
    assert "orchestrator" in shown


def test_the_command_refuses_engines_with_every_error(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, engine={"build_config__max_beam_width": 4})
    failed = CliRunner().invoke(command, [str(spec_file.path)])
    assert failed.exit_code == 4
    assert "max_beam_width 4" in failed.stderr
    assert "Traceback" not in failed.stderr
