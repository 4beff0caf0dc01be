"""Putting a recommendation into the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.files import write_text
from trtspec.spec import Spec, SpecFile, diff_text, parse_spec, with_section_values

__all__ = ["spec_change", "spec_values", "write_change"]


def spec_values(spec: Spec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The recommended values of `speculation`, and what must go with them.

    A schedule is taken out with its policy. Where the engine's limit is derived from the draft length, it is written
    down, so that the built engines stay the right ones.
    """
    found: dict[str, Any] = {"schedule": None, **values}
    speculation = spec.speculation
    if "schedule" in values:
        found["schedule"] = {int(bound): length for bound, length in values["schedule"].items()}
    if speculation.max_draft_length is None and max(8, values["draft_length"]) != speculation.engine_draft_length:
        found["max_draft_length"] = speculation.engine_draft_length
    if speculation.min_draft_length > values["draft_length"]:
        found["min_draft_length"] = None
    return found


def spec_change(spec_file: SpecFile, values: Mapping[str, Any]) -> tuple[str, str]:
    """The changed text of the spec file, and the diff to it; SpecError when it cannot be changed safely."""
    where = str(spec_file.path)
    text = spec_file.path.read_text(encoding="utf-8")
    wanted = spec_values(parse_spec(text, where), values)
    after = with_section_values(text, "speculation", wanted, where)
    return after, diff_text(text, after, where)


def write_change(spec_file: SpecFile, text: str) -> None:
    """Replace the spec file's text; a link stays a link."""
    write_text(spec_file.path.resolve(), text)
