"""Connections: kept, dropped, refused, cut and encrypted, against real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving.certificates import self_signed
from tests.wire.collecting import run_loop
from tests.wire.sse_server import Head, Send, SseServer, event
from trtspec.errors import RequestFailed, UsageError
from trtspec.wire.http import HttpSession, parse_json

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def peer(talk: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that does to every connection what `talk` says, until the block ends; gives HOST:PORT."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        try:
            with connection if context is None else context.wrap_socket(connection, server_side=True) as wrapped:
                talk(wrapped)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield "{}:{}".format(*listening.getsockname())
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        acceptor.join(20)
        for thread in threads:
            thread.join(20)


def answers(count: int, answer: bytes = ANSWER) -> Callable[[socket.socket], None]:
    """Answers `count` requests of a connection, then hangs up."""

    def talk(connection: socket.socket) -> None:
        for _ in range(count):
            if not connection.recv(1 << 16):
                return
            connection.sendall(answer)

    return talk


def ask(url: str, times: int = 1, pause: float = 0.0) -> list[object]:
    async def run() -> list[object]:
        async with HttpSession(url) as session:
            found = []
            for _ in range(times):
                found.append(await session.document("/x", timeout=20))
                await asyncio.sleep(pause)
            return found

    return run_loop(run())


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    with peer(answers(1)) as address:
        # it learns of the end of a connection while it waits
        assert ask(f"http://{address}", times=3, pause=0.2) == [{}, {}, {}]


def test_a_server_that_says_close_is_believed() -> None:
    closing = ANSWER.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")
    with peer(answers(9, closing)) as address:
        assert ask(f"http://{address}", times=3) == [{}, {}, {}]


def test_an_answer_that_only_the_end_of_the_connection_ends() -> None:
    with peer(answers(1, b"HTTP/1.1 200 OK\r\n\r\n[1]")) as address:
        assert ask(f"http://{address}") == [[1]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "ended_early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "ended_early"),
        (b"SSH-2.0-x\r\n\r\n", "bad_response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "bad_response"),
    ],
)
def test_answers_that_are_none(answer: bytes, code: str) -> None:
    with peer(answers(1, answer)) as address, pytest.raises(RequestFailed) as caught:
        ask(f"http://{address}")
    assert caught.value.code == code


def test_a_server_that_accepts_and_says_nothing() -> None:
    silent = threading.Event()

    async def run(url: str) -> None:
        async with HttpSession(url) as session:
            await session.document("/x", timeout=0.3)

    def wait(_: socket.socket) -> None:
        silent.wait(20)

    with peer(wait) as address:
        with pytest.raises(RequestFailed, match="no complete answer within 0") as caught:
            run_loop(run(f"http://{address}"))
        silent.set()
    assert caught.value.code == "timeout"


def test_an_address_of_several_machines() -> None:
    """localhost may be ::1 first, where nobody listens."""
    with peer(answers(1)) as address:
        assert ask(f"http://localhost:{address.rpartition(':')[2]}") == [{}]


def test_encrypted(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "pem", "DNS:localhost", "/CN=localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with peer(answers(1), context) as address:
        port = address.rpartition(":")[2]
        assert ask(f"https://localhost:{port}#{certificate}") == [{}]
        with pytest.raises(RequestFailed, match="certificate"):
            ask(f"https://localhost:{port}")
    with pytest.raises(UsageError, match="cannot read the certificate"):
        ask(f"https://localhost:{port}#{tmp_path / 'nothing.pem'}")


@pytest.mark.parametrize("url", ["http://localhost:port", "http://localhost:99999", "ftp://localhost"])
def test_addresses_that_make_no_sense(url: str) -> None:
    with pytest.raises(UsageError):
        HttpSession(url)


def test_large_answers_and_requests() -> None:
    text = "x" * 3_000_000
    with SseServer(lambda asked: [Head(), Send(event(asked.body[:10])), Send(event(text))]) as there:

        async def run() -> tuple[bytes, int]:
            async with HttpSession(there.url) as session:
                reply = await session.post("/x", b"y" * 5_000_000, timeout=20)
                events = []
                while found := await reply.events():
                    events += [data for _, data in found]
                reply.close()
                return events[0], len(events[1])

        assert run_loop(run()) == (b"y" * 10, len(text) + 2)
    assert len(there.asked[0].body) == 5_000_000


def test_json_that_is_not_quite_utf8() -> None:
    assert parse_json(b'{"a": ["\xff", "\\ud83d", "\\ud83c\\udf89"], "b": 1}') == {
        "a": ["\ufffd", "\ufffd", "🎉"],
        "b": 1,
    }
    with pytest.raises(ValueError, match="Expecting"):
        parse_json(b"{")
