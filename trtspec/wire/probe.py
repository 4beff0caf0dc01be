"""Questions to a server that are no inference: ready, metadata, statistics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trtspec.errors import RequestFailed, ServerUnreachable
from trtspec.spec.names import FRONTEND_MODEL
from trtspec.wire.connection import Connection

__all__ = [
    "ModelCounts",
    "ModelTensors",
    "model_counts",
    "model_ready",
    "model_tensors",
    "poll",
    "wait_ready",
]

_POLL = 0.1
_START = "trtspec serve SPEC --arm ARM"


@dataclass(frozen=True)
class ModelTensors:
    """Names of a model's inputs and outputs, with their datatypes."""

    inputs: dict[str, str]
    outputs: dict[str, str]


@dataclass(frozen=True)
class ModelCounts:
    """What Triton counted for one model since it was loaded: requests that succeeded and failed, and executions."""

    success: int
    failed: int
    executions: int


async def wait_ready(connection: Connection, *, timeout: float, model: str = FRONTEND_MODEL) -> None:
    """Return when `model` is ready; ServerUnreachable when it is not within `timeout` seconds."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelReadyRequest(name=model)

    async def ready(left: float) -> bool:
        return bool((await connection.unary("ModelReady", request, timeout=left)).ready)

    await poll(ready, timeout=timeout, model=model, where=connection.url)


async def poll(
    ready: Callable[[float], Awaitable[bool]], *, timeout: float, model: str, where: str, fix: str = _START
) -> None:
    """Ask `ready(seconds it may take)` until it is true; ServerUnreachable when it is not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    reason = f"{model} is not ready"
    while True:
        left = deadline - time.monotonic()
        try:
            if await ready(max(0.05, min(left, 5.0))):
                return
        except RequestFailed as error:
            reason = error.message
        if time.monotonic() + _POLL >= deadline:
            message = f"no server with {model} ready within {timeout:g} s ({reason})"
            raise ServerUnreachable(message, where=where, fix=fix)
        await asyncio.sleep(_POLL)


async def model_ready(connection: Connection, model: str = FRONTEND_MODEL, *, timeout: float = 5) -> bool:
    """Whether `model` takes requests now; False too when nothing answers."""
    from tritonclient.grpc import service_pb2

    try:
        answer = await connection.unary("ModelReady", service_pb2.ModelReadyRequest(name=model), timeout=timeout)
    except RequestFailed:
        return False
    return bool(answer.ready)


async def model_tensors(connection: Connection, model: str = FRONTEND_MODEL, *, timeout: float = 10) -> ModelTensors:
    """The inputs and outputs that the server declares for `model`."""
    from tritonclient.grpc import service_pb2

    answer = await connection.unary("ModelMetadata", service_pb2.ModelMetadataRequest(name=model), timeout=timeout)
    return ModelTensors(
        {tensor.name: tensor.datatype for tensor in answer.inputs},
        {tensor.name: tensor.datatype for tensor in answer.outputs},
    )


async def model_counts(connection: Connection, *, timeout: float = 10) -> dict[str, ModelCounts]:
    """Triton's own counts of every loaded model, by model name."""
    from tritonclient.grpc import service_pb2

    answer = await connection.unary("ModelStatistics", service_pb2.ModelStatisticsRequest(), timeout=timeout)
    return {
        model.name: ModelCounts(
            success=model.inference_stats.success.count,
            failed=model.inference_stats.fail.count,
            executions=model.execution_count,
        )
        for model in answer.model_stats
    }
