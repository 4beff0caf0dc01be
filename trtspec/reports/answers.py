"""What the arms answered: every prompt with both texts, where they part, and which requests failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtspec.reports.data import Pair, ReportData, Request
from trtspec.reports.formats import Cell, Table, number_text, percent_text, ratio_text, text_cell

__all__ = ["SHOWN_PROMPTS", "Answer", "PromptView", "divergence_table", "failure_table", "prompt_views"]

# a page with more stays slow to open; the raw file has all
SHOWN_PROMPTS = 1000


@dataclass(frozen=True)
class Answer:
    """One text: what it shares with the other arm's, and the rest."""

    title: str
    common: str
    rest: str = ""


@dataclass(frozen=True)
class PromptView:
    """A prompt with its requests at every concurrency and the answers to it."""

    id: str
    category: str
    text: str
    counts: str
    speedup: str
    state: str
    same: bool
    levels: Table
    answers: tuple[Answer, ...]


def prompt_views(data: ReportData) -> tuple[tuple[PromptView, ...], str]:
    """The prompts in order of their names, and a note when there are too many to show."""
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for pair in data.pairs:
        pairs[pair.prompt_id].append(pair)
    names = sorted(pairs)
    texts = prompt_texts(data.provenance)
    views = tuple(_prompt(name, pairs[name], texts.get(name, "")) for name in names[:SHOWN_PROMPTS])
    left = len(names) - len(views)
    return views, f"{left} more prompts are in requests.jsonl only; this page shows {SHOWN_PROMPTS}." if left else ""


def prompt_texts(provenance: Mapping[str, Any] | None) -> dict[str, str]:
    """Prompt id → its text for runs over the package's own prompts; empty when they came from elsewhere or changed."""
    from trtspec.loadtest.prompts import BUILTIN, RANDOM, load_prompts

    given = provenance or {}
    told = given.get("prompts")
    if not isinstance(told, Mapping) or told.get("source") not in {BUILTIN, RANDOM}:
        return {}
    options = given.get("options")
    seed = options.get("seed", 1) if isinstance(options, Mapping) else 1
    prompts = load_prompts(str(told["source"]), seed=seed)
    return {prompt.id: prompt.text for prompt in prompts.prompts} if prompts.sha256 == told.get("sha256") else {}


def _prompt(name: str, pairs: Sequence[Pair], text: str) -> PromptView:
    ordered = sorted(pairs, key=lambda pair: pair.concurrency)
    verdicts = [pair.identical for pair in ordered]
    same = all(verdict is not False for verdict in verdicts)
    incomplete = sum(verdict is None for verdict in verdicts)
    state = "different" if not same else "identical"
    if incomplete == len(ordered):
        state = "not comparable"
    return PromptView(
        id=name, category=ordered[0].category, text=text, counts=_counts(ordered), speedup=_speedups(ordered),
        state=state, same=same, levels=_levels(ordered), answers=_answers(ordered),
    )  # fmt: skip


def _counts(pairs: Sequence[Pair]) -> str:
    rows = [pair.speculative for pair in pairs if pair.speculative is not None and pair.speculative.drafted]
    drafted = sum(row.drafted or 0 for row in rows)
    accepted = sum(row.accepted or 0 for row in rows)
    return f"{accepted} of {drafted} drafted accepted ({percent_text(accepted / drafted)})" if drafted else ""


def _speedups(pairs: Sequence[Pair]) -> str:
    known = [pair for pair in pairs if pair.speedup is not None]
    baseline = sum(pair.baseline.latency or 0 for pair in known if pair.baseline)
    speculative = sum(pair.speculative.latency or 0 for pair in known if pair.speculative)
    return ratio_text(baseline / speculative) if speculative else ""


def _levels(pairs: Sequence[Pair]) -> Table:
    requests = [row for pair in pairs for row in (pair.baseline, pair.speculative) if row is not None]
    rows = ((text_cell(row.concurrency), text_cell(row.arm), *_request_cells(row)) for row in requests)
    columns = ("Concurrency", "Arm", "Status", "TTFT, ms", "Latency, ms", "Tokens", "Rounds", "Accepted", "Drafted")
    return Table(columns, tuple(rows), frozenset({1, 2}))


def _request_cells(row: Request) -> tuple[Cell, ...]:
    times = [row.times["time_to_first_token"], row.latency] if row.error is None else [None, None]
    shown = [Cell("–", reason="no complete answer") if t is None else text_cell(number_text(1000 * t)) for t in times]
    speculative = row.arm == "speculative"
    reason = "the server sent no counters" if speculative else "the baseline drafts nothing"
    counts = [row.rounds, row.drafted, row.accepted] if speculative else [None] * 3
    dashes = [Cell("–", reason=reason) if c is None else text_cell(c) for c in (counts[0], counts[2], counts[1])]
    tokens = Cell("–", reason="the server sent no count") if row.output_tokens is None else text_cell(row.output_tokens)
    status = row.status if row.error is None else f"{row.status}: {row.error}"
    return (text_cell(status), *shown, tokens, *dashes)


def _answers(pairs: Sequence[Pair]) -> tuple[Answer, ...]:
    """Each distinct outcome once: one text where both arms agree, two side by side where they differ."""
    outcomes: dict[tuple[str | None, str | None], list[int]] = defaultdict(list)
    for pair in pairs:
        outcomes[_text(pair.baseline), _text(pair.speculative)].append(pair.concurrency)
    answers: list[Answer] = []
    for (baseline, speculative), levels in outcomes.items():
        at = f"concurrency {', '.join(map(str, sorted(set(levels))))}" if len(outcomes) > 1 else ""
        answers += _outcome(baseline, speculative, f" · {at}" if at else "")
    return tuple(answers)


def _text(row: Request | None) -> str | None:
    return None if row is None or not row.ok else row.text


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
        levels[_divergence(place)].append(str(place.get("concurrency", "")))
    rows = tuple((row[0], text_cell(", ".join(dict.fromkeys(found))), *row[1:]) for row, found in levels.items())
    columns = ("Prompt", "Concurrency", "At token", "Baseline goes on", "Speculation goes on", "Logit gap", "Finding")
    return Table(columns, rows, frozenset({3, 4, 6}))


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
    """Requests that failed, counted by arm, concurrency and error."""
    failed = (request for request in data.requests if request.status in {"failed", "cancelled"})
    tally = Counter((row.arm, row.concurrency, row.error or "cancelled") for row in failed)
    rows = tuple(
        (text_cell(error), text_cell(arm), text_cell(level), text_cell(count))
        for (arm, level, error), count in sorted(tally.items())
    )
    return Table(("Error", "Arm", "Concurrency", "Requests"), rows, frozenset({1}))
