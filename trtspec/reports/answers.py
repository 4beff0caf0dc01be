"""What the arms answered: prompts with both texts, where they part, and which requests failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, number_text, percent_text, ratio_text, text_cell
from trtspec.reports.rows import failures

if TYPE_CHECKING:
    from trtspec.loadtest.records import Record

__all__ = ["Answer", "PromptView", "divergence_table", "failure_table", "prompt_views"]


@dataclass(frozen=True)
class Answer:
    """One text: what it shares with the other arm's, and the rest."""

    title: str
    common: str
    rest: str = ""


@dataclass(frozen=True)
class PromptView:
    """A prompt with its requests at every load and the answers to it."""

    id: str
    category: str
    text: str
    counts: str
    speedup: str
    state: str
    same: bool
    levels: Table
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class _Sides:
    """The two arms' requests of one prompt at one load; either may be missing."""

    load: str
    baseline: Record | None
    speculative: Record | None

    @property
    def whole(self) -> tuple[Record, Record] | None:
        """Both, when both answered."""
        if self.baseline is None or self.speculative is None or not (self.baseline.ok and self.speculative.ok):
            return None
        return self.baseline, self.speculative

    @property
    def identical(self) -> bool | None:
        """Whether both arms gave the same text, None unless both answered."""
        both = self.whole
        return None if both is None else both[0].text == both[1].text

    @property
    def present(self) -> list[Record]:
        """The requests that were sent."""
        return [record for record in (self.baseline, self.speculative) if record is not None]


def prompt_views(data: ReportData) -> tuple[tuple[PromptView, ...], str]:
    """The prompts in order of their names, and a note when there are more than the page shows."""
    order = {level.label: place for place, level in enumerate(data.levels)}
    members: dict[str, list[Record]] = defaultdict(list)
    for record in data.shown:
        members[record.prompt_id].append(record)
    texts = prompt_texts(data.provenance)
    views = tuple(_prompt(members[name], texts.get(name, ""), order) for name in sorted(members))
    left = _prompts(data) - len(views)
    if not left:
        return views, ""
    note = f"{left} more prompts are in requests.jsonl only; this page shows {len(views)}"
    return views, f"{note}, those first whose answers differ."


def _prompts(data: ReportData) -> int:
    import numpy as np

    return len(np.unique(data.table.prompt[data.table.excluded < 0]))


def prompt_texts(provenance: Mapping[str, Any] | None) -> dict[str, str]:
    """Prompt id → its text for runs over the package's own prompts; empty when they came from elsewhere or changed."""
    from trtspec.loadtest.prompts import BUILTIN, BUILTIN_60, RANDOM, load_prompts

    given = provenance or {}
    told = given.get("prompts")
    if not isinstance(told, Mapping) or told.get("source") not in {BUILTIN, BUILTIN_60, RANDOM}:
        return {}
    options = given.get("options")
    seed = options.get("seed", 1) if isinstance(options, Mapping) else 1
    prompts = load_prompts(str(told["source"]), seed=seed)
    return {prompt.id: prompt.text for prompt in prompts.prompts} if prompts.sha256 == told.get("sha256") else {}


def _prompt(records: Sequence[Record], text: str, order: Mapping[str, int]) -> PromptView:
    sides = sorted(_sides(records), key=lambda side: order.get(side.load, len(order)))
    verdicts = [side.identical for side in sides]
    same = all(verdict is not False for verdict in verdicts)
    state = "different" if not same else "identical"
    if all(verdict is None for verdict in verdicts):
        state = "not comparable"
    return PromptView(
        id=records[0].prompt_id, category=records[0].category, text=text, counts=_counts(records),
        speedup=_speedups(sides), state=state, same=same, levels=_levels(sides), answers=_answers(sides),
    )  # fmt: skip


def _sides(records: Sequence[Record]) -> list[_Sides]:
    """As in `trtspec.loadtest.pairing`: the first sending in one arm with the first in the other."""
    times: Counter[tuple[str, str, str]] = Counter()
    found: dict[tuple[str, str, int], dict[str, Record]] = defaultdict(dict)
    for record in sorted(records, key=lambda record: record.start_ns):
        key = record.pair_id or record.prompt_id
        times[record.arm, record.load, key] += 1
        found[record.load, key, times[record.arm, record.load, key]][record.arm] = record
    return [_Sides(load, arms.get("baseline"), arms.get("speculative")) for (load, _, _), arms in found.items()]


def _counts(records: Sequence[Record]) -> str:
    counters = [record.server for record in records if record.arm == "speculative" and record.server is not None]
    drafted = sum(counter.num_draft_tokens or 0 for counter in counters)
    accepted = sum(counter.num_accepted_tokens or 0 for counter in counters if counter.num_draft_tokens)
    return f"{accepted} of {drafted} drafted accepted ({percent_text(accepted / drafted)})" if drafted else ""


def _speedups(sides: Sequence[_Sides]) -> str:
    """Ratio of the summed latencies of pairs that both arms answered."""
    both = [side.whole for side in sides if side.whole is not None]
    baseline = sum(_latency(one) or 0 for one, _ in both)
    speculative = sum(_latency(other) or 0 for _, other in both)
    return ratio_text(baseline / speculative) if speculative else ""


def _latency(record: Record) -> float | None:
    line = record.timeline
    return None if line is None else (line.last_ns - line.origin_ns) / 1e9


def _first(record: Record) -> float | None:
    line = record.timeline
    return None if line is None else (line.first_ns - line.origin_ns) / 1e9


def _levels(sides: Sequence[_Sides]) -> Table:
    rows = ((text_cell(record.load), text_cell(record.arm), *_cells(record)) for s in sides for record in s.present)
    columns = ("Load", "Arm", "Status", "TTFT, ms", "Latency, ms", "Tokens", "Rounds", "Accepted", "Drafted")
    return Table(columns, tuple(rows), frozenset({1, 2}))


def _cells(record: Record) -> tuple[Cell, ...]:
    from trtspec.loadtest.timeline import output_tokens

    times = [_first(record), _latency(record)] if record.ok else [None, None]
    shown = [Cell("–", reason="no complete answer") if t is None else text_cell(number_text(1000 * t)) for t in times]
    tokens = output_tokens(record)
    counted = Cell("–", reason="the server sent no count") if tokens is None else text_cell(tokens)
    return (text_cell(_status(record)), *shown, counted, *_rounds(record))


def _rounds(record: Record) -> list[Cell]:
    """Rounds, accepted and drafted tokens."""
    if record.arm != "speculative":
        return [Cell("–", reason="the baseline drafts nothing")] * 3
    server = record.server
    counts = (
        server and server.num_spec_steps,
        server and server.num_accepted_tokens,
        server and server.num_draft_tokens,
    )
    return [Cell("–", reason="the server sent no counters") if c is None else text_cell(c) for c in counts]


def _status(record: Record) -> str:
    if record.failed:
        return f"failed: {record.error}" if record.error else "failed"
    return f"cancelled: {record.cancel_reason}" if record.cancelled else "ok"


def _answers(sides: Sequence[_Sides]) -> tuple[Answer, ...]:
    """Each distinct outcome once: one text where both arms agree, two side by side where they differ."""
    outcomes: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for side in sides:
        outcomes[_text(side.baseline), _text(side.speculative)].append(side.load)
    answers: list[Answer] = []
    for (baseline, speculative), loads in outcomes.items():
        at = f" · {', '.join(dict.fromkeys(loads))}" if len(outcomes) > 1 else ""
        answers += _outcome(baseline, speculative, at)
    return tuple(answers)


def _text(record: Record | None) -> str | None:
    return None if record is None or not record.ok else record.text


def _outcome(baseline: str | None, speculative: str | None, at: str) -> list[Answer]:
    if baseline is not None and baseline == speculative:
        return [Answer(f"both arms{at}", baseline)]
    from trtspec.loadtest.equality import common_prefix

    shared = common_prefix(baseline, speculative) if baseline is not None and speculative is not None else None
    sides = (("baseline", baseline), ("speculative", speculative))
    return [_side(f"{arm}{at}", text, shared) for arm, text in sides]


def _side(title: str, text: str | None, shared: int | None) -> Answer:
    if text is None:
        return Answer(f"{title}: no complete answer", "")
    return Answer(title, text) if shared is None else Answer(title, text[:shared], text[shared:])


def divergence_table(data: ReportData) -> Table:
    """First difference of each pair whose answers differ, with the gap of the two best logits where it is known."""
    places = (data.comparison.get("equality") or {}).get("first_divergence") or ()
    levels: dict[tuple[Cell, ...], list[str]] = defaultdict(list)
    for place in places:
        levels[_divergence(place)].append(str(place.get("load") or f"concurrency {place.get('concurrency', '')}"))
    rows = tuple((row[0], text_cell(", ".join(dict.fromkeys(found))), *row[1:]) for row, found in levels.items())
    columns = ("Prompt", "Load", "At token", "Baseline goes on", "Speculation goes on", "Logit gap", "Finding")
    return Table(columns, rows, frozenset({1, 3, 4, 6}))


def _divergence(place: Mapping[str, Any]) -> tuple[Cell, ...]:
    token = place.get("token_index")
    at = Cell("–", reason="chunks carry no token counts") if token is None else text_cell(token)
    texts = (text_cell(_visible(place.get(f"{arm}_text"))) for arm in ("baseline", "speculative"))
    finding = text_cell(place.get("verdict") or "not examined")
    return (text_cell(place.get("prompt_id", "")), at, *texts, _gap(place), finding)


def _visible(text: Any) -> str:
    return f"“{text}”" if text else "(ends here)"


def _gap(place: Mapping[str, Any]) -> Cell:
    gap = place.get("logit_gap")
    if gap is None:
        return Cell("–", reason=str(place.get("reason") or "the logits at this place were not recorded"))
    return text_cell(f"{gap:.3g}")


def failure_table(data: ReportData) -> Table:
    """How often each error ended a request, by arm and load."""
    rows = tuple(tuple(map(text_cell, row)) for row in failures(data.table))
    return Table(("Arm", "Load", "Error", "Requests"), rows, frozenset({1, 2}))
