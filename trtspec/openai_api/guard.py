"""What a request has to pass before anything reads it: the key, and the size of its body."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trtspec.openai_api.failures import ApiError

__all__ = ["Guard"]

# probes of an orchestrator send no key
_OPEN = frozenset({"/health", "/health/live", "/health/ready"})


class Guard:
    """ASGI middleware; an empty key lets everybody in."""

    def __init__(self, app: ASGIApp, *, api_key: str, max_body_bytes: int) -> None:
        self._app = app
        self._key = api_key.encode()
        self._most = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._wrong_key(scope["path"], headers) or self._too_long(headers)
        if problem is not None:
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _wrong_key(self, path: str, headers: Headers) -> ApiError | None:
        if not self._key or path in _OPEN:
            return None
        scheme, _, key = headers.get("authorization", "").partition(" ")
        # latin-1: what the server decoded headers with
        if scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode("latin-1"), self._key):
            return None
        return ApiError(401, "a valid key is needed: Authorization: Bearer KEY", code="invalid_api_key")

    def _too_long(self, headers: Headers) -> ApiError | None:
        length = headers.get("content-length", "0")
        return self._refusal() if length.isdecimal() and int(length[:20]) > self._most else None

    def _refusal(self) -> ApiError:
        return ApiError(413, f"the body has more than the {self._most} bytes allowed", code="body_too_large")

    def _counted(self, receive: Receive) -> Receive:
        """`receive`, which raises when a body of unknown length gets too long."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise self._refusal()
            return message

        return counted
