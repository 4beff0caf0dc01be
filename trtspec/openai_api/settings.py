"""What the endpoint's process is told, as data that passes a command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from trtspec.serving.security import body_limit
from trtspec.spec import Spec
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["API_KEY", "Settings"]

# environment variable: the key that clients have to send; unset or empty: none
API_KEY = "TRTSPEC_API_KEY"


@dataclass(frozen=True)
class Settings:
    """Where the endpoint listens, which server it stands before, and its limits.

    grpc_url is an address as `trtspec.wire.Connection` takes it, metrics_url HOST:PORT. models: the names that clients
    may ask for, all of them the one frontend. max_output_tokens: for requests without a limit; the frontend cuts it to
    what fits. request_timeout: seconds. max_running: requests at once, more are told to come back. exit_wait: seconds
    that requests in flight get when it ends.
    """

    port: int
    grpc_url: str
    metrics_url: str
    host: str = "127.0.0.1"
    models: tuple[str, ...] = (FRONTEND_MODEL,)
    max_output_tokens: int = (1 << 31) - 1
    request_timeout: float = 600.0
    max_running: int = 256
    max_body_bytes: int = 16 << 20
    exit_wait: int = 5

    @classmethod
    def of_spec(cls, spec: Spec, port: int, *, grpc_url: str, metrics_url: str) -> Settings:
        """The endpoint before a server of `spec`, with that server's limits."""
        serving = spec.serving
        return cls(
            port,
            grpc_url,
            metrics_url,
            host=serving.host,
            models=(spec.name, FRONTEND_MODEL),
            max_output_tokens=serving.max_output_tokens or cls.max_output_tokens,
            request_timeout=serving.request_timeout or cls.request_timeout,
            max_body_bytes=body_limit(serving),
        )

    def to_text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """The settings that `to_text` wrote."""
        values = json.loads(text)
        return cls(**{**values, "models": tuple(values["models"])})
