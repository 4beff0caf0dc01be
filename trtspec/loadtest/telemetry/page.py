"""One HTTP page, whatever the server does: in bounded time and memory, and never through a proxy."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from threading import Event, Timer
from urllib.parse import urlsplit

__all__ = ["PageError", "read_page"]

# a server with many models has some hundred KB; parsing takes a second per MB
_LARGEST = 4 * 2**20


class PageError(Exception):
    """Why there is no page."""


def read_page(url: str, timeout: float) -> tuple[int, bytes]:
    """(status, body) of a GET; PageError when there is no whole answer within about `timeout` seconds."""
    try:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        try:
            connection.connect()
            return _answer(connection, path, timeout)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise PageError(str(error) or type(error).__name__) from None


def _answer(connection: http.client.HTTPConnection, path: str, timeout: float) -> tuple[int, bytes]:
    # a socket's own timeout begins anew with every byte that drips in
    late, sock = Event(), connection.sock

    def cut() -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    watchdog = Timer(timeout, cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(_LARGEST)
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
        body = b""
    finally:
        watchdog.cancel()
    if late.is_set():
        raise PageError(f"not whole within {timeout:g} s")
    if len(body) >= _LARGEST:
        raise PageError(f"it has {_LARGEST >> 20} MiB and more")
    return answer.status, body
