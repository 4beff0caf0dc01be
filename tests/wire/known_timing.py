"""The real Triton with a model whose responses leave at known times, and what a client should have seen of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.triton_models.deployment import write_model
from trtspec.repository.config import ModelSpec
from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS, Tensor
from trtspec.wire import Chunk, FrontendRequest

__all__ = ["Sent", "plan_request", "sent", "timing_repository"]

_STAMPS = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")


def timing_repository(folder: Path) -> Path:
    """A repository whose `tensorrt_llm_bls` is the known-timing model."""
    outputs = [*FRONTEND_OUTPUTS, *(Tensor(name, "TYPE_INT64") for name in _STAMPS)]
    source = Path(__file__).with_name("timing_model.py").read_bytes()
    write_model(folder, ModelSpec("tensorrt_llm_bls", 64, FRONTEND_INPUTS, outputs, {}), {"model.py": source})
    return folder


def plan_request(at_ms: Sequence[float], tokens: Sequence[int] | None = None, end: str = "stop") -> FrontendRequest:
    """A request for responses `at_ms` after it arrived, with `tokens` each (default 1)."""
    plan = {"at_ms": list(at_ms), "tokens": list(tokens or [1] * len(at_ms)), "end": end}
    return FrontendRequest(json.dumps(plan), 1000)


@dataclass(frozen=True)
class Sent:
    """When the server had received the request and when it sent a response, in ns of time.perf_counter_ns."""

    received_ns: int
    sent_ns: int


def sent(chunk: Chunk) -> Sent:
    """The server's stamps in a chunk's text."""
    received, now = chunk.text.split()
    return Sent(int(received), int(now))
