"""Plain HTTP to the endpoint, where the official client would not send such a thing."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.openai_api import OpenaiServer

__all__ = ["Reply", "get", "post"]

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What is in every answer that is an error."""
        error: dict[str, Any] = self.document["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


def get(server: OpenaiServer, path: str, headers: Mapping[str, str] | None = None) -> Reply:
    return _send(server, "GET", path, None, headers or {})


def post(server: OpenaiServer, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """Send `body` as JSON; bytes go as they are, an iterator in pieces without a length."""
    data = body if isinstance(body, (bytes, Iterator)) else json.dumps(body).encode()
    return _send(server, "POST", path, data, headers or {})


def _send(server: OpenaiServer, method: str, path: str, data: Any, headers: Mapping[str, str]) -> Reply:
    connection = http.client.HTTPConnection(server.settings.host, server.settings.port, timeout=60)
    try:
        connection.request(method, path, data, {**_JSON, **headers})
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.headers), answer.read())
    finally:
        connection.close()
