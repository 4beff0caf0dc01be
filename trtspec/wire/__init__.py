"""Talking to a Triton server over gRPC: frontend streams, leaf logits, readiness and statistics.

`tritonclient` and `grpc` are imported when the first call is made.
"""

from trtspec.wire.answer import Answer, ask
from trtspec.wire.connection import CONNECTION_CODES, Connection, stream
from trtspec.wire.leaf import next_token_logits
from trtspec.wire.messages import Chunk, Counters, FrontendRequest, TokenDetails
from trtspec.wire.probe import (
    ModelCounts,
    ModelTensors,
    model_counts,
    model_ready,
    model_tensors,
    wait_ready,
)

__all__ = [
    "CONNECTION_CODES",
    "Answer",
    "Chunk",
    "Connection",
    "Counters",
    "FrontendRequest",
    "ModelCounts",
    "ModelTensors",
    "TokenDetails",
    "ask",
    "model_counts",
    "model_ready",
    "model_tensors",
    "next_token_logits",
    "stream",
    "wait_ready",
]
