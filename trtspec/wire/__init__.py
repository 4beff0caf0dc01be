"""Talking to servers: Triton over gRPC and HTTP, OpenAI-compatible endpoints; readiness and statistics.

`tritonclient`, `grpc` and `orjson` are imported when the first call is made.
"""

from trtspec.wire.answer import Answer, ask
from trtspec.wire.connection import CONNECTION_CODES, Connection, stream
from trtspec.wire.leaf import next_token_logits
from trtspec.wire.messages import Chunk, Counters, FrontendRequest, ServerStamps, TokenDetails
from trtspec.wire.probe import (
    ModelCounts,
    ModelTensors,
    model_counts,
    model_ready,
    model_tensors,
    wait_ready,
)
from trtspec.wire.targets import KINDS, Kind, OpenedTarget, Target, TargetFacts, detect_target, open_target

__all__ = [
    "CONNECTION_CODES",
    "KINDS",
    "Answer",
    "Chunk",
    "Connection",
    "Counters",
    "FrontendRequest",
    "Kind",
    "ModelCounts",
    "ModelTensors",
    "OpenedTarget",
    "ServerStamps",
    "Target",
    "TargetFacts",
    "TokenDetails",
    "ask",
    "detect_target",
    "model_counts",
    "model_ready",
    "model_tensors",
    "next_token_logits",
    "open_target",
    "stream",
    "wait_ready",
]
