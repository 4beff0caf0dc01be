"""KServe v2 tensors in protobuf messages: packing to and from their raw bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from trtspec.errors import RequestFailed

__all__ = ["Outputs", "add_input", "pack_strings", "unpack_strings"]

_FORMATS = {"BOOL": "?", "INT32": "i", "INT64": "q", "UINT64": "Q", "UINT32": "I", "FP32": "f", "FP64": "d"}


def pack_strings(values: Sequence[str]) -> bytes:
    """BYTES elements: each its UTF-8 bytes after their length as four little-endian bytes."""
    encoded = [value.encode("utf-8") for value in values]
    return b"".join(struct.pack("<I", len(data)) + data for data in encoded)


def unpack_strings(raw: bytes) -> list[str]:
    """The strings in `raw`; bytes that are no UTF-8 become U+FFFD; RequestFailed when lengths do not fit."""
    values, at = [], 0
    while at < len(raw):
        if at + 4 > len(raw):
            raise RequestFailed("a BYTES tensor ends inside a length", code="bad_response")
        (size,) = struct.unpack_from("<I", raw, at)
        at += 4 + size
        if at > len(raw):
            raise RequestFailed("a BYTES tensor ends inside an element", code="bad_response")
        values.append(raw[at - size : at].decode("utf-8", errors="replace"))
    return values


def add_input(message: Any, name: str, datatype: str, values: Sequence[Any]) -> None:
    """Append a tensor of shape [1, len(values)] to a `ModelInferRequest`; RequestFailed when a value does not fit."""
    try:
        raw = _packed(datatype, values)
    except UnicodeEncodeError:
        raise RequestFailed(f"{name} is not valid Unicode text", code="invalid_request") from None
    except (struct.error, OverflowError):
        given = ", ".join(str(value) for value in values)
        raise RequestFailed(f"{name} {given} does not fit {datatype}", code="invalid_request") from None
    tensor = message.inputs.add(name=name, datatype=datatype)
    tensor.shape.extend([1, len(values)])
    message.raw_input_contents.append(raw)


def _packed(datatype: str, values: Sequence[Any]) -> bytes:
    return pack_strings(values) if datatype == "BYTES" else struct.pack(f"<{len(values)}{_FORMATS[datatype]}", *values)


class Outputs:
    """The output tensors of one `ModelInferResponse`, by name; those that are not there are None."""

    def __init__(self, response: Any) -> None:
        self._tensors = {
            tensor.name: (tensor.datatype, raw)
            for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=False)
        }

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def numbers(self, name: str) -> tuple[Any, ...] | None:
        """All elements in row-major order; RequestFailed when the bytes do not fit the type."""
        if name not in self._tensors:
            return None
        datatype, raw = self._tensors[name]
        code = _FORMATS.get(datatype)
        if code is None or len(raw) % struct.calcsize(f"<{code}"):
            raise RequestFailed(f"output {name} ({datatype}) cannot be read", code="bad_response")
        return struct.unpack(f"<{len(raw) // struct.calcsize(f'<{code}')}{code}", raw)

    def number(self, name: str) -> Any | None:
        """The first element; None when the tensor is not there or is empty."""
        values = self.numbers(name)
        return values[0] if values else None

    def strings(self, name: str) -> list[str] | None:
        """All elements of a BYTES tensor."""
        return unpack_strings(self._tensors[name][1]) if name in self._tensors else None

    def text(self, name: str) -> str:
        """All elements of a BYTES tensor joined; empty when it is not there."""
        return "".join(self.strings(name) or ())

    def raw(self, name: str) -> bytes | None:
        """The raw bytes."""
        return self._tensors[name][1] if name in self._tensors else None
