"""argparse parsers from the flag lists in tests/facts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["facts", "parser_of"]

_FACTS = Path(__file__).parents[3] / "facts"
_TYPES: dict[str, type] = {"int": int, "float": float, "text": str, "texts": str}


def facts(name: str) -> dict[str, Any]:
    """The facts file `name`."""
    document: dict[str, Any] = json.loads((_FACTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def parser_of(prog: str, rows: Iterable[dict[str, Any]]) -> argparse.ArgumentParser:
    """A parser that knows exactly the flags of `rows`; like the real ones it takes unambiguous abbreviations."""
    parser = argparse.ArgumentParser(prog=prog, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for row in rows:
        names = [row["flag"], *row.get("aliases", ())]
        if row["takes"] == "nothing":
            parser.add_argument(*names, action="store_true")
            continue
        default = argparse.SUPPRESS if row.get("absent") else row.get("default")
        options: dict[str, Any] = {"type": _TYPES[row["takes"]], "default": default}
        if row.get("required"):
            options = {"type": _TYPES[row["takes"]], "required": True}
        if "choices" in row:
            options["choices"] = row["choices"]
        if row["takes"] == "texts":
            options["nargs"] = "+"
        parser.add_argument(*names, **options)
    return parser
