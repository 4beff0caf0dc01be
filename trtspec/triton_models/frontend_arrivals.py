"""Waiting for the next response of a streaming inner request, outside of the server's own wait.

The Python backend's response iterator (pb_response_iterator.cc, Triton 24.10 to 2026) waits with its mutex held, and
holds it on while it takes back the interpreter lock. When another response for it arrives in that moment, and another
thread that has the interpreter lock begins or ends an inner request (both take the mutex of the table of iterators),
the three wait for each other and the process stands still for ever; seen within seconds with 32 clients. An iterator
that has a response already does not wait. So its buffer is looked at from here, and it is asked when it has one.

The buffer is a std::deque in the C++ object behind the Python one; how it lies in memory is checked with each
iterator, whose first response is known to be there. Where it does not look as expected, or nothing has come for long,
the iterator is asked all the same, as everybody else does.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

__all__ = ["Arrivals", "Buffer"]

# A pybind11 object holds the address of its C++ object after the Python object's head.
_POINTER = object.__basicsize__
# A vector of the responses taken (3 words); the deque: map, its size, begin and end (4 words each); mutex (5 words),
# condition (6 words), id, then two bools, the first of which says that the last response was taken.
_MAP_SIZE, _BEGIN, _END, _FINISHED = 32, 40, 72, 200
_EMPTY_MAP = 8  # blocks that a new deque has room for
_RESPONSE = 16  # a std::shared_ptr
_MOST = 32  # more responses than this do not fit into one block
_POLL = 0.001
_LONG = 30.0


class Buffer:
    """The buffer of one iterator, as it was when its first response had come."""

    def __init__(self, iterator: Any) -> None:
        self.readable = False
        if type(iterator).__name__ != "ResponseIterator" or ctypes.sizeof(ctypes.c_void_p) != 8:
            return
        address = ctypes.c_uint64.from_address(id(iterator) + _POINTER).value
        self._finished = ctypes.c_uint8.from_address(address + _FINISHED)
        self._begin = ctypes.c_uint64.from_address(address + _BEGIN)
        self._end = ctypes.c_uint64.from_address(address + _END)
        size = self._end.value - self._begin.value
        known = ctypes.c_uint64.from_address(address + _MAP_SIZE).value == _EMPTY_MAP and self._finished.value == 0
        self.readable = known and 0 < size <= _RESPONSE * _MOST and size % _RESPONSE == 0
        self._first = self._begin.value

    def confirm(self) -> None:
        """After the first response was taken: it was the last one, or the beginning has moved by one."""
        ended = self.readable and self._finished.value == 1
        self.readable = ended or (self.readable and self._begin.value - self._first == _RESPONSE)

    @property
    def blocks(self) -> bool:
        """Whether asking for a response would wait: none is there, and the last one has not been taken."""
        return self._begin.value == self._end.value and not self._finished.value


class _Waiter:
    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.lock = threading.Lock()
        self.lock.acquire()
        self.until = time.monotonic() + _LONG


class Arrivals:
    """One thread that looks at the buffers of all streams that wait."""

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._look, name="arrivals", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop it."""
        self._closing = True
        self._work.set()

    def wait(self, buffer: Buffer) -> None:
        """Return when the iterator can be asked for its next response."""
        if not buffer.readable or not buffer.blocks:
            return
        waiter = _Waiter(buffer)
        with self._lock:
            self._waiting.append(waiter)
        self._work.set()
        waiter.lock.acquire()

    def _look(self) -> None:
        while not self._closing:
            if not self._waiting:
                self._work.clear()
                if not self._waiting:
                    self._work.wait()
            time.sleep(_POLL)
            now = time.monotonic()
            ready = [waiter for waiter in self._waiting if not waiter.buffer.blocks or now > waiter.until]
            if ready:
                with self._lock:
                    self._waiting = [waiter for waiter in self._waiting if waiter not in ready]
                for waiter in ready:
                    waiter.lock.release()
