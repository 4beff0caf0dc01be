"""Generated repositories: what is in them, stable bytes, golden files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from trtspec.cli.repo import command
from trtspec.errors import ArtefactMissing
from trtspec.repository import generate, preview
from trtspec.spec import ARMS, Arm, Role, SpecFile

GOLDEN = Path(__file__).parent / "data"


@pytest.fixture
def spec_file(tmp_path: Path) -> SpecFile:
    return toy_spec(tmp_path)


@pytest.fixture
def engines(spec_file: SpecFile, monkeypatch: pytest.MonkeyPatch) -> dict[Role, Path]:
    return fake_engines(spec_file, monkeypatch)


def read_config(path: Path) -> Any:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    return text_format.Parse(path.read_text(), ModelConfig())


def parameters(config: Any) -> dict[str, str]:
    return {key: value.string_value for key, value in config.parameters.items()}


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.mark.usefixtures("engines")
def test_the_arms_have_their_models(spec_file: SpecFile) -> None:
    made = generate(spec_file)
    assert made.arms == {arm: spec_file.repository(arm) for arm in ARMS}
    models = {arm: sorted(path.name for path in folder.iterdir() if path.is_dir()) for arm, folder in made.arms.items()}
    assert models == {
        "speculative": ["tensorrt_llm", "tensorrt_llm_bls", "tensorrt_llm_draft"],
        "baseline": ["tensorrt_llm", "tensorrt_llm_bls"],
    }
    for folder in made.arms.values():
        for model in (path for path in folder.iterdir() if path.is_dir()):
            config = read_config(model / "config.pbtxt")
            assert (config.name, config.backend, config.max_batch_size) == (model.name, "python", 8)
            assert config.model_transaction_policy.decoupled
            assert [(group.count, group.kind) for group in config.instance_group] == [(1, 2)]  # KIND_CPU
            assert (model / "1" / "model.py").is_file()
        assert (folder / "tensorrt_llm_bls" / "1" / "speculation" / "loop.py").is_file()
    assert made.foreign == made.removed == []


def test_the_frontend_knows_its_arm(spec_file: SpecFile, engines: dict[Role, Path]) -> None:
    made = generate(spec_file)
    values = {
        arm: parameters(read_config(folder / "tensorrt_llm_bls/config.pbtxt")) for arm, folder in made.arms.items()
    }
    assert values["speculative"] == {
        "tensorrt_llm_model_name": "tensorrt_llm",
        "tensorrt_llm_draft_model_name": "tensorrt_llm_draft",
        "tokenizer_dir": str(engines["target"]),
        "num_draft_tokens": "4",
        "max_draft_length": "8",
        "end_ids": "2,0",
        "max_seq_len": "512",
        "vocab_size": "320",
        "draft_timeout_seconds": "10.0",
        "draft_policy": "fixed",
        "acceptance": "tokens",
        "max_prompt_bytes": "1048576",
        "max_output_tokens": "",
        "max_words": "64",
        "request_timeout_seconds": "",
        "draft_sampling": "shared",
    }
    expected = {"tensorrt_llm_draft_model_name": "", "num_draft_tokens": "0", "max_draft_length": "0"}
    assert values["baseline"] == {**values["speculative"], **expected, "tokenizer_dir": str(engines["baseline"])}


def test_the_leaves_know_their_engines(spec_file: SpecFile, engines: dict[Role, Path]) -> None:
    generate(spec_file)
    places: tuple[tuple[Arm, str], ...] = (
        ("speculative", "tensorrt_llm"),
        ("speculative", "tensorrt_llm_draft"),
        ("baseline", "tensorrt_llm"),
    )
    configs = [read_config(spec_file.repository(arm) / model / "config.pbtxt") for arm, model in places]
    paths = [parameters(config)["gpt_model_path"] for config in configs]
    assert paths == [str(engines[role]) for role in ("target", "draft", "baseline")]


@pytest.mark.usefixtures("engines")
def test_values_of_the_spec_arrive(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, speculation={"draft_length": 6}, build={"max_batch_size": 3})
    folder = generate(spec_file).arms["speculative"]
    frontend = read_config(folder / "tensorrt_llm_bls/config.pbtxt")
    assert parameters(frontend)["num_draft_tokens"] == "6"
    assert frontend.max_batch_size == read_config(folder / "tensorrt_llm/config.pbtxt").max_batch_size == 3


@pytest.mark.usefixtures("engines")
def test_a_second_run_changes_no_byte_and_no_time(spec_file: SpecFile) -> None:
    first = generate(spec_file)
    assert first.changed
    assert first.unchanged == 0
    before = {arm: snapshot(folder) for arm, folder in first.arms.items()}
    second = generate(spec_file)
    assert second.changed == []
    assert second.unchanged == len(first.changed)
    assert {arm: snapshot(folder) for arm, folder in second.arms.items()} == before


@pytest.mark.usefixtures("engines")
def test_one_arm_only(spec_file: SpecFile) -> None:
    assert list(generate(spec_file, ["baseline"]).arms) == ["baseline"]
    assert not spec_file.repository("speculative").exists()


@pytest.mark.usefixtures("engines")
def test_a_hand_made_change_is_shown_and_undone(spec_file: SpecFile) -> None:
    folder = generate(spec_file).arms["baseline"]
    config = folder / "tensorrt_llm" / "config.pbtxt"
    original = config.read_text()
    config.write_text(original.replace("max_batch_size: 8", "max_batch_size: 64"))
    shown = preview(spec_file)
    assert shown.changed == ["baseline/tensorrt_llm/config.pbtxt"]
    assert "-max_batch_size: 64\n+max_batch_size: 8\n" in shown.diff
    assert "64" in config.read_text()
    assert generate(spec_file).changed == shown.changed
    assert config.read_text() == original


@pytest.mark.usefixtures("engines")
def test_nothing_is_left_to_be_filled_in(spec_file: SpecFile) -> None:
    for folder in generate(spec_file).arms.values():
        for path in folder.rglob("config.pbtxt"):
            assert "${" not in path.read_text()


def test_without_engines_the_next_command_is_named(spec_file: SpecFile, engines: dict[Role, Path]) -> None:
    shutil.rmtree(engines["draft"])
    with pytest.raises(ArtefactMissing) as caught:
        generate(spec_file)
    assert "trtspec build" in (caught.value.fix or "")
    assert list(generate(spec_file, ["baseline"]).arms) == ["baseline"]


def test_a_broken_engine_is_named(spec_file: SpecFile, engines: dict[Role, Path]) -> None:
    (engines["target"] / "config.json").write_text("{}")
    with pytest.raises(ArtefactMissing, match="build_config") as caught:
        generate(spec_file)
    assert caught.value.where == str(engines["target"])


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("how", ["link", "copy"])
def test_engines_can_lie_inside_the_repository(tmp_path: Path, how: str) -> None:
    spec_file = toy_spec(tmp_path, serving={"engines": how, "repository_root": "/models"})
    folder = generate(spec_file).arms["speculative"]
    assert parameters(read_config(folder / "tensorrt_llm/config.pbtxt"))["gpt_model_path"] == "/models/tensorrt_llm/1"
    frontend = parameters(read_config(folder / "tensorrt_llm_bls/config.pbtxt"))
    assert frontend["tokenizer_dir"] == "/models/tensorrt_llm_bls/1/tokenizer"
    assert {"config.json", "model.py", "tokenizer.json"} <= {
        path.name for path in (folder / "tensorrt_llm/1").iterdir()
    }
    assert (folder / "tensorrt_llm_bls/1/tokenizer/tokenizer.json").is_file()
    assert generate(spec_file).changed == []


@pytest.mark.parametrize("model", ["tensorrt_llm", "tensorrt_llm_bls"])
def test_golden_configs(spec_file: SpecFile, engines: dict[Role, Path], model: str) -> None:
    """Rewrite a golden file on purpose only: other people's clients rely on these names and types."""
    text = (generate(spec_file).arms["speculative"] / model / "config.pbtxt").read_text()
    text = text.replace(str(engines["target"]), "/engines/target")
    golden = GOLDEN / f"{model}.pbtxt"
    assert text == golden.read_text()


@pytest.mark.usefixtures("engines")
def test_the_command(spec_file: SpecFile) -> None:
    run = CliRunner()
    first = json.loads(run.invoke(command, [str(spec_file.path), "--output", "json"]).stdout)
    assert first["schema"] == 1
    assert first["arms"] == {arm: str(spec_file.repository(arm)) for arm in ARMS}
    assert first["changed"]
    (spec_file.repository("baseline") / "mine.txt").write_text("x")
    second = run.invoke(command, [str(spec_file.path)])
    assert second.exit_code == 0
    assert "0 written, 0 removed" in second.stdout
    assert "baseline/mine.txt was not made by trtspec" in second.stderr
    quiet = run.invoke(command, [str(spec_file.path), "--arm", "baseline", "--output", "quiet"])
    assert quiet.stdout == f"{spec_file.repository('baseline')}\n"


@pytest.mark.usefixtures("engines")
def test_the_command_shows_a_diff_and_writes_nothing(spec_file: SpecFile) -> None:
    shown = CliRunner().invoke(command, [str(spec_file.path), "--diff"])
    assert shown.exit_code == 0
    assert '+name: "tensorrt_llm_bls"' in shown.stdout
    assert "would be written" in shown.stdout
    assert not spec_file.repository("speculative").exists()


def test_the_command_without_engines(spec_file: SpecFile, engines: dict[Role, Path]) -> None:
    shutil.rmtree(engines["target"])
    failed = CliRunner().invoke(command, [str(spec_file.path)])
    assert failed.exit_code == 2
    assert "next: trtspec build" in failed.stderr
