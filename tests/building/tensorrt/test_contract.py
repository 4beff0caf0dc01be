"""Every flag, value and order of the commands for three real pairs, held against the facts for each release."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.building.tensorrt.contract import options, violations
from tests.building.tensorrt.pairs import PAIRS, TOOLS, VERSIONS, requests_of
from trtspec.building.tensorrt.commands import Command, build_commands, checkpoint_commands
from trtspec.spec import ROLES

GOLDEN = Path(__file__).parent / "golden"


def commands_of(folder: Path, pair: str, minor: str) -> dict[str, list[Command]]:
    """Role → its commands, with stable names for the folders."""
    requests = requests_of(PAIRS[pair].spec(folder, VERSIONS[minor]), minor)
    return {
        role: [
            *checkpoint_commands(request, f"MODELS/{request.folder.name}", f"CHECKPOINTS/{request.folder.name}", TOOLS),
            *build_commands(request, f"CHECKPOINTS/{request.folder.name}", f"ENGINES/{role}", TOOLS),
        ]
        for role, request in requests.items()
    }


@pytest.mark.parametrize("minor", VERSIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_every_command_keeps_the_contract(tmp_path: Path, pair: str, minor: str) -> None:
    for role, commands in commands_of(tmp_path, pair, minor).items():
        for command in commands:
            assert violations(command.argv, minor) == [], (role, command.argv)


@pytest.mark.parametrize("minor", VERSIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_commands_word_by_word(tmp_path: Path, pair: str, minor: str) -> None:
    lines = []
    for role, commands in commands_of(tmp_path, pair, minor).items():
        lines.append(f"# {role}")
        for command in commands:
            env = [f"{name}={value}" for name, value in command.env.items()]
            lines.append(shlex.join([*env, *command.argv]))
            lines.append(f"#   {' '.join(command.outputs)}")
    assert "\n".join(lines) + "\n" == (GOLDEN / f"{pair}.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("pair", PAIRS)
def test_baseline_and_target_differ_in_speculation_only(tmp_path: Path, pair: str) -> None:
    commands = commands_of(tmp_path, pair, "1.2")
    convert, build = commands["baseline"]
    assert convert == commands["target"][0]  # one checkpoint for both
    with_drafts = options(commands["target"][1].argv)
    without = options(build.argv)
    drafts = str(PAIRS[pair].overrides.get("speculation", {}).get("max_draft_length", 8))
    assert with_drafts.pop("--speculative_decoding_mode") == "draft_tokens_external"
    assert with_drafts.pop("--max_draft_len") == drafts
    assert {**with_drafts, "--output_dir": ""} == {**without, "--output_dir": ""}


@pytest.mark.parametrize("role", ROLES)
def test_values_of_the_llama_pair(tmp_path: Path, role: str) -> None:
    first, build = commands_of(tmp_path, "llama-3.1-70b-fp8", "1.2")[role]
    given = options(build.argv)
    assert {name: given[name] for name in ("--max_batch_size", "--max_seq_len", "--max_num_tokens")} == {
        "--max_batch_size": "32",
        "--max_seq_len": "8192",
        "--max_num_tokens": "8192",
    }
    made = options(first.argv)
    assert made["--dtype"] == "bfloat16"
    if role == "draft":
        assert (first.stage, made["--tp_size"], given["--workers"]) == ("convert", "1", "1")
        assert "--use_fp8_context_fmha" not in given
    else:
        assert (first.stage, made["--qformat"], made["--kv_cache_dtype"]) == ("quantize", "fp8", "fp8")
        assert (made["--tp_size"], given["--workers"], given["--use_fp8_context_fmha"]) == ("4", "4", "enable")
        assert build.outputs == ("config.json", *(f"rank{rank}.engine" for rank in range(4)))


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--checkpoint_dir", "a", "--output_dir", "b", "--max_output_len", "1"], "--max_output_len is unknown"),
        (["--checkpoint_dir", "a", "--output_dir", "b", "--max_batch_size", "many"], "is no int"),
        (["--checkpoint_dir", "a", "--output_dir", "b", "--logits_dtype", "bfloat16"], "is none of"),
        (["--checkpoint_dir", "a", "--output_dir", "b", "--dry_run", "1"], "takes nothing"),
        (["--output_dir", "b", "--checkpoint_dir", "a"], "not with the model"),
        (["--checkpoint_dir", "a", "--output_dir", "b"], "left to the tool's defaults"),
        (["--checkpoint_dir", "a", "--output_dir", "b", "--max_draft_len", "4"], "needs max_draft_len"),
        (["--checkpoint_dir", "a", "--output_dir", "b", "--context_fmha", "disable"], "FMHA is off"),
    ],
)
def test_the_check_itself_can_fail(argv: list[str], problem: str) -> None:
    assert any(problem in found for found in violations(["trtllm-build", *argv], "1.2"))
