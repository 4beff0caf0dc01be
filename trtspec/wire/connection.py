"""One gRPC channel to a Triton server; every call has a deadline, every failure is RequestFailed.

Addresses: `HOST:PORT` without TLS. `grpcs://HOST:PORT#CA.pem` with TLS, believing who CA.pem vouches for (without it:
whom the system believes); `?name=NAME` when the certificate is for another name than HOST. A key in the environment
variable TRTSPEC_ADMIN_KEY goes along with questions, for servers whose APIs for administrators are restricted.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.frontend import ChunkReader, infer_request
from trtspec.wire.messages import Chunk, FrontendRequest

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CONNECTION_CODES", "Address", "Connection", "parse_address", "stream"]

# codes of failures that say something about the server as a whole, not about one request
CONNECTION_CODES = frozenset({"unavailable", "timeout"})

_STREAM_METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
_UNLIMITED = -1
_OPTIONS = (
    ("grpc.max_receive_message_length", _UNLIMITED),
    ("grpc.max_send_message_length", _UNLIMITED),
    # a failed call must be seen, not repeated behind the measurement's back
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # a proxy of the environment would be part of what is measured
    ("grpc.enable_http_proxy", 0),
    # channels to the same address must not share a socket: arms are measured apart
    ("grpc.use_local_subchannel_pool", 1),
)


_TLS = "grpcs://"
_ADMIN_METADATA = "triton-grpc-protocol-trtspec-admin-key"
_KEY_VARIABLE = "TRTSPEC_ADMIN_KEY"


@dataclass(frozen=True)
class Address:
    """Where a channel goes; `tls`, with the PEM file of its authorities and the name in the certificate."""

    target: str
    tls: bool = False
    authorities: Path | None = None
    name: str | None = None


def parse_address(url: str) -> Address:
    """The parts of `HOST:PORT` or `grpcs://HOST:PORT?name=NAME#CA.pem`; UsageError for another scheme."""
    if not url.startswith(_TLS):
        scheme, found, _ = url.partition("://")
        if found:
            raise UsageError(f"{url}: not an address for gRPC ({scheme})", fix="HOST:PORT, or grpcs://HOST:PORT#CA.pem")
        return Address(url)
    parts = urlsplit(url)
    name = next(iter(parse_qs(parts.query).get("name", [])), None)
    return Address(parts.netloc, True, Path(unquote(parts.fragment)) if parts.fragment else None, name)


def _channel(url: str) -> Any:
    import grpc
    import grpc.aio

    address = parse_address(url)
    if not address.tls:
        return grpc.aio.insecure_channel(address.target, options=_OPTIONS)
    try:
        roots = address.authorities.read_bytes() if address.authorities else None
    except OSError as error:
        raise UsageError(f"cannot read the certificate: {error}", fix="grpcs://HOST:PORT#CA.pem") from None
    named = (("grpc.ssl_target_name_override", address.name),) if address.name else ()
    return grpc.aio.secure_channel(address.target, grpc.ssl_channel_credentials(roots), options=(*_OPTIONS, *named))


def _metadata() -> tuple[tuple[str, str], ...]:
    key = os.environ.get(_KEY_VARIABLE)
    return ((_ADMIN_METADATA, key),) if key else ()


class Connection:
    """A channel to `url` (see above), made on entering and closed on leaving `async with`."""

    protocol = "grpc"

    def __init__(self, url: str) -> None:
        self.url = url
        self._channel: Any = None
        self._stub: Any = None
        self._open: Any = None

    async def __aenter__(self) -> Self:
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        self._channel = _channel(self.url)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        # the stub's own method would parse before the arrival can be stamped
        self._open = self._channel.stream_stream(
            _STREAM_METHOD,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=_stamped,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def stream(self, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one request, the last one with `final`.

        RequestFailed when the server reports an error, does not answer within `timeout` seconds or ends early.
        Closing the iterator cancels the request on the server.
        """
        reader, final = ChunkReader(), False
        async with aclosing(self.messages(infer_request(request), timeout=timeout)) as messages:
            async for t_ns, message in messages:
                chunk = reader.read(t_ns, message)
                final = final or chunk.final
                yield chunk
        if not final:
            raise RequestFailed("stream ended early", code="ended_early")

    async def messages(self, request: Any, *, timeout: float) -> AsyncGenerator[tuple[int, Any], None]:
        """(arrival in ns, `ModelStreamInferResponse`) of one `ModelInferRequest`; cancelled when closed."""
        import grpc
        from google.protobuf.message import DecodeError
        from tritonclient.grpc import service_pb2

        call = self._open(timeout=timeout)
        try:
            await call.write(request)
            await call.done_writing()
            while (item := await call.read()) is not grpc.aio.EOF:
                t_ns, data = item
                yield t_ns, service_pb2.ModelStreamInferResponse.FromString(data)
            if (await call.code()) is not grpc.StatusCode.OK:
                raise _failure(await call.code(), await call.details(), timeout)
        except grpc.aio.AioRpcError as error:
            raise _failure(error.code(), error.details(), timeout) from None
        except DecodeError:
            raise RequestFailed("the answer cannot be read: it is no message", code="bad_response") from None
        except grpc.aio.UsageError:
            # the call was over before everything was written: its status tells why
            raise _failure(await call.code(), await call.details(), timeout) from None
        finally:
            call.cancel()

    async def unary(self, method: str, request: Any, *, timeout: float) -> Any:
        """The answer of a unary method of the inference service; RequestFailed when there is none."""
        import grpc

        try:
            return await getattr(self._stub, method)(request, timeout=timeout, metadata=_metadata())
        except grpc.aio.AioRpcError as error:
            raise _failure(error.code(), error.details(), timeout) from None


async def stream(url: str, request: FrontendRequest, *, timeout: float) -> AsyncGenerator[Chunk, None]:
    """`Connection.stream` on a channel of its own."""
    async with Connection(url) as connection, aclosing(connection.stream(request, timeout=timeout)) as chunks:
        async for chunk in chunks:
            yield chunk


def _stamped(data: bytes) -> tuple[int, bytes]:
    return time.perf_counter_ns(), data


def _failure(status: Any, details: str | None, timeout: float) -> RequestFailed:
    import grpc

    text = " ".join((details or "no details").split())
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RequestFailed(f"no complete answer within {timeout:g} s", code="timeout")
    if status is grpc.StatusCode.UNAVAILABLE:
        return RequestFailed(f"the server does not answer: {text}", code="unavailable")
    return RequestFailed(text, code=status.name.lower())
