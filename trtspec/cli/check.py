"""`trtspec check`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.checkpoints import TokenizerMatch
from trtspec.cli.command import command as make_command
from trtspec.cli.command import command_line, examples, spec_argument
from trtspec.cli.failures import exit_code
from trtspec.cli.findings import print_findings
from trtspec.cli.output import Sink
from trtspec.errors import PairError, UsageError
from trtspec.rules import CheckResult, check_pair
from trtspec.spec import Spec, SpecFile, load_spec
from trtspec.spec.model import DraftModel
from trtspec.units import bytes_text, count_text

__all__ = ["command"]

FOLDER = click.Path(path_type=Path)


@make_command(
    epilog=examples(
        "trtspec check",
        "trtspec check --target ./Llama-3.1-70B-Instruct --draft ./Llama-3.2-1B-Instruct",
        "trtspec check trtspec.yaml --output json",
        "trtspec check --explain tokenizer-differs",
    )
)
@spec_argument
@click.option("--target", type=FOLDER, help="Checkpoint folder of the target, instead of the spec's.")
@click.option("--draft", type=FOLDER, help="Checkpoint folder of the draft, instead of the spec's.")
@click.option("--explain", metavar="ID", help="Explain a rule instead of checking; IDs stand beside the findings.")
def command(sink: Sink, spec_path: Path, target: Path | None, draft: Path | None, explain: str | None) -> int | None:
    """Tell whether target and draft belong together, before anything is built.

    Reads configuration, tensor names and tokenizer of both checkpoints (no weights; seconds even for large models),
    compares them id by id, and says what is wrong, how bad it is and what to do. Exits with 3 when the pair cannot
    be served.
    """
    if explain is not None:
        _explain(sink, explain)
        return None
    result = check_pair(_spec_file(spec_path, target, draft))
    of_the_file = target is None and draft is None
    following = command_line("plan", spec_path) if result.ok and of_the_file else None
    sink.result(result.to_json(), lambda console: _print(console, result, following), result.verdict)
    return None if result.ok else exit_code(PairError("the pair cannot be served"))


def _explain(sink: Sink, rule_id: str) -> None:
    from trtspec.cli.rules import find_rule, show_rule

    found = find_rule(rule_id)
    sink.result({"schema": 1, "rule": found.to_json()}, lambda console: show_rule(console, found), found.title)


def _spec_file(path: Path, target: Path | None, draft: Path | None) -> SpecFile:
    """The spec to check: the file's, with the folders given as options (relative to the current folder) put in."""
    given = {role: folder.absolute() for role, folder in (("target", target), ("draft", draft)) if folder is not None}
    if len(given) == 2 and not path.exists():
        loaded = SpecFile(path, Spec.model_validate({"name": "pair", **{role: {"checkpoint": role} for role in given}}))
    elif given and not path.exists():
        other = "draft" if "target" in given else "target"
        raise UsageError(f"--{other} is needed as well: there is no {path}", fix=f"add --{other} DIR")
    else:
        loaded = load_spec(path)
    changed = {
        role: (loaded.spec.target if role == "target" else _with_model(loaded.spec.draft)).model_copy(
            update={"checkpoint": folder}
        )
        for role, folder in given.items()
    }
    return SpecFile(path, loaded.spec.model_copy(update=changed))


def _with_model(draft: DraftModel) -> DraftModel:
    return draft if draft.is_model else draft.model_copy(update={"method": "lookup"})


def _print(console: Console, result: CheckResult, following: str | None) -> None:
    console.print(_facts_table(result))
    for line in (_pair_line(result), _machine_line(result)):
        if line:
            console.print(escape(line))
    print_findings(console, result.findings)
    style = "bold green" if result.ok else "bold red"
    console.print(f"\n[{style}]{escape(result.verdict)}[/]")
    if result.findings:
        console.print("[dim]`trtspec check --explain ID` tells why, with an example[/]")
    if following:
        console.print(f"[dim]next: {escape(following)}[/]")


def _facts_table(result: CheckResult) -> Table:
    summary = result.to_json()["checkpoints"]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    roles = result.facts.roles
    for role in roles:
        table.add_column(role, overflow="fold")
    for label, key in _ROWS:
        values = [summary[role][key] for role in roles]
        if key == "quantization" and not any(values):
            continue
        cells = [_cell(key, value) for value in values]
        if key == "dtypes":
            cells = [_weights(summary[role], cell) for role, cell in zip(roles, cells, strict=True)]
        table.add_row(label, *(escape(cell) for cell in cells))
    return table


_RELATIONS = {
    "same": "same tokenizer",
    "extended": "one tokenizer extends the other",
    "different": "different tokenizers",
}


def _pair_line(result: CheckResult) -> str:
    pair, draft = result.facts.pair, result.facts.spec.draft
    if not draft.is_model:
        return f"draft: prompt lookup, from {draft.lookup_match} tokens that stand in the text again; no second model"
    parts = []
    if pair.tokenizers is not None:
        parts.append(_match_text(pair.tokenizers))
    if pair.usable_length is not None:
        parts.append(f"usable length {count_text(pair.usable_length)} tokens")
    return f"pair: {'; '.join(parts)}" if parts else ""


def _match_text(match: TokenizerMatch) -> str:
    agree = f"{count_text(match.same_ids)} of {count_text(match.total_ids)} ids agree"
    if match.relation == "same":
        return f"{_RELATIONS[match.relation]} ({agree})"
    first = ", ".join(str(item.id) for item in match.differing[:_DIFFERING])
    return f"{_RELATIONS[match.relation]} ({agree}, {match.overlap:.1%}; first differing ids: {first})"


def _machine_line(result: CheckResult) -> str:
    """Which TensorRT-LLM builds the engines, who decided that, and for which GPU."""
    data = result.to_json()
    toolchain, gpu = data["toolchain"], data["gpu"]
    parts = []
    if toolchain is not None:
        image = f" in {toolchain['image']}" if toolchain["image"] else ""
        parts.append(f"TensorRT-LLM {toolchain['version']} ({_ORIGINS[toolchain['origin']]}){image}")
    if gpu is not None:
        parts.append(f"{gpu['count']} × {gpu['name']} (SM {gpu['sm']}, {bytes_text(gpu['memory_bytes'])})")
    return f"engines: {'; '.join(parts)}" if parts and toolchain is not None else ""


_DIFFERING = 5
_ORIGINS = {"spec": "as the spec says", "installed": "installed here", "image": "the image's", "default": "default"}


_ROWS = (
    ("folder", "folder"),
    ("architecture", "architecture"),
    ("parameters", "parameters"),
    ("layers", "layers"),
    ("hidden size", "hidden_size"),
    ("attention heads", "attention_heads"),
    ("KV heads", "kv_heads"),
    ("vocabulary rows", "vocab_size"),
    ("token ids", "token_ids"),
    ("length", "positions"),
    ("weights", "dtypes"),
    ("quantized", "quantization"),
    ("end ids", "end_ids"),
    ("chat template", "chat_template"),
)


def _weights(summary: Mapping[str, Any], cell: str) -> str:
    """Types and sizes of the weights, or what the index says of those that are not here."""
    if summary["dtypes"] is None and summary["size_bytes"] is not None:
        return f"not here ({bytes_text(summary['size_bytes'])})"
    return cell


def _cell(key: str, value: Any) -> str:
    if value is None or value == []:
        return "no" if key == "quantization" else "?"
    if key == "folder":
        path = Path(value)
        return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else value
    if key == "dtypes":
        return ", ".join(f"{name} {bytes_text(size)}" for name, size in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return count_text(value) if isinstance(value, int) else str(value)
