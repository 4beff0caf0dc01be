"""`trtspec repo --diff`: what would change in which model, then the text itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from trtspec.repository.config_diff import ConfigChange
from trtspec.repository.generate import GeneratedRepository

__all__ = ["change_text", "show_diff", "show_model_changes"]

_NONE = {"model": ("is added", "is removed"), "default": ("added", "removed")}


def show_diff(out: Console, made: GeneratedRepository) -> None:
    """Print both: the changes by model, then the unified diff, coloured on a terminal."""
    show_model_changes(out, made)
    if made.diff:
        out.print()
        out.print(Syntax(made.diff, "diff", background_color="default") if out.is_terminal else escape(made.diff))


def show_model_changes(out: Console, made: GeneratedRepository) -> None:
    """Print which parameter, tensor or setting of which model changes."""
    for arm, changes in made.models.items():
        for model in dict.fromkeys(change.model for change in changes):
            out.print(f"[bold]{escape(f'{arm}/{model}')}[/]")
            _show(out, [change for change in changes if change.model == model])


def _show(out: Console, changes: Sequence[ConfigChange]) -> None:
    for change in changes:
        style = "green" if change.before is None else "red" if change.after is None else "yellow"
        sign = "+" if change.before is None else "-" if change.after is None else "~"
        out.print(f"  [{style}]{sign}[/] {escape(change_text(change))}")


def change_text(change: ConfigChange) -> str:
    """One line without the model's name: `parameter max_beam_width: 1 → 4`."""
    if change.what == "model":
        return "new model" if change.before is None else "model removed"
    if change.what == "files":
        return f"{change.name}: {change.after}"
    name = f"{change.what} {change.name}"
    if change.before is None:
        return f"{name}: added, {_value(change.after)}"
    if change.after is None:
        return f"{name}: removed, was {_value(change.before)}"
    return f"{name}: {_value(change.before)} → {_value(change.after)}"


def _value(text: str | None) -> str:
    return text or "(empty)"
