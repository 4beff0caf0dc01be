"""The files of an engine folder."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from trtspec import __version__
from trtspec.building.gguf import load_gguf
from trtspec.building.identity import tokenizer_files
from trtspec.building.plan import EnginePlan
from trtspec.building.pretrained import pretrained_config
from trtspec.building.weights import Written, stored_dtype, write_weights
from trtspec.checkpoints.config import parse_config
from trtspec.checkpoints.draft_vocabulary import DRAFT_VOCABULARY
from trtspec.errors import BuildError
from trtspec.files import is_partial, read_json, write_json
from trtspec.progress import Reporter
from trtspec.provenance import file_sha256, provenance

__all__ = ["WEIGHTS", "fill_engine"]

WEIGHTS = "model.safetensors"
_MANIFEST = "manifest.json"


def fill_engine(plan: EnginePlan, work: Path, started: float, reporter: Reporter) -> None:
    """Write config.json, hf/config.json, weights, tokenizer and, last, manifest.json into the empty folder `work`."""
    hf_config, written = _write_model(plan, work, reporter)
    _write_configs(plan, work, hf_config)
    _copy_small_files(plan, work)
    write_json(work / _MANIFEST, _manifest(plan, work, written, time.monotonic() - started))


def _write_model(plan: EnginePlan, work: Path, reporter: Reporter) -> tuple[dict[str, Any], Written]:
    """model.safetensors and the configuration that describes it as transformers wants it."""
    target, weights = work / WEIGHTS, plan.checkpoint.weights
    if weights.format == "gguf":
        model = load_gguf(plan.folder, weights.files[0], plan.source.dtype)
        return model.config, model.write(target, reporter)
    hf_config = dict(plan.checkpoint.config.data)
    shared = _share(plan, target)
    return hf_config, shared or write_weights(plan.folder, weights, plan.source.dtype, target, reporter)


def _share(plan: EnginePlan, target: Path) -> Written | None:
    """Link the weights of a finished engine of this name made from the same bytes, if there is one."""
    for manifest in sorted(plan.path.parent.parent.glob(f"*/*/{_MANIFEST}")):
        digest = None if is_partial(manifest.parent) else _weights_digest(manifest, plan.weights_key)
        if digest is not None and _linked(manifest.parent / WEIGHTS, target):
            return Written(f"linked to {manifest.parent.parent.name}/{manifest.parent.name}", digest)
    return None


def _weights_digest(manifest: Path, weights_key: str) -> str | None:
    """SHA-256 of the weights beside `manifest` when they were made for `weights_key` and are whole."""
    try:
        data = read_json(manifest)
        entry = data["files"][WEIGHTS]
        whole = (manifest.parent / WEIGHTS).stat().st_size == entry["size"]
        return str(entry["sha256"]) if whole and data["weights"]["key"] == weights_key else None
    except (OSError, json.JSONDecodeError, KeyError, TypeError):
        return None


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links: the caller writes a copy
        return False
    return True


def _write_configs(plan: EnginePlan, work: Path, hf_config: dict[str, Any]) -> None:
    facts = parse_config(hf_config, str(plan.folder / "config.json"))
    dtype = plan.source.dtype if plan.source.dtype != "auto" else stored_dtype(plan.checkpoint.weights)
    document: dict[str, Any] = {
        "version": __version__,
        "runtime": "torch",
        "pretrained_config": pretrained_config(facts, dtype),
        "build_config": plan.limits.document(),
    }
    if plan.source.trust_remote_code:
        document["trust_remote_code"] = True
    write_json(work / "config.json", document)
    write_json(work / "hf" / "config.json", hf_config)
    (work / "hf" / WEIGHTS).symlink_to(Path("..") / WEIGHTS)


def _copy_small_files(plan: EnginePlan, work: Path) -> None:
    names = [path.name for path in plan.folder.iterdir()]
    tokenizer = tokenizer_files(names)
    for name in [*tokenizer, "generation_config.json", DRAFT_VOCABULARY]:
        if name in names and (name != DRAFT_VOCABULARY or name in plan.hashes):
            shutil.copyfile(plan.folder / name, work / name)
    for name in plan.hashes:
        if name.endswith(".py"):
            shutil.copyfile(plan.folder / name, work / "hf" / name)
    if not tokenizer:
        _tokenizer_from_gguf(plan, work)


def _tokenizer_from_gguf(plan: EnginePlan, work: Path) -> None:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(plan.folder), gguf_file=plan.checkpoint.weights.files[0])
        tokenizer.save_pretrained(str(work))
    except Exception as error:
        raise BuildError(f"transformers cannot make its tokenizer: {error}", where=str(plan.folder)) from error


def _manifest(plan: EnginePlan, work: Path, written: Written, seconds: float) -> dict[str, Any]:
    files = {}
    for path in sorted(path for path in work.rglob("*") if path.is_file() and not path.is_symlink()):
        name = path.relative_to(work).as_posix()
        digest = written.sha256 if name == WEIGHTS else file_sha256(path)
        files[name] = {"size": path.stat().st_size, "sha256": digest}
    return {
        "schema": 1,
        "role": plan.role,
        "key": plan.key,
        "files": files,
        "weights": {"key": plan.weights_key, "how": written.how},
        "checkpoint": {"folder": str(plan.folder), "files": dict(plan.hashes)},
        "options": {"dtype": plan.source.dtype, **plan.limits.document()},
        "seconds": round(seconds, 3),
        "provenance": provenance(),
    }
