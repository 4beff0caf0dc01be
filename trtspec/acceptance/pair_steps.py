"""Steps that take the pair from checkpoints to engines: fetch, write the spec, check, plan, build, inspect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trtspec.acceptance.context import Context, Skip, StepFailure, last_words

__all__ = ["build", "check", "dry_run", "inspect", "pair", "plan", "write_spec"]

_FETCH = """
import sys
from huggingface_hub import snapshot_download
kinds = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
print(snapshot_download(sys.argv[1], local_dir=sys.argv[2], allow_patterns=kinds))
"""
_HOUR = 3600.0


def pair(context: Context) -> None:
    """Both checkpoints on this machine: the folders given, else fetched from the hub."""
    if context.options.spec is not None:
        context.notes["pair"] = f"of {context.options.spec.name}"
        return
    for role, source in (("target", context.options.target), ("draft", context.options.draft)):
        context.notes[role] = source
        _checkpoint(context, role, source)


def _checkpoint(context: Context, role: str, source: str) -> Path:
    """The folder of a checkpoint; Skip when it can neither be found nor fetched."""
    given = Path(source).expanduser()
    if given.is_dir():
        return given.resolve()
    folder = context.options.work / "models" / source.replace("/", "--")
    if (folder / "config.json").is_file() and list(folder.glob("*.safetensors")):
        return folder
    if source.count("/") != 1 or source.startswith((".", "/", "~")):
        raise Skip(f"{role}: there is no folder {source}")
    done = context.run(f"fetch-{role}", (sys.executable, "-c", _FETCH, source, str(folder)), timeout=_HOUR)
    if done.exit_code != 0:
        raise Skip(f"{role}: {source} cannot be fetched ({last_words(done)}); give a folder with --{role}")
    return folder


def write_spec(context: Context) -> None:
    """A spec of the pair with every size small, unless the user has one."""
    if context.options.spec is not None:
        return
    import yaml

    options = context.options
    folders = {role: _checkpoint(context, role, source) for role, source in _sources(context).items()}
    spec: dict[str, Any] = {
        "version": 1,
        "name": "acceptance",
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": str(folders["target"]), "dtype": "bfloat16", "quantization": options.quantization},
        "draft": {"checkpoint": str(folders["draft"]), "dtype": "bfloat16"},
        "speculation": {"draft_length": 4, "max_draft_length": 8},
        "build": {"max_batch_size": 8, "max_seq_len": 4096, "max_num_tokens": 4096},
        "serving": {
            "http_port": options.http_port,
            "grpc_port": options.http_port + 1,
            "metrics_port": options.http_port + 2,
            "ready_timeout": options.ready_timeout,
        },
        "loadtest": {
            "concurrency": [int(level) for level in options.concurrency.split(",")],
            "requests": options.requests,
            "max_tokens": 128,
        },
    }
    context.spec.write_text("# Written by scripts/gpu-acceptance.\n" + yaml.safe_dump(spec, sort_keys=False))


def _sources(context: Context) -> dict[str, str]:
    return {"target": context.options.target, "draft": context.options.draft}


def check(context: Context) -> None:
    """The pair must fit."""
    done = context.run("check", (*context.trtspec, "check", str(context.spec), "--output", "json"))
    data = done.document()
    context.save("check.json", data)
    if done.exit_code != 0:
        errors = [found["message"] for found in data.get("findings", []) if found["level"] == "error"]
        raise StepFailure(f"exit code {done.exit_code}: {'; '.join(errors) or last_words(done)}")


def plan(context: Context) -> None:
    """Memory, placement and expected speed-up, to hold against what is measured."""
    context.save("plan.json", context.must("plan", "plan", str(context.spec), "--output", "json").document())


def dry_run(context: Context) -> None:
    """The commands that the build will run."""
    done = context.must("dry-run", "build", str(context.spec), "--dry-run", "--output", "json")
    context.save("steps.json", done.document())


def build(context: Context) -> None:
    """Three engines, then the same again, which must find them finished."""
    context.save("build.json", context.must("build", "build", str(context.spec), "--output", "json").document())
    again = context.must("build-again", "build", str(context.spec), "--output", "json").document()
    rebuilt = [engine["role"] for engine in again["engines"] if not engine["cached"]]
    if rebuilt:
        raise StepFailure(f"a second build made these again: {', '.join(rebuilt)}")


def inspect(context: Context) -> None:
    """What the engines say about themselves, and that nothing is wrong with them."""
    listed = context.must("engines", "engines", "list", str(context.spec), "--output", "json").document()
    context.save("engines.json", listed)
    wrong = []
    for entry in listed["entries"]:
        if entry["kind"] == "engine" and entry["used_by"]:
            name = f"engine-{entry['role']}"
            done = context.run(name, (*context.trtspec, "engines", "show", entry["path"], "--output", "json"))
            data = done.document()
            context.save(f"engines/{entry['role']}.json", data)
            wrong += [found["message"] for found in data.get("findings", []) if found["level"] == "error"]
    if wrong:
        raise StepFailure("; ".join(wrong))
