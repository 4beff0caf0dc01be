from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from trtspec.errors import RequestFailed
from trtspec.wire.tensors import Outputs, add_input, pack_strings, unpack_strings


@given(st.lists(st.text()))
def test_strings_survive_packing(values: list[str]) -> None:
    assert unpack_strings(pack_strings(values)) == values


def test_packing_is_tritonclients() -> None:
    import numpy as np

    values = ["", "hello", "grüße 🌍"]
    encoded = np.array([value.encode() for value in values], dtype=np.object_)
    assert pack_strings(values) == serialize_byte_tensor(encoded).item()
    assert [raw.decode() for raw in deserialize_bytes_tensor(pack_strings(values))] == values


@pytest.mark.parametrize("raw", [b"\x05\x00", b"\x05\x00\x00\x00abc"])
def test_broken_strings_are_refused(raw: bytes) -> None:
    with pytest.raises(RequestFailed, match="BYTES tensor ends inside"):
        unpack_strings(raw)


def test_inputs_have_a_batch_dimension_and_raw_contents() -> None:
    message = pb.ModelInferRequest()
    add_input(message, "ids", "INT32", [1, -2, 3])
    add_input(message, "flag", "BOOL", [True])
    assert [list(tensor.shape) for tensor in message.inputs] == [[1, 3], [1, 1]]
    assert message.raw_input_contents[0] == b"\x01\0\0\0\xfe\xff\xff\xff\x03\0\0\0"
    assert message.raw_input_contents[1] == b"\x01"


def test_outputs_absent_is_none_and_wrong_size_is_an_error() -> None:
    response = pb.ModelInferResponse()
    response.outputs.add(name="n", datatype="INT32")
    response.raw_output_contents.append(b"\x07\0\0\0")
    response.outputs.add(name="broken", datatype="INT32")
    response.raw_output_contents.append(b"\x07\0")
    outputs = Outputs(response)
    assert outputs.number("n") == 7
    assert outputs.number("missing") is None
    assert outputs.text("missing") == ""
    with pytest.raises(RequestFailed, match="broken"):
        outputs.numbers("broken")


@pytest.mark.parametrize(
    ("datatype", "value"),
    [("INT32", 2**31), ("UINT64", 2**64), ("UINT64", -1), ("FP32", 1e300), ("BYTES", "a\udcff")],
)
def test_a_value_that_its_type_cannot_hold_is_a_request_that_failed(datatype: str, value: object) -> None:
    with pytest.raises(RequestFailed, match=r"^limit ") as caught:
        add_input(pb.ModelInferRequest(), "limit", datatype, [value])
    assert caught.value.code == "invalid_request"
