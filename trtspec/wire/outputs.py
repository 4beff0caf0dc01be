"""A response's outputs by name, whatever they came in: KServe v2 tensors or the JSON of `generate_stream`."""

from __future__ import annotations

from typing import Any, Protocol

from trtspec.errors import RequestFailed
from trtspec.wire.messages import ServerStamps

__all__ = ["JsonOutputs", "NamedOutputs", "server_stamps", "whole_number"]

# field → output of TensorRT-LLM's models, with `return_perf_metrics`
_STAMPS = {
    "arrival_ns": "arrival_time_ns",
    "first_scheduled_ns": "first_scheduled_time_ns",
    "first_token_ns": "first_token_time_ns",
    "last_token_ns": "last_token_time_ns",
}


class NamedOutputs(Protocol):
    """What readers ask of a response; `tensors.Outputs` is the other one."""

    def __contains__(self, name: object) -> bool: ...

    def numbers(self, name: str) -> tuple[Any, ...] | None:
        """All elements; None when the output is not there."""
        ...

    def number(self, name: str) -> Any | None:
        """The first element; None when there is none."""
        ...

    def strings(self, name: str) -> list[str] | None:
        """All elements of a text."""
        ...

    def text(self, name: str) -> str:
        """All elements of a text joined; empty when it is not there."""
        ...


class JsonOutputs(dict[str, Any]):
    """The outputs in one event of `generate_stream`: an element alone comes without its list."""

    def numbers(self, name: str) -> tuple[Any, ...] | None:
        """All elements."""
        value = self.get(name)
        return None if value is None else tuple(value) if isinstance(value, list) else (value,)

    def number(self, name: str) -> Any | None:
        """The first element."""
        value = self.get(name)
        return (value[0] if value else None) if isinstance(value, list) else value

    def strings(self, name: str) -> list[str] | None:
        """All elements as texts."""
        values = self.numbers(name)
        return None if values is None else [str(value) for value in values]

    def text(self, name: str) -> str:
        """All elements joined."""
        value = self.get(name)
        return value if isinstance(value, str) else "".join(self.strings(name) or ())


def server_stamps(outputs: NamedOutputs) -> ServerStamps | None:
    """The server's own times; None when it sends none."""
    if _STAMPS["arrival_ns"] not in outputs and _STAMPS["first_token_ns"] not in outputs:
        return None
    values = {field: whole_number(outputs, name) for field, name in _STAMPS.items()}
    # TensorRT-LLM fills what it did not measure with 0
    return ServerStamps(**{field: value or None for field, value in values.items()})


def whole_number(outputs: NamedOutputs, name: str) -> int | None:
    """An output as an integer, None when it is none; also where a model sends numbers as texts (llmapi does)."""
    try:
        value = outputs.number(name)
    except RequestFailed:  # a text
        value = outputs.text(name)
    try:
        return None if value is None else int(value)
    except (OverflowError, TypeError, ValueError):
        return None
