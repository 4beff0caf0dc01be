"""Loading and unloading the models of a server that was started here, through its model repository API.

Triton's --load-model does not keep an order (the names become a set), so an order is made by loading one by one. An
unloading model takes no new requests, is not ready any more, and goes on with those it has; seen with Triton 2.51,
where SIGTERM instead makes the frontend's own calls to its leaves fail ("Server not ready").
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from trtspec.serving.ports import connect_host
from trtspec.serving.security import AdminKey

__all__ = ["ControlFailed", "ModelControl"]


class ControlFailed(Exception):
    """The server refused, or did not answer; the text says which."""


@dataclass(frozen=True)
class ModelControl:
    """The model repository API behind `host`:`port`."""

    host: str
    port: int
    key: AdminKey | None

    def load(self, model: str, *, timeout: float) -> None:
        """Return when `model` is loaded."""
        self._post(f"/v2/repository/models/{model}/load", timeout)

    def unload(self, model: str, *, timeout: float = 10.0) -> None:
        """Begin to unload `model`; returns at once."""
        self._post(f"/v2/repository/models/{model}/unload", timeout)

    def states(self, *, timeout: float = 5.0) -> dict[str, str]:
        """Model → READY, LOADING, UNLOADING or UNAVAILABLE."""
        rows = json.loads(self._post("/v2/repository/index", timeout))
        return {str(row.get("name")): str(row.get("state", "")) for row in rows}

    def _post(self, path: str, timeout: float) -> bytes:
        headers = dict([self.key.http_header]) if self.key else {}
        connection = http.client.HTTPConnection(connect_host(self.host), self.port, timeout=max(0.1, timeout))
        try:
            connection.request("POST", path, "{}", {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ControlFailed(str(error) or type(error).__name__) from None
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise ControlFailed(_error_text(body) or f"HTTP status {answer.status}")
        return body


def _error_text(body: bytes) -> str:
    try:
        data: Any = json.loads(body)
    except ValueError:
        return ""
    text = str(data.get("error", "")) if isinstance(data, dict) else ""
    return text.partition("\n")[0]
