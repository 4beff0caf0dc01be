"""What metrics are called in a report, how each is computed, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Definition", "definitions", "metric_formula", "metric_name", "speedup_name"]


@dataclass(frozen=True)
class Definition:
    """One entry of the definitions: what a number means and how it is computed."""

    name: str
    text: str
    formula: str


_NAMES = {
    "time_to_first_token": "Time to first token",
    "time_per_output_token": "Time per output token",
    "latency_per_token": "Latency per token",
    "request_latency": "Request latency",
    "inter_chunk_latency": "Gap between chunks",
    "tokens_per_chunk": "Tokens per chunk",
    "max_stall": "Longest stall",
    "output_tokens_per_second": "Output tokens per second, per user",
    "requests_per_second": "Requests per second",
    "goodput": "Goodput",
}
# summary.json carries the formulas of the metrics of single requests
_FORMULAS = {
    "requests_per_second": "requests / time under load",
    "goodput": "requests within every objective / time under load",
}

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "Speed-up",
        "How many times faster the speculative arm is than the baseline on the same prompts; above 1 it is faster.",
        "(baseline's time / its work) / (speculative arm's time / its work), sums over pairs",
    ),
    Definition(
        "Interval",
        "Where the speed-up would lie if other prompts of the same kind had been asked, judged by how much pairs "
        "differ (above concurrency 1: blocks of requests that ran together).",
        "speed-up × exp(± t × s): s from the delete-one jackknife of the logarithm, t Student's, 95 %",
    ),
    Definition(
        "Acceptance rate",
        "Share of the drafted tokens that the target accepted, pooled over all tokens, without the token that the "
        "target itself adds to each round.",
        "accepted / drafted",
    ),
    Definition(
        "Mean acceptance length",
        "Tokens that one round (one draft, one pass of the target) yields, the target's own token included.",
        "1 + accepted / rounds",
    ),
    Definition("Time to first token (TTFT)", "Until the first text that is not empty.", "c1 - t0"),
    Definition(
        "Time per output token (TPOT)",
        "Pace after the first text, whose tokens do not count: a speculative first chunk carries several.",
        "(cm - c1) / (k2 + … + km)",
    ),
    Definition("Request latency", "Until the last text; the closing message after it does not count.", "cm - t0"),
    Definition(
        "Latency per token",
        "Request latency divided by the answer's tokens, so that answers of different length compare.",
        "(cm - t0) / (k1 + … + km)",
    ),
    Definition(
        "Gap between chunks, tokens per chunk",
        "Under speculation a chunk carries several tokens, so gaps are longer and fewer: a gap is no token's time.",
        "c[i] - c[i-1] and k[i]",
    ),
    Definition(
        "Output tokens per second",
        "For one user, waiting included; for all users together, over the time in which the arm was under load.",
        "(k1 + … + km) / (cm - t0), and tokens / time under load",
    ),
    Definition(
        "Identical answers",
        "At temperature 0 both arms must give the same text. Where they do not, the first difference is listed; a "
        "small gap between the target's two best logits means a near-tie that rounding decides.",
        "baseline's text = speculative arm's text",
    ),
    Definition(
        "Goodput, capacity",
        "Requests within every service level, per second and as a share; the capacity is the largest load up to which "
        "enough of them are.",
        "requests within every level / time under load",
    ),
    Definition(
        "Answers with a pause",
        "Share of answers in which a reader at a steady speed has read everything and waits for the next text.",
        "requests whose reader waits / requests",
    ),
    Definition(
        "Cost per million tokens",
        "The GPUs that an arm takes, the draft's own included, for the time in which it produces a million tokens.",
        "GPUs × price per hour × 10⁶ / (3600 × output tokens per second)",
    ),
    Definition(
        "Noise floor, smallest detectable effect",
        "The difference that the same server shows against itself in 1 of 20 runs, and the true effect that a run like "
        "this one would find in 9 of 10.",
        "exp(t × standard error of the speed-up's logarithm) - 1",
    ),
    Definition(
        "Break-even concurrency",
        "The number of concurrent requests from which speculation no longer pays: verifying drafts costs work that a "
        "busy machine would rather spend on other requests.",
        "where the speed-up crosses 1, between two measured levels",
    ),
)


def metric_name(key: str) -> str:
    """The metric's name for people; an unknown key with its underscores as spaces."""
    return _NAMES.get(key) or key.replace("_", " ").capitalize()


def speedup_name(key: str) -> str:
    """What a speed-up is of: that of the output tokens compares all concurrent requests together."""
    return "Output tokens per second, all users" if key == "output_tokens_per_second" else metric_name(key)


def metric_formula(key: str) -> str:
    """The formula of a metric that summary.json has none for, empty when none is known."""
    return _FORMULAS.get(key, "")


def definitions() -> tuple[Definition, ...]:
    """What the numbers of a report mean, in the order in which they appear."""
    return DEFINITIONS
