"""HTTP answers out of bytes that are cut anywhere."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.wire.http_framing import BadAnswer, Body, body_of, read_head

OK = b"HTTP/1.1 200 OK\r\n"


def received(*pieces: bytes) -> tuple[bytes, Body]:
    """The body that has come of an answer in `pieces`, and its framing."""
    kept, parts, body = b"", [], None
    for piece in pieces:
        rest = piece
        if body is None:
            kept += piece
            read = read_head(kept)
            if read is None:
                continue
            head, rest = read
            body = body_of(head)
        parts.append(body.feed(rest))
    assert body is not None
    return b"".join(parts), body


def test_head() -> None:
    assert read_head(b"HTTP/1.1 200 OK\r\nContent-Type: text") is None
    read = read_head(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nX-A:  b \r\nX-C: d: e\r\n\r\nrest")
    assert read is not None
    head, rest = read
    assert (head.status, head.headers, head.keeps, rest) == (404, {"x-a": "b", "x-c": "d: e"}, True, b"rest")


@pytest.mark.parametrize(
    ("lines", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\n\r\n", False),
        (b"HTTP/1.0 200\r\nConnection: Keep-Alive\r\n\r\n", True),
    ],
)
def test_whether_a_connection_is_kept(lines: bytes, keeps: bool) -> None:
    read = read_head(lines)
    assert read is not None
    assert read[0].keeps is keeps


def test_lengths() -> None:
    body, framing = received(OK + b"Content-Length: 5\r\n\r\nab", b"cdeXX")
    assert (body, framing.done, framing.closes) == (b"abcde", True, False)
    assert received(OK + b"Content-Length: 0\r\n\r\n")[1].done
    assert received(b"HTTP/1.1 204 No Content\r\n\r\n")[1].done
    body, framing = received(OK + b"\r\nab", b"cd")
    assert (body, framing.done, framing.closes) == (b"abcd", False, True)


def test_chunks_with_extensions_and_trailers() -> None:
    stream = b"Transfer-Encoding: Chunked\r\n\r\n3;name=x\r\nabc\r\n1\r\n\n\r\n0\r\nX-Sum: 1\r\n\r\n"
    body, framing = received(OK + stream)
    assert (body, framing.done) == (b"abc\n", True)


@given(chunks=st.lists(st.binary(min_size=1, max_size=40)), cuts=st.lists(st.integers(0, 600)), trailer=st.booleans())
def test_cutting_never_changes_a_body(chunks: list[bytes], cuts: list[int], trailer: bool) -> None:
    framed = b"".join(b"%X\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    end = b"0\r\n" + (b"A: b\r\n" if trailer else b"") + b"\r\n"
    stream = OK + b"Transfer-Encoding: chunked\r\n\r\n" + framed + end
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    body, framing = received(*(stream[a:b] for a, b in itertools.pairwise(places)))
    assert body == b"".join(chunks)
    assert framing.done
    _, part = received(stream[:-1])
    assert not part.done


@pytest.mark.parametrize(
    "pieces",
    [
        [b"220 mail.example ESMTP\r\n\r\n"],
        [b"HTTP/1.1 abc\r\n\r\n"],
        [b"x" * 70_000],
        [OK + b"Content-Length: -1\r\n\r\n"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000],
    ],
)
def test_what_is_no_http(pieces: list[bytes]) -> None:
    with pytest.raises(BadAnswer):
        received(*pieces)
