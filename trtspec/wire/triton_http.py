"""A Triton server over HTTP: `generate_stream`, and the questions that gRPC answers too.

Sources: triton-inference-server/server docs/protocol/extension_generate.md, extension_statistics.md,
extension_model_configuration.md, extension_model_repository.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.dialects import Dialect, choose_dialect
from trtspec.wire.facts import TargetFacts
from trtspec.wire.http import HttpSession, parse_json
from trtspec.wire.inputs import generate_body
from trtspec.wire.messages import Chunk, FrontendRequest
from trtspec.wire.outputs import JsonOutputs
from trtspec.wire.probe import ModelCounts, ModelTensors, poll
from trtspec.wire.readable import count, readable
from trtspec.wire.refusals import document_error
from trtspec.wire.wholeness import Wholeness

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HttpTarget"]

_GONE = frozenset({"http_400", "http_404"})


class HttpTarget:
    """One model of the Triton server at `url`; see `targets.OpenedTarget`."""

    protocol = "http"

    def __init__(self, url: str, kind: str = "auto", model: str | None = None) -> None:
        self.url = url
        self._wanted = (kind, model)
        self._http = HttpSession(url)
        self._dialect: Dialect | None = None
        self._path = ""

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one request, the last one with `final`; RequestFailed for what is not a whole answer."""
        dialect = self._dialect or await self._resolve(timeout)
        whole, reader = Wholeness(reason_needed=dialect.ends_with_reason), dialect.reader(request)
        body, t_ns = generate_body(request.request_id, dialect.inputs(request)), 0
        reply = await self._http.post(self._path, body, timeout=timeout)
        try:
            with readable():
                while events := await reply.events():
                    for t_ns, event in events:
                        chunk = reader.chunk(t_ns, _outputs(event), final=False)
                        whole.add(chunk)
                        yield chunk
        finally:
            reply.close()
        # the end of a complete HTTP body is what gRPC's empty final response is
        closing = Chunk(t_ns, "", final=True)
        whole.add(closing)
        whole.check()
        yield closing

    async def _resolve(self, timeout: float) -> Dialect:
        async def lookup(model: str) -> ModelTensors | None:
            return await self._tensors(model, timeout)

        self._dialect = dialect = await choose_dialect(*self._wanted, "triton-http", lookup)
        self._path = f"/v2/models/{quote(dialect.model, safe='')}/generate_stream"
        return dialect

    async def _tensors(self, model: str, timeout: float) -> ModelTensors | None:
        try:
            document = await self._http.document(f"/v2/models/{quote(model, safe='')}", timeout=timeout)
        except RequestFailed as error:
            if error.code in _GONE:
                return None
            raise
        with readable():
            inputs, outputs = (
                {tensor["name"]: tensor["datatype"] for tensor in document.get(side, [])}
                for side in ("inputs", "outputs")
            )
        return ModelTensors(inputs, outputs)

    async def wait_ready(self, *, timeout: float) -> None:
        """Return when the model takes requests; ServerUnreachable when it does not within `timeout` seconds."""

        async def ready(left: float) -> bool:
            await self._http.document("/v2/health/live", timeout=left)
            try:
                dialect = self._dialect or await self._resolve(left)
            except UsageError:
                # while it loads, its models are not there yet: then this raises
                await self._http.document("/v2/health/ready", timeout=left)
                raise
            await self._http.document(f"/v2/models/{quote(dialect.model, safe='')}/ready", timeout=left)
            return True

        await poll(ready, timeout=timeout, model=self._wanted[1] or "a model", where=self.url)

    async def facts(self) -> TargetFacts:
        """What is there; RequestFailed when it does not tell."""
        dialect = self._dialect or await self._resolve(10)
        configuration = await self._optional(f"/v2/models/{quote(dialect.model, safe='')}/config")
        with readable():
            one_piece = dialect.one_piece(configuration)
        return TargetFacts(
            self.url,
            dialect.kind,
            self.protocol,
            dialect.model,
            models=await self._names(),
            one_piece=one_piece,
            counts_tokens=dialect.counts_tokens,
            server=await self._optional("/v2"),
            configuration=configuration,
        )

    async def _names(self) -> tuple[str, ...]:
        """Names of all models there; none where the server does not tell."""
        try:
            with readable():
                index = await self._http.document("/v2/repository/index", post=True)
                return tuple(sorted({str(model["name"]) for model in index}))
        except RequestFailed:
            return ()

    async def _optional(self, path: str) -> dict[str, Any]:
        """An object that a server may refuse to give; {} then."""
        try:
            document = await self._http.document(path)
        except RequestFailed:
            return {}
        return document if isinstance(document, dict) else {}

    async def counts(self) -> dict[str, ModelCounts] | None:
        """Triton's own counts of every loaded model, by model name."""
        document = await self._http.document("/v2/models/stats")
        with readable():
            return {str(model["name"]): _counts(model) for model in document.get("model_stats", [])}


def _outputs(event: bytes) -> JsonOutputs:
    try:
        document = parse_json(event)
    except ValueError:
        raise RequestFailed("stream ended early: inside an event", code="ended_early") from None
    if not isinstance(document, dict) or "error" in document:
        error = document_error(document)
        if error is not None:
            raise error
    return JsonOutputs(document)


def _counts(model: Mapping[str, Any]) -> ModelCounts:
    statistics = model.get("inference_stats", {})
    return ModelCounts(
        success=count(statistics.get("success", {}).get("count")) or 0,
        failed=count(statistics.get("fail", {}).get("count")) or 0,
        executions=count(model.get("execution_count")) or 0,
    )
