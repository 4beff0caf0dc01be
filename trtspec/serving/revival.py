"""Starting again what died: a leaf's Python process, the server, or the endpoint before it.

Seen with Triton 2.51: it never starts a dead model process again and fails every request of that model; unloading and
loading the model starts a new one within a second or two. Requests that the dead process had are never answered, and
keep the old one "unloading" for ever. The frontend gives up those of a leaf.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from trtspec.serving.control import ModelControl
from trtspec.units import duration_text

__all__ = ["MOST", "Revivals", "load_again"]

MOST = 3  # within _WINDOW seconds; more often, and there is something that has to be looked at
_WINDOW = 600.0
_WAITS = (0.0, 5.0, 30.0)  # seconds before each of them
_UNLOAD_WAIT = 2.5  # a process without requests is gone by then
_LOAD_WAIT = 600.0
_POLL = 0.1


@dataclass
class Revivals:
    """How often each thing was started again, and whether it may be once more."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    done: Counter[str] = field(default_factory=Counter)
    _times: dict[str, list[float]] = field(default_factory=dict)

    def begin(self, name: str, what: str, say: Callable[[str], None]) -> bool:
        """Say `what` happened and that it is started again, after a growing wait; False when it happens too often."""
        recent = [past for past in self._times.get(name, ()) if self.clock() - past < _WINDOW]
        if len(recent) >= MOST:
            say(f"[yellow]warning:[/] {what}, {MOST + 1} times within {duration_text(_WINDOW)}")
            return False
        wait = _WAITS[len(recent)]
        when = f"in {wait:g} s" if wait else "now"
        say(f"[yellow]warning:[/] {what}; it is started again {when} ({len(recent) + 1} of {MOST})")
        self.sleep(wait)
        self._times[name] = [*recent, self.clock()]
        self.done[name] += 1
        return True


def load_again(control: ModelControl, model: str) -> None:
    """Unload and load a leaf whose process died; ControlFailed when the server refuses."""
    control.unload(model)
    deadline = time.monotonic() + _UNLOAD_WAIT
    while control.states().get(model) == "UNLOADING" and time.monotonic() < deadline:
        time.sleep(_POLL)
    control.load(model, timeout=_LOAD_WAIT)
