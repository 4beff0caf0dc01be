"""What each model of a starting server does, told to a reporter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from trtspec.progress import Reporter, Tell

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Board"]


class Board:
    """Tells what each model does: an activity of the reporter for each, ended when it is ready."""

    def __init__(self, reporter: Reporter, models: tuple[str, ...]) -> None:
        self._reporter = reporter
        self._models = models
        self._stack = ExitStack()
        self._waiting: dict[str, tuple[ExitStack, Tell]] = {}

    def __enter__(self) -> Self:
        for model in self._models:
            own = self._stack.enter_context(ExitStack())
            self._waiting[model] = (own, own.enter_context(self._reporter.activity(model)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def tell(self, model: str, line: str) -> None:
        """What a model does now."""
        if model in self._waiting:
            self._waiting[model][1](line)

    def show(self, ready: Callable[[str], bool]) -> None:
        """End the activities of the models that are `ready`."""
        for model in [name for name in self._waiting if ready(name)]:
            own, tell = self._waiting.pop(model)
            tell("ready")
            own.close()
