"""The generated documents: what they are called and what is in them."""

from __future__ import annotations

from pathlib import Path

from trtspec.cli.reference import cli_reference
from trtspec.cli.rules_document import rules_document
from trtspec.files import json_text, write_text
from trtspec.loadtest.figures import figures_document
from trtspec.loadtest.summary_schema import summary_schema
from trtspec.spec import spec_json_schema
from trtspec.toolchain.document import versions_document
from trtspec.verification import verification_schema

__all__ = ["generated_documents", "write_docs"]


def generated_documents() -> dict[str, str]:
    """File name below docs/ → its text."""
    return {
        "cli.md": cli_reference(),
        "metrics-of-a-run.md": figures_document(),
        "rules.md": rules_document(),
        "summary.schema.json": json_text(summary_schema()),
        "trtspec.schema.json": json_text(spec_json_schema()),
        "verification.schema.json": json_text(verification_schema()),
        "versions.md": versions_document(),
    }


def write_docs(folder: Path) -> list[Path]:
    """Write those that differ; return their paths."""
    changed = []
    for name, text in generated_documents().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
            changed.append(path)
    return changed
