"""Who may reach a server, and what of it: loopback or not, Triton's restricted APIs, TLS, the size of a body.

Facts (triton-inference-server/server, docs/customization_guide/inference_protocols.md and `tritonserver --help`):
`--http-restricted-api=<apis>:<header>=<value>`, `--grpc-restricted-protocol=<apis>:<key>=<value>` (clients send the
metadata `triton-grpc-protocol-<key>`); TLS exists for gRPC alone. Triton takes the value on its command line only, so
other accounts of the machine that may read /proc can see it.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.serving.ports import listen_address
from trtspec.spec.model import Serving

__all__ = [
    "ADMIN_HEADER",
    "KEY_VARIABLE",
    "AdminKey",
    "Tls",
    "body_limit",
    "check_tls",
    "is_loopback",
    "new_admin_key",
    "restriction_flags",
    "tls_of",
]

ADMIN_HEADER = "trtspec-admin-key"
KEY_VARIABLE = "TRTSPEC_ADMIN_KEY"
# metadata stays open: clients ask it for the tensors; health and inference are what the server is for
_ALL = ("model-repository", "model-config", "shared-memory", "statistics", "trace", "logging")
_LOADING = ("model-repository",)
# a byte of text is six in JSON at most (\u00e9), and the other fields are small
_JSON_FACTOR, _OTHER_FIELDS = 6, 1 << 20


@dataclass(frozen=True)
class AdminKey:
    """The shared secret of the restricted APIs."""

    value: str

    @property
    def http_header(self) -> tuple[str, str]:
        """What an HTTP request carries."""
        return ADMIN_HEADER, self.value


@dataclass(frozen=True)
class Tls:
    """The PEM files of gRPC's TLS."""

    certificate: Path
    key: Path

    def flags(self) -> tuple[str, ...]:
        """Triton's flags."""
        return (
            "--grpc-use-ssl=true",
            f"--grpc-server-cert={self.certificate}",
            f"--grpc-server-key={self.key}",
        )


def new_admin_key() -> AdminKey:
    """The key in TRTSPEC_ADMIN_KEY, else a random one."""
    return AdminKey(os.environ.get(KEY_VARIABLE) or secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """True when only this machine can connect to what listens on `host`."""
    return ipaddress.ip_address(listen_address(host)).is_loopback


def restriction_flags(key: AdminKey, *, exposed: bool) -> tuple[str, ...]:
    """Flags that ask for `key`: loading and unloading always, every other API for administrators where `exposed`."""
    apis = ",".join(_ALL if exposed else _LOADING)
    return (
        f"--http-restricted-api={apis}:{ADMIN_HEADER}={key.value}",
        f"--grpc-restricted-protocol={apis}:{ADMIN_HEADER}={key.value}",
    )


def tls_of(serving: Serving, root: Path) -> Tls | None:
    """The spec's certificate and key as absolute paths; None without them."""
    if serving.tls_certificate is None or serving.tls_key is None:
        return None
    return Tls(_absolute(root, serving.tls_certificate), _absolute(root, serving.tls_key))


def check_tls(tls: Tls) -> None:
    """Return when a server can use certificate and key, UsageError otherwise; Triton looks after loading all models."""
    try:
        # the empty password: never ask for one at the terminal, gRPC takes none either
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise UsageError(
            f"TLS with {tls.certificate} and {tls.key}: {reason.replace('_', ' ').lower()}",
            fix="serving.tls_certificate and tls_key name PEM files that belong together, the key without a password",
        ) from None


def _absolute(root: Path, path: Path) -> Path:
    return Path(os.path.abspath(root / path.expanduser()))  # noqa: PTH100  # absolute() keeps `..`


def body_limit(serving: Serving) -> int:
    """Bytes of the largest HTTP body that a request within the spec's limits needs."""
    return _OTHER_FIELDS + _JSON_FACTOR * serving.max_prompt_bytes
