"""`trtspec rules`: the checks that exist, and one of them in full."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trtspec.building.inspection import engine_rules
from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.findings import STYLES
from trtspec.cli.output import Sink
from trtspec.errors import UsageError
from trtspec.planning import plan_rules
from trtspec.rules import RULES, Rule
from trtspec.rules.check import RULE_MODULES
from trtspec.rules.registry import LEVELS, SEVERITIES, SUBJECTS

__all__ = ["MODULES", "all_rules", "command", "find_rule", "show_rule"]

SCHEMA = 1
# importing them filled the registry
MODULES = (*RULE_MODULES, engine_rules, plan_rules)


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the product: about pairs, plans, engines and repositories, in the order of the registry."""
    return tuple(sorted(RULES.values(), key=lambda item: SUBJECTS.index(item.subject)))


def find_rule(rule_id: str) -> Rule:
    """The rule called `rule_id`; UsageError with the nearest names."""
    if rule_id in RULES:
        return RULES[rule_id]
    near = difflib.get_close_matches(rule_id, RULES, n=3, cutoff=0.5)
    fix = f"did you mean {' or '.join(near)}?" if near else "trtspec rules lists them"
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
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", no_wrap=True)
    for name in ("subject", "severity", "level"):
        table.add_column(name)
    table.add_column("what it finds", overflow="fold")
    for item in rules:
        style = STYLES[item.level]
        table.add_row(item.id, item.subject, item.severity, f"[{style}]{item.level}[/]", escape(item.title))
    console.print(table)
    console.print(f"{len(rules)} rules; `trtspec rules show ID` explains one")


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
            console.print(f"  [bold]{name}:[/] {escape(text)}")
