"""What the page says in words and numbers: verdict, tiles, tables, warnings and provenance."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.reports.answers import PromptView, divergence_table, failure_table, prompt_views
from trtspec.reports.correlation import correlation_table
from trtspec.reports.data import ReportData
from trtspec.reports.drafters import drafter_note, drafter_table, told_by_drafter
from trtspec.reports.formats import Table, percent_text, plain, text_cell
from trtspec.reports.hero import Hero, build_hero
from trtspec.reports.load_charts import break_even, break_even_interval
from trtspec.reports.metric_table import MetricBlock, metric_blocks
from trtspec.reports.names import speedup_name
from trtspec.reports.run_facts import client_table, server_table, trust_table
from trtspec.reports.tiles import Tile, build_tiles, tile_level
from trtspec.reports.warning_places import Warnings, sort_warnings

__all__ = ["ProvenanceItem", "ReportView", "build_view"]
_ARMS = {"baseline": "target alone", "speculative": "draft and target"}
_POOLED = (
    "Times and rates are those of {level}; acceptance, errors and answers are of all levels. "
    "Every level is under All metrics."
)


@dataclass(frozen=True)
class ProvenanceItem:
    """One line of provenance; `block` is preformatted text."""

    label: str
    text: str
    block: bool = False

    @property
    def long(self) -> bool:
        """True for a block that is shown only when asked for."""
        return self.block and self.text.count("\n") > 8


@dataclass(frozen=True)
class ReportView:
    """Everything the template prints that is not a chart."""

    title: str
    subtitle: tuple[str, ...]
    hero: Hero
    legend: tuple[tuple[str, str], ...]
    pooled: str
    tiles: tuple[Tile, ...]
    warnings: Warnings
    acceptance_lead: str
    drafters: Table
    drafters_note: str
    break_even: str
    correlations: Table
    servers: Table
    client: Table
    trust: Table
    metrics: tuple[MetricBlock, ...]
    speedups: Table
    no_speedup: str
    equality: str
    divergences: Table
    failures: Table
    prompts: tuple[PromptView, ...]
    prompts_note: str
    provenance: tuple[ProvenanceItem, ...]


def build_view(data: ReportData) -> ReportView:
    """The view of a report; pure."""
    prompts, note = prompt_views(data)
    return ReportView(
        title=f"trtspec report: {data.name}",
        subtitle=_subtitle(data),
        hero=build_hero(data),
        legend=_legend(data),
        pooled=_pooled(data),
        tiles=build_tiles(data),
        warnings=sort_warnings(data.comparison),
        acceptance_lead=_acceptance_lead(data),
        drafters=drafter_table(data),
        drafters_note=drafter_note(told_by_drafter(data.acceptance)),
        break_even=break_even_text(data),
        correlations=correlation_table(data),
        servers=server_table(data),
        client=client_table(data),
        trust=trust_table(data),
        metrics=metric_blocks(data),
        speedups=_speedup_table(data),
        no_speedup="No prompt was answered by both arms, so there is no speed-up.",
        equality=equality_text(data.comparison),
        divergences=divergence_table(data),
        failures=failure_table(data),
        prompts=prompts,
        prompts_note=note,
        provenance=provenance_items(data.provenance),
    )


def _legend(data: ReportData) -> tuple[tuple[str, str], ...]:
    """What each arm is: the names that two compared servers were given, else what the arms of a spec are."""
    options = (data.provenance or {}).get("options")
    given = options.get("labels") if isinstance(options, Mapping) else None
    names = given if isinstance(given, Mapping) else {}
    return tuple((arm, str(names.get(arm) or usual)) for arm, usual in _ARMS.items())


def _pooled(data: ReportData) -> str:
    level = tile_level(data)
    return "" if level is None else _POOLED.format(level=level.label)


def _subtitle(data: ReportData) -> tuple[str, ...]:
    given = data.provenance or {}
    counts = f"{len(data.table):,} requests".replace(",", "\u202f")
    parts = [data.name, *_pair_names(given.get("spec")), counts, str(given.get("created") or "").replace("T", " ")]
    return tuple(part for part in parts if part)


def _pair_names(spec: Any) -> list[str]:
    """Target and draft by the names of their checkpoint folders, and whether drafts come from the text."""
    names = []
    for role in ("target", "draft"):
        section = spec.get(role) if isinstance(spec, Mapping) else None
        checkpoint = section.get("checkpoint") if isinstance(section, Mapping) else None
        if checkpoint:
            name = Path(str(checkpoint)).name
            names.append(name if role in name.lower().replace("_", "-").split("-") else f"{role} {name}")
        method = section.get("method") if isinstance(section, Mapping) and role == "draft" else None
        if method in _METHODS:
            names.append(_METHODS[method])
    return names


_METHODS = {"ngram": "draft: prompt lookup", "lookup": "prompt lookup first"}


def _acceptance_lead(data: ReportData) -> str:
    source = data.acceptance.get("source")
    if source == "server":
        return "Counted by the server for each request and pooled over tokens: what makes speculation fast or slow."
    reason = data.acceptance.get("reason") or "the server reports no counters"
    return f"Acceptance {'was derived' if source == 'derived' else 'is unknown'}: {plain(reason)}."


def break_even_text(data: ReportData) -> str:
    """The break-even concurrency in a sentence."""
    value = break_even(data)
    if value is not None:
        return f"Speculation stops paying at about {value:.3g} concurrent requests{_break_even_range(data)}."
    if sum(level.closed for level in data.levels) < 2:
        return "A break-even needs at least two concurrency levels."
    reason = data.comparison.get("break_even_reason")
    if reason:
        return f"No break-even: {reason}."
    return "The speed-up does not cross 1 between the measured concurrency levels."


def _break_even_range(data: ReportData) -> str:
    low, high = break_even_interval(data)
    if low is None and high is None:
        return ""
    if low is not None and high is not None:
        return f" (95 % interval {low:.3g} to {high:.3g})"
    end = f"above {low:.3g}" if low is not None else f"below {high:.3g}"
    return f" (95 % interval {end}; its other end lies outside what was measured)"


def _speedup_table(data: ReportData) -> Table:
    rows = []
    for name, row in data.comparison["speedup"].items():
        if isinstance(row, Mapping) and row.get("estimate") is not None:
            cells = (data.whole.speedup_cell(name, part) for part in ("estimate", "low", "high"))
            rows.append((text_cell(speedup_name(name)), *cells, text_cell(percent_text(row.get("confidence") or 0.95))))
    return Table(("Metric", "Speed-up", "Low", "High", "Confidence"), tuple(rows))


def equality_text(comparison: Mapping[str, Any]) -> str:
    """How many pairs gave the same answer, in a sentence, and what was found where they did not."""
    equality = comparison.get("equality") or {}
    same, apart = equality.get("identical"), equality.get("diverged")
    if same is None or apart is None or same + apart == 0:
        return "No prompt was answered by both arms, so answers cannot be compared."
    if apart == 0:
        return f"All {same} pairs gave the same text in both arms."
    found = Counter(str(place.get("verdict") or "not examined") for place in equality.get("first_divergence") or ())
    findings = ", ".join(f"{count} {verdict}" for verdict, count in found.items())
    return f"{same} of {same + apart} pairs gave the same text in both arms; {apart} differ ({findings})."


def provenance_items(provenance: Mapping[str, Any] | None) -> tuple[ProvenanceItem, ...]:
    """Provenance in the order of interest: command, versions, machine, then whatever else was written."""
    rest = dict(provenance or {})
    rest.pop("schema", None)
    options = rest.get("options")
    if isinstance(options, Mapping) and "seed" in options:
        rest.setdefault("seed", options["seed"])
    items = []
    argv = rest.pop("argv", None)
    if argv:
        items.append(ProvenanceItem("command", shlex.join(map(str, argv)), block=True))
    simple = [key for key in ("created", "seed", "trtspec", "python", "platform") if rest.get(key) is not None]
    items += [ProvenanceItem(key, str(rest.pop(key))) for key in simple]
    packages = rest.pop("packages", None)
    if isinstance(packages, Mapping):
        text = ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())
        items.append(ProvenanceItem("packages", text))
    items += [_other(key, value) for key, value in rest.items() if value not in (None, "", [], {})]
    return tuple(items)


def _other(key: str, value: Any) -> ProvenanceItem:
    label = key.replace("_", " ")
    if isinstance(value, (Mapping, list)):
        return ProvenanceItem(label, _yaml_like(value), block=True)
    return ProvenanceItem(label, str(value))


def _yaml_like(value: Mapping[str, Any] | Sequence[Any]) -> str:
    import yaml

    try:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)).rstrip()
    except yaml.YAMLError:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
