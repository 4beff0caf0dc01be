"""`trtspec rules`: the checks that exist, and one of them in full."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import groupby

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.building.inspection import engine_rules
from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.findings import STYLES, say
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.planning import plan_rules
from trtspec.repository.lint import repository_rules
from trtspec.rules import RULES, Rule
from trtspec.rules.check import RULE_MODULES
from trtspec.rules.registry import LEVELS, SEVERITIES, SUBJECTS

__all__ = ["MODULES", "all_rules", "command", "find_rule", "show_rule"]

SCHEMA = 1
_NEAR = 8  # rules proposed that have what was typed as the beginning of a word
# importing them filled the registry
MODULES = (*RULE_MODULES, engine_rules, plan_rules, repository_rules)


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the product: about pairs, plans, engines and repositories, in the order of the registry."""
    return tuple(sorted(RULES.values(), key=lambda item: SUBJECTS.index(item.subject)))


def find_rule(rule_id: str) -> Rule:
    """The rule called `rule_id`; UsageError with the nearest names."""
    if rule_id in RULES:
        return RULES[rule_id]
    near = [name for name in RULES if rule_id and f"-{rule_id}" in f"-{name}"][:_NEAR]
    near = near or difflib.get_close_matches(rule_id, RULES, n=3, cutoff=0.5)
    fix = f"did you mean {', '.join(near)}?" if near else "trtspec rules lists them"
    raise UsageError(f"there is no rule {rule_id!r}", fix=fix)


class _ListFirst(click.Group):
    """Lists when no sub-command is named, so that `trtspec rules --level error` works."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if args and args[0] in known else ["list", *args])


@click.group(
    cls=_ListFirst,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("trtspec rules", "trtspec rules --subject pair --level error", "trtspec rules show tp-kv-heads"),
)
def command() -> None:
    """List the checks that trtspec makes, or explain one of them."""


@make_command(epilog=examples("trtspec rules", "trtspec rules --severity SILENT --output json"))
@click.option("--subject", type=click.Choice(SUBJECTS), help="What is checked.")
@click.option("--severity", type=click.Choice(tuple(SEVERITIES), case_sensitive=False), help="What it would lead to.")
@click.option("--level", type=click.Choice(LEVELS), help="error: refused; warning; note.")
def _list(sink: Sink, subject: str | None, severity: str | None, level: str | None) -> None:
    """List the rules: what each looks at, how bad it is, and what it is called."""
    wanted = {"subject": subject, "severity": severity.upper() if severity else None, "level": level}
    found = [item for item in all_rules() if all(getattr(item, key) == v for key, v in wanted.items() if v)]
    data = {"schema": SCHEMA, "rules": [item.to_json() for item in found]}
    sink.result(data, lambda console: _print_table(console, found), "\n".join(item.id for item in found))


@make_command(epilog=examples("trtspec rules show kv-cache-int8"))
@click.argument("rule_id", metavar="ID")
def _show(sink: Sink, rule_id: str) -> None:
    """Explain one rule: what happens when it is ignored, why, where it is known from, and what to do."""
    found = find_rule(rule_id)
    sink.result({"schema": SCHEMA, "rule": found.to_json()}, lambda console: show_rule(console, found), found.title)


command.add_command(_list, "list")
command.add_command(_show, "show")


def _print_table(console: Console, rules: Sequence[Rule]) -> None:
    width = max((len(item.id) for item in rules), default=0)
    for subject, group in groupby(rules, key=lambda item: item.subject):
        console.print(f"[bold]{subject}[/]")
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("id", no_wrap=True, min_width=width)
        table.add_column("severity", no_wrap=True)
        table.add_column("level", no_wrap=True, min_width=len("warning"))
        table.add_column("what it finds")
        for item in group:
            table.add_row(item.id, item.severity, f"[{STYLES[item.level]}]{item.level}[/]", escape(item.title))
        console.print(table)
    plural = "" if len(rules) == 1 else "s"
    console.print(f"{len(rules)} rule{plural}; `trtspec rules show ID` explains one")


def show_rule(console: Console, item: Rule) -> None:
    """Print one rule in full."""
    style = STYLES[item.level]
    console.print(f"[bold]{escape(item.id)}[/]: {escape(item.title)}")
    console.print(f"  about: {item.subject} · [{style}]{item.level}[/] · {item.severity}")
    rows = (
        ("ignored", SEVERITIES[item.severity]),
        ("why", item.explanation),
        ("fix", item.fix),
        ("example", item.example),
        ("source", item.source),
    )
    for name, text in rows:
        if text:
            say(console, 2, f"[bold]{name}:[/] {escape(text)}")
