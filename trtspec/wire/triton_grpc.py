"""A Triton server over gRPC as a target of a load test: any of the models that are known, on one `Connection`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.connection import Connection
from trtspec.wire.dialects import Dialect, choose_dialect
from trtspec.wire.facts import TargetFacts
from trtspec.wire.inputs import FINAL, infer_message
from trtspec.wire.messages import Chunk, FrontendRequest
from trtspec.wire.probe import ModelCounts, ModelTensors, model_counts, model_tensors, poll
from trtspec.wire.readable import readable
from trtspec.wire.refusals import stream_error
from trtspec.wire.tensors import Outputs
from trtspec.wire.wholeness import Wholeness

__all__ = ["GrpcTarget"]

_GONE = frozenset({"not_found", "invalid_argument"})


class GrpcTarget(Connection):
    """One model of the Triton server at `url`; see `targets.OpenedTarget`."""

    def __init__(self, url: str, kind: str = "auto", model: str | None = None) -> None:
        super().__init__(url)
        self._wanted = (kind, model)
        self._dialect: Dialect | None = None

    async def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one request, the last one with `final`; RequestFailed for what is not a whole answer."""
        dialect = self._dialect or await self._resolve(timeout)
        whole, reader = Wholeness(), dialect.reader(request)
        message = infer_message(dialect.model, request.request_id, dialect.inputs(request), batched=dialect.batched)
        async with aclosing(self.messages(message, timeout=timeout)) as messages:
            with readable():
                async for t_ns, answer in messages:
                    if answer.error_message:
                        raise stream_error(answer.error_message)
                    response = answer.infer_response
                    final = response.parameters[FINAL].bool_param if FINAL in response.parameters else False
                    chunk = reader.chunk(t_ns, Outputs(response), final=final)
                    whole.add(chunk)
                    if not final:
                        yield chunk
        whole.check()
        yield chunk

    async def _resolve(self, timeout: float) -> Dialect:
        async def lookup(model: str) -> ModelTensors | None:
            try:
                return await model_tensors(self, model, timeout=timeout)
            except RequestFailed as error:
                if error.code in _GONE:
                    return None
                raise

        self._dialect = await choose_dialect(*self._wanted, "triton-grpc", lookup)
        return self._dialect

    async def wait_ready(self, *, timeout: float) -> None:
        """Return when the model takes requests; ServerUnreachable when it does not within `timeout` seconds."""
        from tritonclient.grpc import service_pb2

        async def ready(left: float) -> bool:
            try:
                dialect = self._dialect or await self._resolve(left)
            except UsageError:
                # while it loads, its models are not there yet
                if not (await self.unary("ServerReady", service_pb2.ServerReadyRequest(), timeout=left)).ready:
                    return False
                raise
            request = service_pb2.ModelReadyRequest(name=dialect.model)
            return bool((await self.unary("ModelReady", request, timeout=left)).ready)

        await poll(ready, timeout=timeout, model=self._wanted[1] or "a model", where=self.url)

    async def facts(self) -> TargetFacts:
        """What is there; RequestFailed when it does not tell."""
        dialect = self._dialect or await self._resolve(10)
        config = (await self._optional("ModelConfig", name=dialect.model)).get("config", {})
        index = await self._optional("RepositoryIndex")
        return TargetFacts(
            self.url,
            dialect.kind,
            self.protocol,
            dialect.model,
            models=tuple(sorted({model["name"] for model in index.get("models", [])})),
            one_piece=dialect.one_piece(config),
            counts_tokens=dialect.counts_tokens,
            server=await self._optional("ServerMetadata"),
            configuration=config,
        )

    async def _optional(self, method: str, **fields: Any) -> dict[str, Any]:
        """The answer of a method that a server may refuse, as JSON; {} then."""
        from google.protobuf.json_format import MessageToDict
        from tritonclient.grpc import service_pb2

        try:
            answer = await self.unary(method, getattr(service_pb2, f"{method}Request")(**fields), timeout=10)
        except RequestFailed:
            return {}
        document: dict[str, Any] = MessageToDict(answer, preserving_proto_field_name=True)
        return document

    async def counts(self) -> dict[str, ModelCounts] | None:
        """Triton's own counts of every loaded model, by model name."""
        return await model_counts(self)
