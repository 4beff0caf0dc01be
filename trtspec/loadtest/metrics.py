"""The metrics of one arm: each a pure function of a sample of requests with its formula.

Notation: a request should have been sent at `t0`; visible text arrived at `c1 … cm` with `k1 … km` tokens. Requests
that failed, were cancelled or lie outside the window are left out by the caller. Times are whole nanoseconds until the
last step, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trtspec.loadtest.distribution import describe
from trtspec.loadtest.sample import Sample
from trtspec.loadtest.underrun import underrun_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["METRICS", "Metric", "metric_rows"]

_NS = 1e-9


def time_to_first_token(sample: Sample) -> NDArray[Any]:
    """Time until the first text that is not empty. **Formula:** c1 - t0."""
    return sample.ttft_ns


def time_per_output_token(sample: Sample) -> NDArray[Any]:
    """Time per token after the first text. **Formula:** (cm - c1) / (k2 + … + km).

    The first text's tokens are left out of the divisor, however many they are: dividing by n - 1 makes a stream whose
    first chunk holds several tokens look faster than it is. No value when all tokens came with the first text.
    """
    after = sample.column("tokens_after_first")
    counted = after > 0
    values: NDArray[Any] = sample.streamed_ns[counted] / after[counted]
    return values


def inter_chunk_latency(sample: Sample) -> NDArray[Any]:
    """Time between neighbouring texts, one value a gap. **Formula:** c[i] - c[i-1].

    Not a time per token: with speculation a chunk holds a whole round.
    """
    return sample.gaps


def tokens_per_chunk(sample: Sample) -> NDArray[Any]:
    """Tokens that arrived together, one value a text. **Formula:** k[i]."""
    return sample.tokens[sample.tokens >= 0]


def max_stall(sample: Sample) -> NDArray[Any]:
    """Longest wait between two texts of a request. **Formula:** max(c[i] - c[i-1])."""
    stalls = sample.column("max_stall_ns")
    values: NDArray[Any] = stalls[stalls >= 0]
    return values


def request_latency(sample: Sample) -> NDArray[Any]:
    """Time until the last text; the closing message after it does not count. **Formula:** cm - t0."""
    return sample.latency_ns


def output_tokens_per_second(sample: Sample) -> NDArray[Any]:
    """Tokens per time that one user sees, waiting included. **Formula:** (k1 + … + km) / (cm - t0)."""
    elapsed, tokens = request_latency(sample), sample.column("tokens")
    counted = (tokens > 0) & (elapsed > 0)
    values: NDArray[Any] = tokens[counted] / elapsed[counted]
    return values


@dataclass(frozen=True)
class Metric:
    """A metric's name, values, unit, direction, sample rule, and why it may be absent.

    `values` times `scale` are in `unit`. `per` says what one value belongs to.
    """

    name: str
    values: Callable[[Sample], NDArray[Any]]
    unit: str
    absent: str
    scale: float = _NS
    higher_is_better: bool = False
    streaming: bool = False
    per: str = "request"

    @property
    def formula(self) -> str:
        """The formula in the function's docstring."""
        return (self.values.__doc__ or "").partition("**Formula:** ")[2].partition("\n")[0].rstrip(".")

    @property
    def meaning(self) -> str:
        """The docstring's sentence before the formula."""
        return (self.values.__doc__ or "").partition(" **Formula:**")[0]

    def row(self, sample: Sample) -> dict[str, Any]:
        """The distribution of the metric over a sample."""
        return describe(
            self.values(sample),
            self.unit,
            scale=self.scale,
            higher_is_better=self.higher_is_better,
            absent=self.absent,
        )


_NO_TEXT = "no request produced text"
_COUNTS = "the server reports no token counts per chunk, or every answer came in one chunk"
_ONE_CHUNK = "no answer came in more than one chunk"
_NO_COUNTS = "the server reports no token counts"

METRICS = (
    Metric("time_to_first_token", time_to_first_token, "s", _NO_TEXT, streaming=True),
    Metric("time_per_output_token", time_per_output_token, "s", _COUNTS, streaming=True),
    Metric("inter_chunk_latency", inter_chunk_latency, "s", _ONE_CHUNK, streaming=True, per="gap between two texts"),
    Metric("tokens_per_chunk", tokens_per_chunk, "tokens", _NO_COUNTS, scale=1, streaming=True, per="text"),
    Metric("max_stall", max_stall, "s", _ONE_CHUNK, streaming=True),
    Metric("underrun_share", underrun_share, "share", _COUNTS, scale=1, streaming=True),
    Metric("request_latency", request_latency, "s", _NO_TEXT),
    Metric(
        "output_tokens_per_second", output_tokens_per_second, "tokens/s", _NO_COUNTS, scale=1e9, higher_is_better=True
    ),
)


def metric_rows(sample: Sample) -> dict[str, dict[str, Any]]:
    """Name → distribution of every metric over a sample, pooled."""
    return {metric.name: metric.row(sample) for metric in METRICS}
