"""`trtspec repo` from the command line: lint, diff, versions, generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from tests.repository.lint.stock import Stock, stock_repository
from tests.repository.tensorrt import tensorrt_spec
from trtspec.cli.repo import command
from trtspec.spec import SpecFile

BLS = "tensorrt_llm_bls"


@pytest.fixture
def spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpecFile:
    spec_file = toy_spec(tmp_path)
    fake_engines(spec_file, monkeypatch)
    return spec_file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(item) for item in arguments])


def run_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--output", "json")
    assert result.exit_code == code, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return stock_repository(tmp_path)


def test_lint_of_a_repository_made_by_hand(stock: Stock) -> None:
    data = run_json("--lint", "--path", stock.folder)
    assert data["ok"]
    assert [finding["id"] for finding in data["findings"]] == ["repository-shared-memory"]
    stock.set("tensorrt_llm", gpt_model_path="/engines/target", enable_chunked_context="yes")
    failed = run("--lint", "--path", stock.folder)
    assert failed.exit_code == 3
    assert "tensorrt_llm/config.pbtxt" in failed.stdout
    assert "'yes' is no boolean" in failed.stdout
    assert "the repository cannot be served: 2 errors" in failed.stdout
    mapped = run_json("--lint", "--path", stock.folder, "--root-map", f"{stock.engines}=/engines", code=3)
    errors = [finding for finding in mapped["findings"] if finding["level"] == "error"]
    assert [(item["id"], item["data"]["parameter"]) for item in errors] == [
        ("repository-parameter-value", "enable_chunked_context")
    ]
    assert isinstance(errors[0]["data"]["line"], int)


def test_findings_have_the_form_of_check(stock: Stock) -> None:
    stock.set("tensorrt_llm_draft", worker_path="/x")
    data = run_json("--lint", "--path", stock.folder, code=3)
    assert {"schema", "ok", "verdict", "findings"} <= data.keys()
    assert {"id", "level", "severity", "role", "message", "fix", "data"} <= data["findings"][0].keys()
    assert data["findings"][0]["role"] == "draft"


def test_lint_compares_with_the_image(stock: Stock) -> None:
    assert run("--lint", "--path", stock.folder, "--image", "26.04").exit_code == 0
    other = run_json("--lint", "--path", stock.folder, "--image", "26.03", code=3)
    assert {item["id"] for item in other["findings"] if item["level"] == "error"} == {"repository-engine-version"}


def test_lint_of_a_spec_knows_where_its_repository_will_lie(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": "copy", "repository_root": "/models"})
    missing = run("--lint", spec_file.path)
    assert missing.exit_code == 2
    assert "there is no repository of the speculative arm yet" in missing.stderr
    assert run(spec_file.path).exit_code == 0
    data = run_json("--lint", spec_file.path)
    assert list(data["repositories"]) == ["speculative", "baseline"]
    assert data["findings"] == []
    assert run("--lint", spec_file.path, "--arm", "baseline", "--output", "quiet").stdout.startswith("baseline: ")


def test_lint_tells_of_ports_that_both_arms_would_take(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"http_port": 8000, "grpc_port": 8010, "openai_port": 8022})
    assert run(spec_file.path).exit_code == 0
    data = run_json("--lint", spec_file.path)
    assert data["ok"]
    told = {(item["repository"], item["level"], item["message"]) for item in data["findings"]}
    both = "they cannot run at the same time"
    assert told == {
        ("baseline", "warning", f"port 8010 is grpc of the speculative arm and http of the baseline arm: {both}"),
    }
    assert run_json("--lint", spec_file.path, "--arm", "speculative")["findings"] == []


def test_lint_reads_the_ports_of_a_launch(stock: Stock) -> None:
    launch = stock.folder.parent / "start.sh"
    launch.write_text("exec tritonserver --model-repository=/models --http-port=8001\n")
    (found,) = run_json("--lint", "--path", stock.folder, "--launch", launch, code=3)["findings"][:1]
    assert (found["id"], found["message"]) == ("repository-ports", "port 8001 is http and grpc")
    launch.write_text("exec tritonserver --model-repository=/models --http-port=8005\n")
    assert run("--lint", "--path", stock.folder, "--launch", launch).exit_code == 0
    launch.write_text("echo hello\n")
    assert "nothing in it starts a Triton server" in run("--lint", "--path", stock.folder, "--launch", launch).output
    assert run("--lint", "--path", stock.folder, "--launch", launch.parent / "gone").exit_code == 2


def test_lint_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert run("--lint", "--path", tmp_path / "gone").exit_code == 2


def test_diff_says_which_parameter_of_which_model(spec_file: SpecFile) -> None:
    run(spec_file.path)
    path = spec_file.repository("speculative") / BLS / "config.pbtxt"
    path.write_text(path.read_text().replace('string_value: "512"', 'string_value: "100"'))
    shown = run(spec_file.path, "--diff")
    assert f"speculative/{BLS}\n  ~ parameter max_seq_len: 100 → 512\n" in shown.stdout
    assert shown.stdout.index("max_seq_len: 100 → 512") < shown.stdout.index('-    string_value: "100"')
    data = run_json(spec_file.path, "--diff")
    assert data["models"]["speculative"] == [
        {"model": BLS, "what": "parameter", "name": "max_seq_len", "before": "100", "after": "512"}
    ]
    assert 'string_value: "100"' in path.read_text()


def test_versions_are_made_and_pinned(spec_file: SpecFile) -> None:
    run(spec_file.path)
    shown = run(spec_file.path, "--new-version", "--serve-version", 1, "--diff")
    assert "version_policy.specific.versions: added, 1" in shown.stdout
    assert run(spec_file.path, "--new-version", "--serve-version", 1).exit_code == 0
    assert (spec_file.repository("baseline") / BLS / "2" / "model.py").is_file()
    refused = run(spec_file.path, "--serve-version", 3)
    assert refused.exit_code == 2
    assert "has no version 3; there is 1, 2" in refused.stderr
    assert run(spec_file.path, "--serve-version", "latest").exit_code == 0
    assert "version_policy" not in (spec_file.repository("baseline") / BLS / "config.pbtxt").read_text()


def test_history_and_rollback(spec_file: SpecFile) -> None:
    assert "nothing is kept yet" in run(spec_file.path, "--history").stdout
    assert run(spec_file.path, "--rollback").exit_code == 2
    run(spec_file.path)
    run(spec_file.path, "--new-version", "--arm", "speculative")
    data = run_json(spec_file.path, "--history")["arms"]
    assert (data["speculative"]["current"], data["baseline"]["current"]) == (2, 1)
    assert [item["number"] for item in data["speculative"]["generations"]] == [1, 2]
    back = run_json(spec_file.path, "--rollback", "--arm", "speculative")
    assert back["arms"] == {"speculative": {"generation": 1, "before": 2}}
    assert not (spec_file.repository("speculative") / BLS / "2").exists()
    assert run_json(spec_file.path, "--rollback", "--generation", 2, "--arm", "speculative")["arms"]["speculative"]
    assert (spec_file.repository("speculative") / BLS / "2").exists()
    both = run(spec_file.path, "--rollback")
    assert both.exit_code == 0
    assert "left as it is" in both.stderr
    alone = run(spec_file.path, "--rollback", "--arm", "baseline")
    assert alone.exit_code == 2
    assert "no earlier generation" in alone.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--lint", "--diff"], "--diff and --lint do not go together"),
        (["--path", "x"], "--path goes with --lint"),
        (["--image", "26.04"], "--image goes with --lint"),
        (["--lint", "--launch", "x"], "--launch goes with --path"),
        (["--rollback", "--generation", "2"], "--generation goes with --arm"),
        (["--arm", "baseline", "--generation", "2"], "--generation goes with --rollback"),
        (["--new-version", "--rollback"], "--new-version and --rollback do not go together"),
        (["--serve-version", "latest", "--history"], "--serve-version and --history do not go together"),
        (["--serve-version", "0"], "give version numbers, or latest alone"),
        (["--serve-version", "latest", "--serve-version", "1"], "give version numbers, or latest alone"),
    ],
)
def test_options_that_do_not_go_together(spec_file: SpecFile, options: list[str], text: str) -> None:
    result = run(spec_file.path, *options)
    assert result.exit_code == 2
    assert text in result.stderr
