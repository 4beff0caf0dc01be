"""Every figure of a run in one place: unit, formula, and which requests it is made of. The documents are generated."""

from __future__ import annotations

from dataclasses import dataclass

from trtspec.loadtest.distribution import HIGH_TAIL, MINIMUM
from trtspec.loadtest.metrics import METRICS, Metric
from trtspec.loadtest.underrun import READING_SPEED

__all__ = ["FIGURES", "Figure", "figures_document", "formulas"]


@dataclass(frozen=True)
class Figure:
    """A figure's place in the summary, unit, formula, meaning, and sample."""

    name: str
    unit: str
    formula: str
    meaning: str
    sample: str


_MEASURED = "measured requests: inside the window, whole answer"
_COUNTED = "requests inside the window, cancelled ones left out"
_WITH_COUNTERS = "measured requests of the speculative arm whose server counted rounds"


def _of(metric: Metric) -> Figure:
    return Figure(metric.name, metric.unit, metric.formula, metric.meaning, f"one value a {metric.per}")


_ARM = (
    Figure("requests.ok", "requests", "count", "Requests that latencies are made of.", _MEASURED),
    Figure("requests.failed", "requests", "count", "An error, a timeout, or an answer without any text.", _COUNTED),
    Figure(
        "requests.excluded",
        "requests",
        "all - ok - failed",
        "Warm-up, fill, start burst, and what the load test itself cancelled or disconnected.",
        "all requests",
    ),
    Figure("error_rate", "share", "failed / (failed + ok)", "Stands beside every headline.", _COUNTED),
    Figure(
        "active_seconds",
        "s",
        "length of the union of [sent, last text] over measured and [sent, end] over failed requests; in an open loop "
        "of [first t0, last end] over blocks",
        "The time in which the arm was under load; the other arm's turns are left out.",
        _COUNTED,
    ),
)
_RATES = (
    Figure(
        "output_tokens_per_second.total",
        "tokens/s",
        "tokens that arrived in the active time / active time",
        "All users together.",
        "measured requests, and those outside the window that kept the load up",
    ),
    Figure("requests_per_second", "requests/s", "ok / active time", "Finished requests.", _MEASURED),
    Figure(
        "goodput",
        "requests/s",
        "requests that met every service level / active time",
        "Service levels: ttft, tpot, e2e, stall (seconds). An answer in one piece meets tpot and stall.",
        _MEASURED,
    ),
    Figure(
        "goodput.met.share",
        "share",
        "requests that met every service level / (ok + failed)",
        "With its 95 % Wilson interval (low, high). A failed request met nothing.",
        _COUNTED,
    ),
    Figure(
        "underruns.share",
        "share",
        "requests with Σ w[i] > 0 / requests",
        f"Requests whose reader had to wait at all, at a reading speed v ({READING_SPEED:g} tokens/s unless given); "
        "w[i] as for underrun_share. With its 95 % Wilson interval.",
        "measured requests in more than one text with token counts",
    ),
)
_ACCEPTANCE = (
    Figure("acceptance.acceptance_rate", "share", "accepted / drafted", "Pooled over tokens.", _WITH_COUNTERS),
    Figure(
        "acceptance.mean_acceptance_length",
        "tokens/round",
        "1 + accepted / rounds",
        "The 1 is the token that the target adds itself. Source `derived`: tokens / growth of the target's requests.",
        _WITH_COUNTERS,
    ),
    Figure(
        "acceptance.per_position",
        "share",
        "rounds that accepted more than k tokens / rounds",
        "Of the token drafted at position 1, 2, …",
        _WITH_COUNTERS,
    ),
    Figure(
        "acceptance.by_drafter",
        "counts and shares",
        "those of the rounds whose draft was found in the text, and the others",
        "`text` and `model`: rounds, drafted and accepted tokens of each. Only where drafts are looked up in the text.",
        _WITH_COUNTERS,
    ),
    Figure(
        "acceptance.by_drafter.*.output_share",
        "share",
        "accepted / output tokens",
        "What is left of 1 the target chose itself.",
        _WITH_COUNTERS,
    ),
)
_PAIRS = "pairs: the same prompt answered by both arms at the same load level"
_COMPARISON = (
    Figure(
        "comparison.speedup",
        "times",
        "(Σ baseline time / Σ baseline work) / (Σ speculative time / Σ speculative work)",
        "Above 1 speculation is faster. Work is tokens for latency_per_token, time_per_output_token and "
        "output_tokens_per_second, requests for request_latency and time_to_first_token.",
        _PAIRS,
    ),
    Figure(
        "comparison.equality.identical",
        "pairs",
        "count",
        "Both arms wrote the same text, character by character.",
        _PAIRS,
    ),
    Figure(
        "comparison.break_even_concurrency",
        "requests in flight",
        "where the speed-up is 1, linear in log2(concurrency) and log(speed-up) between two measured levels",
        "With `break_even_interval`.",
        "closed loops at two levels or more",
    ),
    Figure(
        "comparison.detectable_effect",
        "share",
        "the smallest difference that 9 of 10 runs like this one would find",
        "From the scatter of the headline's speed-up.",
        _PAIRS,
    ),
    Figure(
        "comparison.noise_floor",
        "share",
        "the difference that noise alone makes in 1 of 20 runs",
        "From an A/A run where there is one, else from this run's scatter.",
        _PAIRS,
    ),
    Figure(
        "comparison.correlation",
        "rank correlation",
        "Spearman's rho of acceptance per request and the other quantity, ranked within each level",
        "With its 95 % interval.",
        "pairs in which both are known, at most 20 000",
    ),
    Figure(
        "comparison.predicted",
        "times",
        "tokens per round / cost of a round in baseline steps",
        "`gap` is measured / predicted - 1.",
        "pairs with tokens counted per chunk",
    ),
    Figure(
        "comparison.capacity",
        "requests/s",
        "rate at the largest load up to which the wanted share of requests met every service level",
        "`ratio` is the speculative arm's over the baseline's.",
        "load levels of one kind",
    ),
    Figure(
        "comparison.cost",
        "price per million output tokens",
        "price of a GPU hour x GPUs / (tokens/s x 3600) x 10^6",
        "The draft's GPUs are among the speculative arm's.",
        "closed loops",
    ),
    Figure(
        "comparison.steady_state",
        "s",
        "requests after the first ones whose latency per token still differs from the rest",
        "`halves` is the second half's latency per token over the first half's.",
        "each arm and level",
    ),
    Figure(
        "comparison.client_bound",
        "s",
        "error > 10 % of max(difference of the arms' mean latencies, 5 % of the baseline's)",
        "The error is the larger median of the load generator's loop lag and send lag.",
        "each level",
    ),
)
_SERVER = (
    Figure(
        "server.first_token.queue",
        "s",
        "first scheduled - arrival",
        "By the server's own clock.",
        "measured requests with the server's stamps",
    ),
    Figure(
        "server.first_token.prefill",
        "s",
        "first token - first scheduled",
        "By the server's own clock.",
        "measured requests with the server's stamps",
    ),
    Figure(
        "server.first_token.client_and_network",
        "s",
        "(c1 - t0) - (server's first token - arrival)",
        "What is left of the time to first token outside the server; it also checks the client.",
        "measured requests with the server's stamps",
    ),
)
FIGURES = (*_ARM, *map(_of, METRICS), *_RATES, *_ACCEPTANCE, *_COMPARISON, *_SERVER)


def formulas() -> dict[str, str]:
    """Metric name → formula, as a summary carries them."""
    return {metric.name: metric.formula for metric in METRICS}


def figures_document() -> str:
    """Markdown: notation, sample rules and the table of all figures."""
    rows = [
        f"| `{figure.name}` | {figure.unit} | {_cell(figure.formula)} | {_cell(figure.meaning)} | {figure.sample} |"
        for figure in FIGURES
    ]
    return "\n".join([_HEAD, *rows, "", _percentile_rules(), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD = """# The figures of a run

Generated from the code by `scripts/make-docs`; a test fails when it is stale. The form of `summary.json` is
[summary.schema.json](summary.schema.json).

A request should have been sent at `t0` (its scheduled time in an open loop, however late it was really sent). Visible
text arrived at `c1 … cm` with `k1 … km` tokens. Chunks without text are no arrivals; tokens held back count with the
text that follows. Tokens are the server's counts; where it counts none, the tokenizer's count of the whole text and of
the first text. What cannot be measured is `null` with a `reason`, never 0.

| figure | unit | formula | meaning | sample |
|---|---|---|---|---|"""


def _percentile_rules() -> str:
    high = ", ".join(f"p{rank} from {MINIMUM[rank]}" for rank in HIGH_TAIL)
    low = ", ".join(f"p{100 - rank} from {MINIMUM[100 - rank]}" for rank in HIGH_TAIL)
    return f"""## Percentiles

A percentile is given only where the sample carries it, so that at least one value lies beyond: {high}. Of rates, where
higher is better, the tail is the low one: {low}; the best one per cent would flatter. Percentiles are linear between
neighbours (numpy's default).

## The same bytes everywhere

A summary is computed from `requests.jsonl` and the files beside it alone. No sum depends on the order of adding (times
are added as whole nanoseconds), and every fraction is written with 9 significant digits, so another machine writes the
same bytes."""
