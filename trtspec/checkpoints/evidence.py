"""What the headers of the weights show of their quantisation, held against what the configuration says.

Layouts: AutoAWQ packs columns (qweight in × out·bits/32), GPTQ packs rows (in·bits/32 × out), both as I32 with a row of
scales for each group; compressed-tensors has weight_packed; ModelOpt's NVFP4 has two values in a byte, FP8 scales for
each 16 and a second scale; FP8 weights have weight_scale, in blocks weight_scale_inv; MXFP4 has _blocks and _scales.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trtspec.checkpoints.quantization import QuantizationFacts
from trtspec.checkpoints.tensors import Tensor
from trtspec.checkpoints.weights import Weights

__all__ = ["QuantizationEvidence", "quantization_evidence"]

_SCALES = (".weight_scale", ".weight_scale_inv", ".weights_scaling_factor", ".scale_weight", ".scale", "_scale",
           "_scale_inv")  # fmt: skip
_ACTIVATION_SCALES = (".input_scale", ".activation_scaling_factor", ".act_scale")
_KV_SCALES = (".k_scale", ".v_scale", ".kv_scale", ".kv_cache_scaling_factor", ".k_proj.output_scale")
_SHOWN = 10
# algorithm of the configuration → kinds of tensors that its headers must show at least one of
_EXPECTED: dict[str, frozenset[str]] = {
    "FP8": frozenset({"fp8"}),
    "FP8_PER_CHANNEL_PER_TOKEN": frozenset({"fp8"}),
    "FP8_BLOCK_SCALES": frozenset({"fp8"}),
    "NVFP4": frozenset({"nvfp4"}),
    "W4A16_MXFP4": frozenset({"mxfp4"}),
    "W4A16_AWQ": frozenset({"packed"}),
    "W4A8_AWQ": frozenset({"packed"}),
    "W4A16_GPTQ": frozenset({"packed"}),
    "W8A16_GPTQ": frozenset({"packed", "int8"}),
}


@dataclass(frozen=True)
class QuantizationEvidence:
    """What the headers show.

    `kinds`: fp8, packed (several weights in an integer), nvfp4, mxfp4, int8, bitsandbytes → number of weights stored
    so; none for plain weights. `without_scale`: the first FP8 weights without a scale tensor, `unscaled` how many.
    `layout`, `bits`, `group_size` as shapes of packed weights show them (awq or gptq), else None. `contradictions`
    are sentences on what the configuration says otherwise.
    """

    kinds: Mapping[str, int]
    without_scale: tuple[str, ...]
    unscaled: int
    activation_scales: bool
    kv_scales: bool
    layout: str | None
    bits: int | None
    group_size: int | None
    contradictions: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        """True when headers and configuration say the same, as far as both speak."""
        return not self.contradictions


def quantization_evidence(quant: QuantizationFacts | None, weights: Weights) -> QuantizationEvidence:
    """What the headers show of the quantisation, and where `quant` (None: nothing is said) contradicts them."""
    tensors = {tensor.name: tensor for tensor in weights.tensors}
    kinds: Counter[str] = Counter()
    bare: list[str] = []
    for tensor in tensors.values():
        kind = _kind(tensor, tensors)
        if kind is not None:
            kinds[kind] += 1
        if kind == "fp8" and not _has_scale(tensor.name, tensors):
            bare.append(tensor.name)
    layout, bits, group = _packing(tensors) if kinds["packed"] else (None, None, None)
    evidence = QuantizationEvidence(
        kinds={name: count for name, count in kinds.most_common() if count},
        without_scale=tuple(bare[:_SHOWN]),
        unscaled=len(bare),
        activation_scales=any(name.endswith(_ACTIVATION_SCALES) for name in tensors),
        kv_scales=any(name.endswith(_KV_SCALES) for name in tensors),
        layout=layout,
        bits=bits,
        group_size=group,
    )
    return replace(evidence, contradictions=tuple(_contradictions(quant, evidence)))


def _kind(tensor: Tensor, tensors: Mapping[str, Tensor]) -> str | None:
    """How a weight is stored; None for plain ones and for what belongs to another (scales, zero points)."""
    name, dtype = tensor.name, tensor.dtype
    if "scale" in name or len(tensor.shape) < 2:
        return "bitsandbytes" if dtype in ("U8", "I8") and f"{name}.absmax" in tensors else None
    if dtype.startswith("F8_E"):
        return "fp8"
    if dtype == "I32":
        return "packed" if name.endswith((".qweight", ".weight_packed")) else None
    if dtype == "U8":
        return _bytes_kind(name, tensors)
    if dtype == "I8" and name.endswith(".weight"):
        return "bitsandbytes" if f"{name.removesuffix('weight')}SCB" in tensors else "int8"
    return None


def _bytes_kind(name: str, tensors: Mapping[str, Tensor]) -> str | None:
    if name.endswith("_blocks"):
        return "mxfp4"
    if f"{name}.absmax" in tensors:
        return "bitsandbytes"
    stem = name.removesuffix("_packed")
    scale = tensors.get(f"{stem}_scale")
    if scale is not None:
        return "nvfp4" if scale.dtype.startswith("F8_E") else "packed"
    return "packed" if name.endswith((".weight", ".weight_packed")) else None


def _has_scale(name: str, tensors: Mapping[str, Tensor]) -> bool:
    stem = name.removesuffix(".weight")
    return any(f"{stem}{suffix}" in tensors for suffix in _SCALES)


def _packing(tensors: Mapping[str, Tensor]) -> tuple[str | None, int | None, int | None]:
    """Layout, bits and group size of the first packed weight whose scales and zero points are beside it."""
    for name, packed in tensors.items():
        stem = name.removesuffix(".qweight")
        scales, zeros = tensors.get(f"{stem}.scales"), tensors.get(f"{stem}.qzeros")
        if stem == name or scales is None or len(packed.shape) != 2 or len(scales.shape) != 2:
            continue
        rows, columns = packed.shape
        groups, out = scales.shape
        if columns != out:
            return "awq", _whole(32 * columns, out), _whole(rows, groups)
        bits = _whole(32 * zeros.shape[1], out) if zeros is not None and len(zeros.shape) == 2 else None
        return "gptq", bits, _whole(rows * 32 // bits, groups) if bits else None
    return None, None, None


def _whole(number: int, by: int) -> int | None:
    return number // by if by and number % by == 0 else None


def _contradictions(quant: QuantizationFacts | None, found: QuantizationEvidence) -> Iterator[str]:
    shown = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    if found.unscaled:
        yield f"{found.unscaled} FP8 weights have no scale beside them, e.g. {found.without_scale[0]}"
    if quant is None:
        if found.kinds:
            yield f"the configuration says nothing of quantization, the headers show {shown} weights"
        return
    said = f"{quant.source} says {quant.method}" + (f" ({quant.algo})" if quant.algo else "")
    expected = _EXPECTED.get(quant.algo or "")
    if expected and not expected & found.kinds.keys():
        yield f"{said}, the headers show {shown or 'plain'} weights"
    yield from _packing_contradictions(quant, found, said)
    if quant.algo == "FP8" and quant.dynamic is False and not found.activation_scales:
        yield f"{said} with static activation scales, the headers hold none (input_scale)"


def _packing_contradictions(quant: QuantizationFacts, found: QuantizationEvidence, said: str) -> Iterator[str]:
    if found.layout in ("awq", "gptq") and quant.method in ("awq", "gptq") and quant.method != found.layout:
        yield f"{said}, the weights are packed as {found.layout} packs them"
    if found.bits is not None and quant.bits is not None and found.bits != quant.bits:
        yield f"{said} with {quant.bits} bits, the shapes are those of {found.bits} bits"
    group = quant.group_size
    if found.group_size is not None and group is not None and group > 0 and found.group_size != group:
        yield f"{said} with groups of {group}, the shapes are those of groups of {found.group_size}"
