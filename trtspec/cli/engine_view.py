"""One engine on the console: what it is, what made it, and what its inspection found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.cli.findings import print_findings
from trtspec.cli.output import Sink
from trtspec.errors import BuildError
from trtspec.spec.names import ROLES, Role
from trtspec.units import bytes_text, duration_text

if TYPE_CHECKING:
    from trtspec.building.inspection import EngineConfig
    from trtspec.rules.registry import Finding

__all__ = ["show_engine"]

_REJECTED = 4


def show_engine(sink: Sink, folder: Path, role: Role | None) -> int | None:
    """Print the engine in `folder`; 4 when its inspection finds an error. BuildError when there is no engine in it.

    What is expected of it is what its manifest says that was asked, else what every engine of its role must be.
    """
    from trtspec.building.inspection import errors_of, inspect_engine, read_engine_config
    from trtspec.building.inspection.requested import recorded_expectation

    config = read_engine_config(folder)
    manifest = _manifest(folder)
    meant = role or _recorded_role(manifest) or _guess(config)
    findings = inspect_engine(folder, recorded_expectation(meant, config.runtime, manifest))
    data = {
        "schema": 1,
        "path": str(folder.resolve()),
        "role": meant,
        "config": _summary(config),
        "files": _files(folder),
        "manifest": dict(manifest) or None,
        "ok": not errors_of(findings),
        "findings": [finding.to_json() for finding in findings],
    }
    sink.result(data, lambda console: _human(console, data, findings), str(folder.resolve()))
    return None if data["ok"] else _REJECTED


def _manifest(folder: Path) -> Mapping[str, Any]:
    from trtspec.building.built import read_manifest

    manifest = _printable(read_manifest(folder))
    if manifest.get("kind") == "checkpoint":
        raise BuildError(
            "is a converted checkpoint, not an engine", where=str(folder), fix="trtspec engines list shows the engines"
        )
    return manifest


def _printable(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest, or nothing when it holds what JSON has not (a damaged one)."""
    try:
        json.dumps(manifest, allow_nan=False)
    except ValueError:
        return {}
    return manifest


def _recorded_role(manifest: Mapping[str, Any]) -> Role | None:
    return next((role for role in ROLES if role == manifest.get("role")), None)


def _guess(config: EngineConfig) -> Role:
    """Of an engine built elsewhere: one that takes draft tokens is a target, any other could be a draft."""
    return "target" if config.speculates else "draft"


def _summary(config: EngineConfig) -> dict[str, Any]:
    hidden = {"data", "rotary_scaling"}
    values = {name: value for name, value in vars(config).items() if name not in hidden}
    return {**values, "rotary_scaling": None if config.rotary_scaling is None else dict(config.rotary_scaling)}


def _files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}


def _human(console: Console, data: Mapping[str, Any], findings: Sequence[Finding]) -> None:
    console.print(f"[bold]{data['role']} engine[/] {escape(data['path'])}")
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _rows(data["config"], data["files"], data["manifest"] or {}):
        table.add_row(f"[dim]{name}[/]", escape(value))
    console.print(table)
    if findings:
        print_findings(console, findings)
    else:
        console.print("[green]nothing wrong found[/]")


def _rows(config: Mapping[str, Any], files: Mapping[str, int], manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("built by", _built_by(config, manifest)),
        ("network", f"{config['architecture']}, {config['dtype']}, vocabulary {config['vocab_size']}"),
        ("limits", _limits(config)),
        ("speculation", _speculation(config)),
        *(_network_rows(config) if config["runtime"] != "torch" else []),
        ("files", ", ".join(f"{name} {bytes_text(size)}" for name, size in files.items())),
    ]
    if isinstance(seconds := manifest.get("seconds"), (int, float)):
        rows.append(("build took", duration_text(seconds)))
    if isinstance(source := manifest.get("checkpoint"), dict) and source.get("folder"):
        rows.append(("checkpoint", str(source["folder"])))
    return rows


def _network_rows(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("weights", config["quant_algo"] or config["dtype"]),
        ("KV cache", f"{config['kv_cache_quant_algo'] or config['dtype']}, {_paging(config)}"),
        ("ranks", f"tp {config['tp']} × pp {config['pp']}"),
        ("paged context FMHA", _on_off(config["paged_context_fmha"])),
    ]


def _built_by(config: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    if config["runtime"] == "torch":
        return f"trtspec {config['version']} (torch runtime)"
    gpu = manifest.get("gpu") or config["built_on"]
    sm = manifest.get("sm")
    place = f" on {gpu}" if gpu else ""
    return f"TensorRT-LLM {config['version']}{place}{f' (SM {sm})' if sm else ''}"


def _paging(config: Mapping[str, Any]) -> str:
    if config["paged_kv"] is None:
        return "paging not recorded"
    return f"paged, {config['tokens_per_block'] or '?'} tokens a block" if config["paged_kv"] else "not paged"


def _limits(config: Mapping[str, Any]) -> str:
    sizes = f"batch {config['max_batch_size']}, {config['max_seq_len']} tokens a sequence"
    return f"{sizes}, {config['max_num_tokens']} tokens a pass, {config['max_beam_width']} beam"


def _speculation(config: Mapping[str, Any]) -> str:
    mode = str(config["speculative_mode"])
    return f"{mode.lower()}, up to {config['max_draft_len']} draft tokens" if mode != "NONE" else "none"


def _on_off(value: bool | None) -> str:
    return "not recorded" if value is None else "on" if value else "off"
