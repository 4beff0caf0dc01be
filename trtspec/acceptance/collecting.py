"""What is sent back: a folder and an archive of it, with logs and small documents and never with weights."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from trtspec.acceptance.context import Context

__all__ = ["collect", "summary_text"]

_MOST = 32 << 20  # bytes of a file that is taken along
_PATTERNS = (
    "trtspec.yaml", "engines/**/config.json", "engines/**/manifest.json", "engines/**/*.log", "model_repo/**/*.pbtxt",
    "runs/**/summary.json", "runs/**/provenance.json", "runs/**/requests.jsonl", "runs/**/report.html",
    "runs/**/*.csv", "runs/**/*.log", "logs/**/*.log",
)  # fmt: skip


def collect(context: Context) -> Path:
    """Write summary.json and summary.txt, copy what the run left, and make the archive; its path."""
    results = context.options.results
    document = {
        "schema": 1,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "notes": context.notes,
        "steps": [outcome.to_json() for outcome in context.outcomes.values()],
    }
    results.mkdir(parents=True, exist_ok=True)
    (results / "summary.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (results / "summary.txt").write_text(summary_text(context), encoding="utf-8")
    for path in sorted(set(_worth_keeping(context))):
        target = results / "work" / path.relative_to(context.spec.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    archive = results.with_name(f"{results.name}.tar.gz")
    with tarfile.open(archive, "w:gz") as stream:
        stream.add(results, arcname=results.name)
    return archive


def _worth_keeping(context: Context) -> Iterator[Path]:
    """Small files beside the spec; never weights."""
    results = context.options.results.resolve()
    for pattern in _PATTERNS:
        for path in context.spec.parent.glob(pattern):
            inside = results in path.resolve().parents
            if path.is_file() and not path.is_symlink() and not inside and path.stat().st_size <= _MOST:
                yield path


def summary_text(context: Context) -> str:
    """One line a step, then the counts and what was measured."""
    lines = [
        f"{outcome.status:12}{outcome.id:10}{outcome.title}" + (f"\n{'':22}{outcome.reason}" if outcome.reason else "")
        for outcome in context.outcomes.values()
    ]
    counts = dict.fromkeys(("passed", "failed", "skipped", "interrupted"), 0)
    for outcome in context.outcomes.values():
        counts[outcome.status] += 1
    lines += ["", ", ".join(f"{number} {status}" for status, number in counts.items() if number)]
    lines += [f"{name}: {value}" for name, value in context.notes.items() if value]
    if not any(context.outcomes.get(name) and context.outcomes[name].status == "passed" for name in ("gpu", "build")):
        lines.append("nothing that needs a GPU was tested here")
    return "\n".join(lines) + "\n"
