"""Bytes of a model's weights as the torch runtime keeps them (`trtspec.torch_runtime.linear` packs them on a CPU).

On a CPU every matrix is packed: FBGEMM in blocks of 512 inputs and 16 outputs, filled up with zeros, 2 bytes a weight
(float16) or 1 (int8, with 12 bytes of scales and sums an output); oneDNN 4 bytes, nothing filled up. Plain Llamas keep
the embedding as it is stored, other families in float32; norms and biases are float32. On CUDA all weights are there
once, in the model's type.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trtspec.planning.shapes import ModelShape
from trtspec.planning.weights import dtype_bytes
from trtspec.spec import Spec
from trtspec.units import bytes_text

__all__ = ["CpuWeights", "Packing", "cpu_packing", "cpu_weights", "packed_bytes"]

Packing = Literal["half", "int8", "onednn", "either"]
_EACH: dict[Packing, tuple[int, str]] = {
    "half": (2, "float16"), "int8": (1, "8 bits"), "onednn": (4, "float32"), "either": (4, "float32"),
}  # fmt: skip
_INPUTS, _OUTPUTS = 512, 16  # FBGEMM's blocks
_SCALES = 12  # bytes an output: scale, zero point, sum of the column
_FUSED_FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_X86 = frozenset({"x86_64", "amd64"})


@dataclass(frozen=True)
class CpuWeights:
    """Bytes, how they come about, and whether only the values of the weights tell more."""

    bytes: int
    formula: str
    estimate: bool


def cpu_packing(spec: Spec, shape: ModelShape, machine: str | None = None) -> Packing:
    """The form of the matrices; of what is stored in bfloat16 only the values tell whether float16 holds them: either.

    `machine`: its processor as `platform.machine` names it; builds of PyTorch for others than x86 have no FBGEMM.
    """
    if (machine or platform.machine()).lower() not in _X86:
        return "onednn"
    if spec.torch.weights == "int8":
        return "int8"
    if spec.torch.weights == "float16" or shape.file_dtype == "float16":
        return "half"
    return "either" if shape.file_dtype == "bfloat16" else "onednn"


def packed_bytes(outputs: int, inputs: int, packing: Packing) -> int:
    """Bytes of one packed matrix [outputs, inputs]; of either form those of the larger."""
    if packing == "either":
        return max(packed_bytes(outputs, inputs, "half"), packed_bytes(outputs, inputs, "onednn"))
    each, _ = _EACH[packing]
    if packing == "onednn":
        return outputs * inputs * each
    filled = _blocks(outputs, _OUTPUTS) * _blocks(inputs, _INPUTS) * each
    return filled + (_SCALES * outputs if packing == "int8" else 0)


def cpu_weights(shape: ModelShape, packing: Packing) -> CpuWeights:
    """All weights of a model on a CPU, its embedding and its packed head included."""
    layers = sum(packed_bytes(*matrix, packing) for matrix in _matrices(shape))
    lean = shape.model_type in _FUSED_FAMILIES
    outputs = shape.vocab_size if shape.proposed is None or not lean else shape.proposed
    head = packed_bytes(outputs, shape.hidden, packing)
    embedding = shape.parameters["embedding"] * (dtype_bytes(shape.file_dtype) if lean else 4)
    # what is no matrix of the layers: norms, biases, and experts, which transformers keeps as they are
    rest = 4 * sum(shape.parameters.get(name, 0) for name in ("norms", "other", "experts")) + 4 * _biases(shape)
    each, word = _EACH[packing]
    blocks = f" in blocks of {_INPUTS} inputs" if packing in {"half", "int8"} else ""
    formula = (
        f"matrices of the layers × {each} B ({word}{blocks}) {bytes_text(layers)}; head {outputs} × {shape.hidden} "
        f"packed alike {bytes_text(head)}; embedding {bytes_text(embedding)}; norms and others × 4 B {bytes_text(rest)}"
    )
    unknown = packing == "either"
    if unknown:
        formula += "; half of the matrices' bytes where float16 holds every weight"
    return CpuWeights(layers + head + embedding + rest, formula, unknown or not lean)


def _matrices(shape: ModelShape) -> Iterator[tuple[int, int]]:
    """Outputs and inputs of every matrix in the layers, as far as the sizes tell."""
    heads, size = shape.heads * shape.kv.head_dim, shape.kv.head_dim
    if shape.model_type not in _FUSED_FAMILIES:
        yield from _unknown_matrices(shape)
        return
    for kv_heads in shape.kv.heads:
        yield heads + 2 * kv_heads * size, shape.hidden
        yield shape.hidden, heads
        yield 2 * shape.intermediate, shape.hidden
        yield shape.hidden, shape.intermediate


def _unknown_matrices(shape: ModelShape) -> Iterator[tuple[int, int]]:
    """A family that is not known: its matrices as if all had `hidden` inputs."""
    for name in ("attention", "mlp"):
        if count := shape.parameters.get(name, 0):
            yield math.ceil(count / shape.hidden), shape.hidden


def _biases(shape: ModelShape) -> int:
    """Parameters of attention and MLP that are no matrix."""
    counted = sum(outputs * inputs for outputs, inputs in _matrices(shape))
    return max(0, sum(shape.parameters.get(name, 0) for name in ("attention", "mlp")) - counted)


def _blocks(count: int, block: int) -> int:
    return math.ceil(count / block) * block
