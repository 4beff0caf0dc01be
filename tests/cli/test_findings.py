"""Findings as a person sees them, in a file and on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from trtspec.cli.findings import print_findings
from trtspec.rules import Finding

LONG = "the draft ends elsewhere, so drafts near the end of an answer are lost in every round that comes to it"
FINDINGS = (
    Finding("end-ids-differ", "warning", "SILENT", "pair", LONG, "write it to generation_config.json", {}),
    Finding("vocabulary-sizes-differ", "note", "CRASH", "pair", "padding only, harmless", None, {}),
    Finding("gpu-not-given", "note", "INFO", "spec", LONG, "add hardware", {}),
)


def shown(*, terminal: bool) -> list[str]:
    stream = io.StringIO()
    console = Console(
        file=stream, force_terminal=terminal, width=60, soft_wrap=True, highlight=False, color_system=None
    )
    print_findings(console, FINDINGS)
    return stream.getvalue().splitlines()


def test_a_note_does_not_frighten_with_what_it_would_be_as_an_error() -> None:
    text = "\n".join(shown(terminal=False))
    assert "SILENT pair · end-ids-differ" in text
    assert "CRASH" not in text
    assert "  pair · vocabulary-sizes-differ: padding only, harmless" in text


def test_elsewhere_a_message_is_one_line() -> None:
    lines = shown(terminal=False)
    assert f"    {LONG}" in lines
    assert f"  spec · gpu-not-given: {LONG} → add hardware" in lines


def test_on_a_terminal_paragraphs_are_wrapped_at_words_and_indented() -> None:
    lines = shown(terminal=True)
    assert max(len(line.rstrip()) for line in lines) <= 60
    message = [line for line in lines if line.startswith("    ") and "fix:" not in line]
    assert " ".join(" ".join(message).split()) == LONG
