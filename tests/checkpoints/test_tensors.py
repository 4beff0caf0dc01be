"""safetensors headers: what the format's own reader refuses, this one refuses too, and says why."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from trtspec.checkpoints.tensors import read_safetensors_header
from trtspec.errors import CheckpointError

GOOD = save({"a": np.zeros((2, 3), np.float32), "b": np.ones(4, np.float16)}, {"format": "pt"})


def file_of(header: dict[str, Any] | bytes, data: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(shape: list[int], start: int, stop: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty (0 bytes)"),
    "seven bytes": (b"\x01" * 7, "too few for a safetensors file"),
    "header beyond the file": (struct.pack("<Q", 5000) + b"{}", "its header alone needs 5008"),
    "absurd header": (b"\xff" * 16, "is not a safetensors file"),
    "pickle": (b"PK\x03\x04" + b"\x00" * 100, "is not a safetensors file"),
    "header not JSON": (file_of(b"{nonsense", b""), "header is not JSON"),
    "header not UTF-8": (file_of(b'{"\xff": 1}', b""), "header is not JSON"),
    "header a list": (file_of(b"[]", b""), "not a JSON object"),
    "NaN": (file_of(b'{"a": NaN}', b""), "has NaN in its header"),
    "no offsets": (file_of({"a": {"dtype": "F32", "shape": [1]}}, b"1234"), "lacks dtype, shape or data_offsets"),
    "unknown type": (file_of({"a": entry([1], 0, 4, "F31")}, b"1234"), "unknown type 'F31'"),
    "negative shape": (file_of({"a": entry([-1], 0, 4)}, b"1234"), "not whole numbers"),
    "fractional shape": (file_of({"a": {**entry([1], 0, 4), "shape": [1.0]}}, b"1234"), "not whole numbers"),
    "size does not fit": (file_of({"a": entry([2], 0, 4)}, b"1234"), "needs 8 bytes, the file has 4"),
    "size beyond any float": (file_of({"a": entry([1 << 63] * 40, 0, 4)}, b"1234"), "bytes, the file has 4"),
    "dimensions without end": (file_of({"a": entry([1 << 63] * 100_000, 0, 4)}, b"1234"), "not whole numbers"),
    "half a byte": (file_of({"a": entry([3], 0, 1, "F4")}, b"1"), "needs 12/8 bytes, the file has 1"),
    "overlap": (file_of({"a": entry([1], 0, 4), "b": entry([1], 2, 6)}, b"123456"), "overlaps the one before it"),
    "hole": (file_of({"a": entry([1], 0, 4), "b": entry([1], 6, 10)}, b"1234567890"), "leaves a hole of 2 bytes"),
    "cut data": (GOOD[:-3], "is cut off: 3 bytes of tensor data are missing"),
    "cut header": (GOOD[:20], "is cut off"),
    "trailing bytes": (GOOD + b"xy", "2 bytes that belong to no tensor"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}, b""), "does not map text to text"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_its_fault(tmp_path: Path, case: str) -> None:
    content, expected = BAD_FILES[case]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_safetensors_header(path)
    assert expected in caught.value.message
    assert caught.value.where == str(path)
    assert caught.value.fix


def test_names_shapes_types_and_sizes_in_file_order(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD)
    tensors = {tensor.name: tensor for tensor in read_safetensors_header(path)}
    assert (tensors["a"].shape, tensors["a"].dtype, tensors["a"].size, tensors["a"].count) == ((2, 3), "F32", 24, 6)
    assert (tensors["b"].shape, tensors["b"].dtype, tensors["b"].size, tensors["b"].file) == ((4,), "F16", 8, path.name)


def test_only_the_header_is_read(tmp_path: Path) -> None:
    """A sparse file of 64 GiB: reading its data would take minutes."""
    size = 1 << 36
    header = json.dumps({"w": entry([size // 4], 0, size)}).encode()
    path = tmp_path / "model.safetensors"
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        stream.truncate(8 + len(header) + size)
    [tensor] = read_safetensors_header(path)
    assert tensor.size == size


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_the_format_refuses_is_refused_here(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(-4, len(content)))
    changed = bytes(content) + b"z" * -cut if cut < 0 else bytes(content[: len(content) - cut])
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(changed)
    assert accepts(path) == format_accepts(changed)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "__metadata__"),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "BF16", "U8", "I64", "F4", "C64", "X"]),
                "shape": st.lists(st.integers(0, 3), max_size=3),
                "data_offsets": st.lists(st.integers(0, 24), min_size=2, max_size=2),
            }
        ),
        max_size=3,
    ),
    st.integers(0, 32),
)
@example({"a": entry([1], 0, 4), "b": entry([0], 4, 4)}, 4)
@example({"a": entry([3], 0, 2, "F4")}, 2)
def test_headers_are_judged_like_the_format_judges_them(
    tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any], size: int
) -> None:
    content = file_of(header, b"\0" * size)
    path = tmp_path_factory.getbasetemp() / "made.safetensors"
    path.write_bytes(content)
    assert accepts(path) == format_accepts(content)


def accepts(path: Path) -> bool:
    try:
        read_safetensors_header(path)
    except CheckpointError:
        return False
    return True


def format_accepts(content: bytes) -> bool:
    try:
        deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError:
        return False
    return True
