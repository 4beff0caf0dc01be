"""What a load test sends to: one interface over every server and protocol.

A target is one model behind one address. The address says how it is spoken to, the kind what is there:

* `HOST:PORT`, `grpcs://HOST:PORT#CA.pem`: Triton's gRPC
* `http://HOST:PORT`, `https://HOST:PORT#CA.pem`: Triton's `generate_stream`
* `http(s)://HOST:PORT/v1`: an OpenAI-compatible endpoint (vLLM, SGLang, trtllm-serve, `trtspec serve --openai-port`);
  chat, unless it ends with `/v1/completions` or the kind says so
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, get_args
from urllib.parse import urlsplit

from trtspec.errors import UsageError
from trtspec.wire.facts import TargetFacts
from trtspec.wire.messages import Chunk, FrontendRequest
from trtspec.wire.openai_target import OpenaiTarget
from trtspec.wire.probe import ModelCounts
from trtspec.wire.triton_grpc import GrpcTarget
from trtspec.wire.triton_http import HttpTarget

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["KINDS", "Kind", "OpenedTarget", "Target", "TargetFacts", "detect_target", "open_target"]

Kind = Literal[
    "auto",
    "triton-grpc",
    "triton-http",
    "openai-chat",
    "openai-completions",
    "nvidia-bls",
    "nvidia-ensemble",
    "llmapi",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

_ENDINGS = {"/chat/completions": "openai-chat", "/completions": "openai-completions"}
_EXAMPLES = "HOST:PORT (gRPC), http://HOST:PORT (Triton), http://HOST:PORT/v1 (OpenAI-compatible)"


class Target(Protocol):
    """What can be sent requests; connected on entering `async with`.

    `protocol` is "grpc", "http", "openai-chat" or "openai-completions".
    """

    protocol: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one request, the last one with `final`; RequestFailed for whatever is not a whole answer.

        Closing the iterator cancels the request on the server.
        """
        ...


class OpenedTarget(Target, Protocol):
    """What `open_target` gives: a target that can also be asked about itself."""

    url: str

    async def wait_ready(self, *, timeout: float) -> None:
        """Return when the model takes requests; ServerUnreachable when it does not within `timeout` seconds."""
        ...

    async def facts(self) -> TargetFacts:
        """What is there; RequestFailed when it does not tell."""
        ...

    async def counts(self) -> dict[str, ModelCounts] | None:
        """The server's own counts of requests by model; None where a server has none."""
        ...


def open_target(url: str, *, kind: str = "auto", model: str | None = None) -> OpenedTarget:
    """The target at `url`, not yet connected; UsageError when address and kind contradict each other.

    Of kind "auto" it finds out what is there when it is first asked.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind}", fix=f"one of {', '.join(KINDS)}")
    scheme, separated, _ = url.partition("://")
    if not separated or scheme == "grpcs":
        _refuse(url, kind, "gRPC", "triton-http", "openai-chat", "openai-completions")
        return GrpcTarget(url, kind, model)
    if scheme not in {"http", "https"} or not urlsplit(url).netloc:
        raise UsageError(f"{url}: not an address of a server", fix=_EXAMPLES)
    path = urlsplit(url).path.rstrip("/")
    if path or kind.startswith("openai-"):
        return _openai(url, path, kind, model)
    _refuse(url, kind, "HTTP", "triton-grpc")
    return HttpTarget(url, kind, model)


def _openai(url: str, path: str, kind: str, model: str | None) -> OpenedTarget:
    base, _, fragment = url.partition("#")
    base = base.rstrip("/")
    for ending, named in _ENDINGS.items():
        if path.endswith(ending):
            _refuse(url, kind, f"{named}", *(other for other in KINDS if other not in {"auto", named}))
            base, kind = base.removesuffix(ending), named
            break
    _refuse(
        url, kind, "OpenAI-compatible HTTP", *(other for other in KINDS if not other.startswith(("openai", "auto")))
    )
    if not path:
        base += "/v1"
    return OpenaiTarget(base + (f"#{fragment}" if fragment else ""), "openai-chat" if kind == "auto" else kind, model)


def _refuse(url: str, kind: str, spoken: str, *kinds: str) -> None:
    if kind in kinds:
        raise UsageError(f"{url} is an address for {spoken}, not of kind {kind}", fix=_EXAMPLES)


async def detect_target(
    url: str, *, kind: str = "auto", model: str | None = None, timeout: float = 10.0
) -> TargetFacts:
    """What answers at `url`; ServerUnreachable when nothing does within `timeout` seconds."""
    async with open_target(url, kind=kind, model=model) as target:
        await target.wait_ready(timeout=timeout)
        return await target.facts()
