"""An OpenAI-compatible endpoint as a target of a load test: completions or chat, streamed.

The environment variable TRTSPEC_API_KEY, where it is set, is the key that is sent along.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.facts import TargetFacts
from trtspec.wire.http import HttpSession
from trtspec.wire.messages import Chunk, FrontendRequest
from trtspec.wire.openai_stream import PieceReader, openai_body
from trtspec.wire.probe import ModelCounts, poll
from trtspec.wire.readable import readable
from trtspec.wire.wholeness import Wholeness

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["OpenaiTarget"]

_PATHS = {"openai-chat": "/chat/completions", "openai-completions": "/completions"}
# `owned_by` in /v1/models of servers that count tokens with every piece when asked
_CONTINUOUS = frozenset({"vllm", "sglang", "tensorrt_llm"})
# where servers tell of themselves, below the root; trtllm-serve and vLLM, then SGLang
_VERSION = "/version"
_CONFIGURATION = ("/server_info", "/get_server_info")
_HEALTH = "/health"
_START = "start the server, or give the address of one that runs"


class OpenaiTarget:
    """One model of the endpoint at `url` (`…/v1`); see `targets.OpenedTarget`."""

    def __init__(self, url: str, kind: str, model: str | None = None) -> None:
        self.url = url
        self.protocol = kind
        self._model = model
        self._models: tuple[str, ...] = ()
        self._owner: str | None = None
        base, _, fragment = url.partition("#")
        tail = f"#{fragment}" if fragment else ""
        self._http = HttpSession(base + tail)
        self._root = HttpSession(base.rstrip("/").removesuffix("/v1") + tail)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        await self._root.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._root.__aexit__(kind, error, trace)
        await self._http.__aexit__(kind, error, trace)

    async def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one request, the last one with `final`; RequestFailed for what is not a whole answer."""
        model = self._model if self._owner is not None and self._model else await self._resolve(timeout)
        continuous, chat = self._owner in _CONTINUOUS, self.protocol == "openai-chat"
        body = openai_body(request, model, chat=chat, continuous=continuous)
        whole, reader, closing = Wholeness(reason_needed=True), PieceReader(), None
        reply = await self._http.post(_PATHS[self.protocol], body, timeout=timeout)
        try:
            with readable():
                while events := await reply.events():
                    for t_ns, event in events:
                        chunk = reader.read(t_ns, event)
                        whole.add(chunk)
                        if chunk.final:
                            closing = chunk
                        else:
                            yield chunk
        finally:
            reply.close()
        if closing is None and not request.stream:
            closing = Chunk(t_ns, "", final=True)
            whole.add(closing)
        whole.check()
        assert closing is not None
        yield closing

    async def _resolve(self, timeout: float) -> str:
        """The model's name, once it is known who serves it; UsageError when there are several to choose from."""
        document = await self._http.document("/models", timeout=timeout)
        with readable():
            known = [model for model in document.get("data") or () if isinstance(model, dict)]
        listed = [model for model in known if isinstance(model.get("id"), str)]
        self._models = tuple(model["id"] for model in listed)
        own = next((model for model in listed if model["id"] == self._model), listed[0] if listed else {})
        self._owner = str(own.get("owned_by") or "")
        if self._model is None:
            self._model = self._only(listed)
        return self._model

    def _only(self, listed: list[dict[str, Any]]) -> str:
        # one model may be listed under its adapters' names too
        bases = [model["id"] for model in listed if not model.get("parent")]
        if len(bases) == 1 or (bases and self._owner == "trtspec"):
            return str(bases[0])
        there = ", ".join(bases) or "none"
        raise UsageError(f"{self.url} serves {len(bases)} models: {there}", fix="--a-model NAME, --b-model NAME")

    async def wait_ready(self, *, timeout: float) -> None:
        """Return when the model takes requests; ServerUnreachable when it does not within `timeout` seconds."""

        async def ready(left: float) -> bool:
            await self._resolve(left)
            await self._healthy(left)
            return True

        await poll(ready, timeout=timeout, model=self._model or "a model", where=self.url, fix=_START)

    async def _healthy(self, timeout: float) -> None:
        try:
            await self._root.document(_HEALTH, timeout=timeout)
        except RequestFailed as error:
            # others have no such path, or answer something else than JSON
            if error.code in {"http_503", "model_not_ready"}:
                raise

    async def facts(self) -> TargetFacts:
        """What is there; RequestFailed when it does not tell."""
        model = await self._resolve(10)
        version = await self._optional(_VERSION)
        server = {"name": self._owner or "unknown", **(version if isinstance(version, dict) else {})}
        continuous = self._owner in _CONTINUOUS
        return TargetFacts(
            self.url,
            self.protocol,
            self.protocol,
            model,
            models=self._models,
            counts_tokens=continuous,
            server=server,
            configuration=await self._configuration(),
        )

    async def _configuration(self) -> dict[str, Any]:
        for path in _CONFIGURATION if self._owner == "sglang" else ():
            document = await self._optional(path)
            if isinstance(document, dict):
                return {key: value for key, value in document.items() if key != "internal_states"}
        return {}

    async def _optional(self, path: str) -> Any:
        try:
            return await self._root.document(path)
        except RequestFailed:
            return None

    async def counts(self) -> dict[str, ModelCounts] | None:
        """None: these servers count requests only in /metrics, each in its own way."""
        return None
