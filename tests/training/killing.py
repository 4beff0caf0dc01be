"""Distillations in processes of their own that kill themselves at a chosen place."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.training.toys import toy_plan
from trtspec.progress import SilentReporter
from trtspec.training.distil import Distillation, distil

__all__ = ["run_killed"]


_SLOW = ("torch", "transformers.models.llama.modeling_llama", "transformers.models.auto.tokenization_auto")


def run_killed(folder: Path, place: str, count: int) -> int:
    """Distil the toy plan in a process of its own, which SIGKILL ends at the count-th passing of a place.

    Returns the process's exit code: -9 after the kill, 0 when it came to its end before.
    """
    context = multiprocessing.get_context("forkserver")
    # a fresh process has PyTorch loaded already and no threads of it running
    context.set_forkserver_preload([*_SLOW, "trtspec.training.distil"])
    process = context.Process(target=_distil_and_die, args=(folder, place, count))
    process.start()
    process.join(300)
    assert process.exitcode is not None
    return process.exitcode


def killed_plan(folder: Path) -> Distillation:
    """The toy plan with a state on disk after every step."""
    plan = toy_plan(folder)
    return replace(plan, training=replace(plan.training, checkpoint_seconds=0))


def _distil_and_die(folder: Path, place: str, count: int) -> None:
    import torch

    torch.set_num_threads(1)
    left = count

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if place == "write":
        _before(os, "fsync", passed)  # a file is whole in its temporary place, not in its own
    elif place == "rename":
        _before(Path, "replace", passed)
    elif place == "folder":
        _before(Path, "rename", passed)
    distil(killed_plan(folder), _Reporter(passed if place == "step" else lambda: None))


def _before(owner: Any, name: str, call: Callable[[], None]) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any) -> Any:
        call()
        return original(*arguments)

    setattr(owner, name, wrapped)


class _Reporter(SilentReporter):
    """Calls back whenever a training tells that it made a step."""

    def __init__(self, stepped: Callable[[], None]) -> None:
        self._stepped = stepped

    @contextmanager
    def activity(self, label: str) -> Iterator[Callable[[str], None]]:
        del label
        yield lambda _line: self._stepped()
