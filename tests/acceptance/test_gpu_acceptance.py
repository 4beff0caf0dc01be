"""The acceptance run: on a machine without a GPU, and with programs that stand in for what a GPU box has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.tensorrt.gpu_box import BOX_MAIN, make_gpu_box
from tests.building.tensorrt.stand_in import install_stand_in
from trtspec.acceptance.__main__ import main
from trtspec.acceptance.collecting import collect, summary_text
from trtspec.acceptance.context import Context, Options, Outcome, Skip, StepFailure
from trtspec.acceptance.machine_steps import compare_flags, flags, gpus
from trtspec.acceptance.pair_steps import build, pair, write_spec
from trtspec.acceptance.running import known_commands, run_steps
from trtspec.acceptance.serving_steps import _get, repository
from trtspec.acceptance.steps import STEPS, Step
from trtspec.cli.main import COMMANDS
from trtspec.spec import load_spec
from trtspec.toolchain.flags import build_flags

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu-acceptance"


def options(folder: Path, **changes: Any) -> Options:
    values = {"work": folder, "results": folder / "results", "target": "org/target", "draft": "org/draft", **changes}
    return Options(**values)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def silent(_outcome: Outcome) -> None:
    return


@pytest.fixture
def nothing_here(tmp_path: Path) -> dict[str, str]:
    """An environment in which no GPU program and no TensorRT-LLM can be found."""
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "env"):
        real = next(Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists())
        (tmp_path / "bin" / name).symlink_to(real)
    return {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHON": sys.executable}


def test_without_a_gpu_everything_is_skipped_with_a_reason(tmp_path: Path, nothing_here: dict[str, str]) -> None:
    argv = [str(SCRIPT), "--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    done = subprocess.run(argv, env=nothing_here, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "results" / "summary.json").read_text())
    states = {step["id"]: step for step in document["steps"]}
    assert set(states) == {step.id for step in STEPS}
    assert states["machine"]["status"] == "passed"
    for name in set(states) - {"machine", "doctor"}:
        assert states[name]["status"] == "skipped", states[name]
        assert states[name]["reason"], states[name]
    assert "nvidia-smi is not on PATH" in states["build"]["reason"]
    assert "trtllm-build is not on PATH" in states["tools"]["reason"]
    assert "nothing that needs a GPU was tested here" in done.stdout
    with tarfile.open(tmp_path / "results.tar.gz") as archive:
        names = archive.getnames()
    assert {"results/summary.json", "results/summary.txt", "results/machine.json"} <= set(names)


def test_help_says_that_it_has_not_been_run(nothing_here: dict[str, str]) -> None:
    done = subprocess.run([str(SCRIPT), "--help"], env=nothing_here, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "has not been run on a GPU by its authors" in done.stdout
    assert "TARGET=Qwen/Qwen2.5-1.5B-Instruct" in done.stdout


def test_odd_arguments(tmp_path: Path) -> None:
    for arguments in (["--spec", str(tmp_path / "none.yaml")], ["--requests", "many"], ["--unknown"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def step(name: str, action: Callable[[Context], None], *needs: str, command: str | None = None) -> Step:
    return Step(name, name, action, needs, command)


def succeed(_context: Context) -> None:
    return


def fail(_context: Context) -> None:
    raise StepFailure("it broke")


def skip(_context: Context) -> None:
    raise Skip("not here")


def crash(_context: Context) -> None:
    raise KeyError("x")


def interrupt(_context: Context) -> None:
    raise KeyboardInterrupt


def states(context: Context) -> dict[str, tuple[str, str | None]]:
    return {name: (outcome.status, outcome.reason) for name, outcome in context.outcomes.items()}


def test_a_failure_stops_only_what_needs_it(tmp_path: Path) -> None:
    context = Context(options(tmp_path))
    steps = [
        step("a", fail),
        step("b", succeed, "a"),
        step("c", succeed, "b"),
        step("d", skip),
        step("e", succeed, "d"),
        step("f", crash),
        step("g", succeed),
        step("h", succeed, command="teleport"),
    ]
    assert not run_steps(context, steps, frozenset(COMMANDS), silent)
    assert states(context) == {
        "a": ("failed", "it broke"),
        "b": ("skipped", "a failed"),
        "c": ("skipped", "a failed"),
        "d": ("skipped", "not here"),
        "e": ("skipped", "not here"),
        "f": ("failed", "KeyError: 'x'"),
        "g": ("passed", None),
        "h": ("skipped", "this version of trtspec has no command 'teleport'"),
    }
    assert run_steps(Context(options(tmp_path)), [step("a", succeed), step("b", skip)], frozenset(), silent)


def test_an_interrupt_ends_the_run_and_keeps_what_there_is(tmp_path: Path) -> None:
    context = Context(options(tmp_path))
    assert not run_steps(context, [step("a", succeed), step("b", interrupt), step("c", succeed)], frozenset(), silent)
    assert [outcome.status for outcome in context.outcomes.values()] == ["passed", "interrupted", "interrupted"]
    assert collect(context).is_file()
    assert "1 passed, 2 interrupted" in summary_text(context)


def test_every_step_needs_earlier_ones_and_commands_that_may_exist() -> None:
    seen: set[str] = set()
    for item in STEPS:
        assert set(item.needs) <= seen, item.id
        seen.add(item.id)


def test_the_commands_are_read_from_the_help(tmp_path: Path) -> None:
    assert known_commands(Context(options(tmp_path))) == frozenset(COMMANDS)


def test_gpus_as_nvidia_smi_lists_them(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "nvidia-smi", "print('NVIDIA L4, 23034 MiB, 8.9, 580.95.05')")
    context = Context(options(tmp_path), env={"PATH": str(tmp_path / "bin")})
    gpus(context)
    assert context.notes["gpus"] == ["NVIDIA L4, 23034 MiB, 8.9, 580.95.05"]
    program(tmp_path / "bin" / "nvidia-smi", "import sys; sys.exit('Failed to initialize NVML')")
    with pytest.raises(Skip, match="Failed to initialize NVML"):
        gpus(context)


def test_the_flag_tables_are_held_against_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = install_stand_in(tmp_path / "stand-in")
    monkeypatch.setattr("trtspec.acceptance.machine_steps.installed_version", lambda: "1.2.1")
    monkeypatch.setattr("trtspec.acceptance.machine_steps._EXAMPLES", (stand_in.examples,))
    context = Context(options(tmp_path), env=stand_in.env)
    flags(context)
    programs = json.loads((tmp_path / "results" / "flags.json").read_text())["programs"]
    assert {"trtllm-build", "convert-llama", "convert-qwen", "convert-gemma", "quantize"} == set(programs)
    assert programs["trtllm-build"] == {"missing": [], "unknown": []}


def test_a_flag_that_differs_does_not_keep_the_build_from_being_tried(tmp_path: Path) -> None:
    steps = {item.id: item for item in STEPS}
    replaced = {"machine": succeed, "doctor": succeed, "gpu": succeed, "tools": succeed, "flags": fail}
    chosen = [
        step(name, replaced.get(name, succeed), *steps[name].needs)
        for name in (*replaced, "pair", "spec", "check", "dry-run", "build")
    ]
    context = Context(options(tmp_path))
    assert not run_steps(context, chosen, frozenset(COMMANDS), silent)
    assert states(context)["flags"] == ("failed", "it broke")
    assert states(context)["build"] == ("passed", None)


def test_the_ports_are_those_of_the_spec(tmp_path: Path) -> None:
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_arguments: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Ready)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        spec_file = toy_spec(tmp_path, serving={"http_port": server.server_port, "grpc_port": 1, "metrics_port": 2})
        context = Context(options(tmp_path, spec=spec_file.path))
        assert _get(context, "http_port", "/v2/health/ready") == b"/v2/health/ready"
        assert _get(context, "metrics_port", "/metrics") is None
    finally:
        server.shutdown()
        server.server_close()


def test_flags_that_differ_are_named() -> None:
    table = build_flags("1.2")
    text = " ".join(flag.name for flag in table.flags if flag.name != "--max_draft_len")
    assert compare_flags(f"{text} --new_flag --help", table) == {
        "missing": ["--max_draft_len"],
        "unknown": ["--new_flag"],
    }


def test_a_pair_from_folders_becomes_a_valid_spec(tmp_path: Path) -> None:
    for name in ("big", "small"):
        (tmp_path / name).mkdir()
    context = Context(
        options(tmp_path, target=str(tmp_path / "big"), draft=str(tmp_path / "small"), quantization="fp8")
    )
    pair(context)
    write_spec(context)
    spec = load_spec(context.spec).spec
    assert spec.runtime == "tensorrt_llm"
    assert spec.target.quantization == "fp8"
    assert spec.target.checkpoint == tmp_path / "big"
    assert spec.serving.metrics_port == 8002
    assert spec.loadtest.concurrency == [1, 4]


def test_a_pair_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Skip, match=r"target: there is no folder \./nowhere"):
        pair(Context(options(tmp_path, target="./nowhere")))


def test_a_second_build_must_find_the_first(tmp_path: Path) -> None:
    answer = {"schema": 1, "engines": [{"role": "target", "cached": False}, {"role": "draft", "cached": True}]}
    fake = program(tmp_path / "trtspec", f"print({json.dumps(answer)!r})")
    with pytest.raises(StepFailure, match="a second build made these again: target"):
        build(Context(options(tmp_path), trtspec=(str(fake),)))


def test_a_command_that_fails_is_quoted(tmp_path: Path) -> None:
    error = {"schema": 1, "error": {"message": "no GPU is seen", "where": "here", "fix": None}}
    fake = program(tmp_path / "trtspec", f"import sys; print({json.dumps(error)!r}); sys.exit(4)")
    with pytest.raises(StepFailure, match="exit code 4: here: no GPU is seen"):
        build(Context(options(tmp_path), trtspec=(str(fake),)))


def test_a_repository_that_this_version_cannot_make_is_skipped(tmp_path: Path) -> None:
    message = "the model repository for runtime tensorrt_llm is not in this version of trtspec"
    error = {"schema": 1, "error": {"message": message, "where": None, "fix": None}}
    fake = program(tmp_path / "trtspec", f"import sys; print({json.dumps(error)!r}); sys.exit(2)")
    with pytest.raises(Skip, match="not in this version"):
        repository(Context(options(tmp_path), trtspec=(str(fake),)))


def test_the_archive_has_documents_and_no_weights(tmp_path: Path) -> None:
    context = Context(options(tmp_path))
    engine = tmp_path / "engines" / "acceptance" / "target" / "key"
    engine.mkdir(parents=True)
    for name in ("config.json", "manifest.json", "build.log", "rank0.engine", "model.safetensors"):
        (engine / name).write_text("x")
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "config.json").write_text("x")
    with tarfile.open(collect(context)) as archive:
        names = {name.partition("/work/")[2] for name in archive.getnames() if "/work/" in name and name.count(".")}
    assert names == {f"engines/acceptance/target/key/{name}" for name in ("config.json", "manifest.json", "build.log")}


def test_the_whole_run_on_a_box_with_stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs and TensorRT-LLM are stand-ins: machine, build and inspection pass, serving is skipped with its reason."""
    box = make_gpu_box(tmp_path / "box", monkeypatch)
    program(tmp_path / "bin" / "nvidia-smi", "print('NVIDIA H100 80GB HBM3, 81559 MiB, 9.0, 590.44.01')")
    monkeypatch.setattr("trtspec.acceptance.machine_steps._EXAMPLES", (box.stand_in.examples,))
    path = os.pathsep.join([str(tmp_path / "bin"), box.stand_in.env["PATH"]])
    python_path = os.pathsep.join([str(SCRIPT.parents[1]), box.stand_in.env["PYTHONPATH"]])
    context = Context(
        options(tmp_path / "work", results=tmp_path / "work" / "results", spec=box.spec_file.path),
        trtspec=(sys.executable, "-c", BOX_MAIN, "1"),
        env={"PATH": path, "PYTHONPATH": python_path},
    )
    (tmp_path / "work").mkdir()
    before_serving = [item for item in STEPS if item.id not in {"serve", "ask", "loadtest", "report", "verify"}]
    assert run_steps(context, before_serving, known_commands(context), silent), summary_text(context)
    found = states(context)
    assert {name for name, (status, _) in found.items() if status == "passed"} >= {"gpu", "flags", "build", "inspect"}
    steps = json.loads((context.options.results / "steps.json").read_text())["steps"]
    assert {step["stage"] for step in steps} >= {"convert", "build", "inspect"}
    with tarfile.open(collect(context)) as archive:
        names = archive.getnames()
    assert any(name.endswith("build.log") for name in names)
    assert any(name.endswith("manifest.json") for name in names)
    assert not [name for name in names if name.endswith((".engine", ".safetensors"))]
