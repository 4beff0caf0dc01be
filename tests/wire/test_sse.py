"""Events out of bytes that are cut anywhere."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from trtspec.wire.sse import EventSplitter


def split(*pieces: bytes) -> list[bytes]:
    splitter = EventSplitter()
    return [data for piece in pieces for data in splitter.feed(piece)]


def test_two_events_in_one_read() -> None:
    assert split(b"data: a\n\ndata: b\n\n") == [b"a", b"b"]


def test_one_event_over_two_reads() -> None:
    assert split(b"data: a", b"b\n", b"\ndata: c\n\n") == [b"ab", b"c"]


def test_a_character_cut_in_two() -> None:
    text = "data: né\n\n".encode()
    assert split(text[:8], text[8:]) == ["né".encode()]


def test_comments_other_fields_and_line_ends() -> None:
    stream = (
        b": ping\n\nevent: x\ndata: a\nid: 1\n\ndata:b\r\n\r\ndata: c\ndata: d\n\n\xef\xbb\xbfdata: e\r\rdata: f \n\n"
    )
    assert split(stream) == [b"a", b"b", b"c\nd", b"e", b"f"]
    assert split(b"retry: 10\n\n\n\ndata\n\n") == [b""]


def test_what_no_blank_line_ends() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n\ndata: [DONE]\n") == [b"a"]
    assert splitter.rest() == b"[DONE]"
    assert EventSplitter().rest() is None


_PAYLOADS = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool)
)


@given(payloads=_PAYLOADS, cuts=st.lists(st.integers(0, 400)), end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_cutting_never_changes_events(payloads: list[str], cuts: list[int], end: bytes) -> None:
    stream = b"".join(b"data: " + text.encode() + end + end for text in payloads)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert split(*pieces) == [text.strip(" ").encode() for text in payloads]
