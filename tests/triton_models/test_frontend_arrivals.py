"""Waiting for responses without the server's own wait; the real iterators are those of the Triton tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from trtspec.triton_models import frontend_arrivals
from trtspec.triton_models.frontend_arrivals import Arrivals, Buffer


class FakeBuffer(Buffer):
    def __init__(self, *, readable: bool = True) -> None:
        super().__init__(iter(()))
        self.readable = readable
        self.there = threading.Event()

    @property
    def blocks(self) -> bool:
        return not self.there.is_set()


@pytest.fixture
def arrivals() -> Iterator[Arrivals]:
    made = Arrivals()
    made.start()
    yield made
    made.close()


def waiting(arrivals: Arrivals, buffer: Buffer) -> threading.Thread:
    thread = threading.Thread(target=arrivals.wait, args=(buffer,), daemon=True)
    thread.start()
    return thread


def test_it_returns_when_a_response_is_there(arrivals: Arrivals) -> None:
    buffers = [FakeBuffer() for _ in range(20)]
    threads = [waiting(arrivals, buffer) for buffer in buffers]
    time.sleep(0.05)
    assert all(thread.is_alive() for thread in threads)
    for buffer in buffers[::2]:
        buffer.there.set()
    for thread in threads[::2]:
        thread.join(5)
    assert [thread.is_alive() for thread in threads] == [False, True] * 10
    for buffer in buffers:
        buffer.there.set()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_what_is_there_already_is_not_waited_for(arrivals: Arrivals) -> None:
    buffer = FakeBuffer()
    buffer.there.set()
    arrivals.wait(buffer)


def test_memory_that_does_not_look_as_expected_is_left_alone(arrivals: Arrivals) -> None:
    """The caller then asks the iterator itself."""
    buffer = Buffer(iter([1, 2, 3]))
    assert not buffer.readable
    buffer.confirm()
    arrivals.wait(buffer)
    arrivals.wait(FakeBuffer(readable=False))


def test_after_a_long_silence_the_iterator_is_asked_all_the_same(
    arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontend_arrivals, "_LONG", 0.05)
    arrivals.wait(FakeBuffer())
