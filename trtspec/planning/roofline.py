"""How long a pass of a model takes on a GPU, from the bytes it reads and the operations it makes.

A pass over `sequences` × `tokens` at a context length takes, on each tensor-parallel rank,

    max(weight bytes / bandwidth, matrix operations / compute)         matrix products
  + max(KV bytes / bandwidth, attention operations / compute)          attention
  + 2 × layers × (latency + 2(tp − 1)/tp × activation bytes / interconnect)   all-reduces (tp > 1)
  + (pp − 1) × (latency + activation bytes / interconnect)             hand-over between stages (pp > 1)
  + layers × layer overhead + step overhead

with the achievable shares of the peaks and the overheads of `Assumptions`. The roofline: Williams, Waterman, Patterson,
"Roofline: an insightful visual performance model", CACM 52(4), 2009. All-reduce bytes: a ring moves 2(tp − 1)/tp of the
buffer per rank (NVIDIA/nccl-tests, doc/PERFORMANCE.md). The frontend's figures: `benchmarks/frontend_call_cost.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from trtspec.errors import UsageError
from trtspec.hardware.catalogue import Gpu
from trtspec.planning.shapes import ModelShape

__all__ = ["NO_PASS", "Assumptions", "Machine", "Pass", "PassTime", "pass_time", "prefill_time", "with_assumptions"]

# bytes of an activation between layers and ranks (float16 or bfloat16)
_ACTIVATION_BYTES = 2
# of a prompt that are costed one by one
_PIECES = 256
# what a quantization multiplies in; the others multiply in the model's own type
_COMPUTE = {"fp8": "fp8", "w4a8_awq": "fp8", "nvfp4": "nvfp4", "int8_sq": "int8"}


@dataclass(frozen=True)
class Assumptions:
    """What the model takes for granted; each can be changed with `plan --assume NAME=VALUE`."""

    bandwidth_efficiency: float = 0.8
    compute_efficiency: float = 0.65
    interconnect_efficiency: float = 0.7
    collective_latency: float = 8e-6
    layer_overhead: float = 10e-6
    step_overhead: float = 200e-6
    call_latency: float = 0.75e-3
    call_cpu: float = 0.4e-3
    token_cpu: float = 0.14e-3
    frontend_processes: float = 1.0
    recomputed_tokens: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Every assumption with its unit, its reason, and whether it is ours or the user's."""
        defaults = Assumptions()
        return {
            item.name: {
                "value": getattr(self, item.name),
                "unit": NOTES[item.name][0],
                "why": NOTES[item.name][1],
                "origin": "default" if getattr(self, item.name) == getattr(defaults, item.name) else "given",
            }
            for item in fields(self)
        }


NOTES: Mapping[str, tuple[str, str]] = {
    "bandwidth_efficiency": ("share", "of the memory's peak bandwidth that decoding kernels reach"),
    "compute_efficiency": ("share", "of the peak FLOP/s that large matrix products reach"),
    "interconnect_efficiency": ("share", "of the link's peak bandwidth that an all-reduce reaches"),
    "collective_latency": ("s", "of one all-reduce or hand-over of a few kilobytes inside a machine"),
    "layer_overhead": ("s", "launching and draining the kernels of one layer"),
    "step_overhead": ("s", "scheduling, sampling and synchronising once a pass"),
    "call_latency": (
        "s",
        "of one inner request of the frontend; measured with the embedded server on two busy cores: 0.65 to 1.04 ms",
    ),
    "call_cpu": (
        "s",
        "that an inner request keeps the frontend's process busy; measured likewise: 0.30 to 0.49 ms",
    ),
    "token_cpu": (
        "s",
        "that a streamed token of the baseline keeps it busy; measured likewise, several at once: 0.09 to 0.17 ms",
    ),
    "frontend_processes": ("processes", "instances of the frontend model that share the work"),
    "recomputed_tokens": (
        "tokens",
        "computed again a sequence and round because the cache is reused in blocks; 0: parts of blocks are reused too",
    ),
}


# by unit: what can be meant, so that all that follows stays a number
_LIMITS: Mapping[str, tuple[float, float]] = {
    "share": (1e-3, 1.0), "s": (0.0, 3600.0), "tokens": (0.0, 1e6), "processes": (1e-2, 1e6),
}  # fmt: skip


def with_assumptions(changes: Mapping[str, float]) -> Assumptions:
    """The assumptions with some changed; UsageError for a name that is none and for values that make no sense."""
    unknown = sorted(set(changes) - set(NOTES))
    if unknown:
        raise UsageError(f"no assumption is called {', '.join(unknown)}", fix=f"one of {', '.join(NOTES)}")
    for name, value in changes.items():
        unit = NOTES[name][0]
        low, high = _LIMITS[unit]
        if not low <= value <= high:
            wanted = "a share" if unit == "share" else f"a number of {unit}"
            raise UsageError(
                f"{name}={value:g} is not {wanted} from {low:g} to {high:g}",
                fix=f"--assume {name}={getattr(Assumptions(), name):g}",
            )
    return replace(Assumptions(), **changes)


@dataclass(frozen=True)
class Machine:
    """A GPU model and what is assumed of it."""

    gpu: Gpu
    assumptions: Assumptions = Assumptions()

    @property
    def bandwidth(self) -> float:
        """Bytes per second that kernels read from memory."""
        return self.gpu.bandwidth * self.assumptions.bandwidth_efficiency

    @property
    def interconnect(self) -> float:
        """Bytes per second from a GPU to the others: half of the datasheet's figure, which counts both directions."""
        return self.gpu.interconnect / 2 * self.assumptions.interconnect_efficiency

    def compute(self, dtype: str) -> float:
        """Operations per second in `dtype`; a type that the GPU does not multiply in counts as float16."""
        peak = next(self.gpu.flops[name] for name in (dtype, "float16", "float32") if name in self.gpu.flops)
        return peak * self.assumptions.compute_efficiency


@dataclass(frozen=True)
class Pass:
    """`tokens` new tokens of each of `sequences`, which have `context` tokens behind them."""

    sequences: float
    tokens: float
    context: float


@dataclass(frozen=True)
class PassTime:
    """Seconds of one pass by what they go to; `memory_bound`: the matrix products wait for memory."""

    matrices: float
    attention: float
    communication: float
    overhead: float
    memory_bound: bool

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.matrices + self.attention + self.communication + self.overhead

    def to_json(self) -> dict[str, Any]:
        """The terms in seconds."""
        return {
            "seconds": self.seconds,
            "matrices": self.matrices,
            "attention": self.attention,
            "communication": self.communication,
            "overhead": self.overhead,
            "bound": "memory" if self.memory_bound else "compute",
        }


NO_PASS = PassTime(0.0, 0.0, 0.0, 0.0, memory_bound=False)  # of a model that is not there


def pass_time(shape: ModelShape, machine: Machine, work: Pass) -> PassTime:
    """The time of one pass through all layers.

    With pp stages, pp parts of the batch are on their way at once: a part has 1/pp of the sequences (at least one)
    and passes all stages one after the other.
    """
    sequences = max(min(work.sequences, 1.0), work.sequences / shape.pp)
    tokens = sequences * work.tokens
    memory = shape.bytes_read(max(1, round(tokens))) / shape.tp / machine.bandwidth
    compute = shape.flops_per_token * tokens / shape.tp / machine.compute(compute_dtype(shape))
    assumed = machine.assumptions
    return PassTime(
        matrices=max(memory, compute),
        attention=_attention(shape, machine, Pass(sequences, work.tokens, work.context)),
        communication=_communication(shape, machine, tokens),
        overhead=shape.layers * assumed.layer_overhead + assumed.step_overhead,
        memory_bound=memory >= compute,
    )


def compute_dtype(shape: ModelShape) -> str:
    """The type that the linear layers multiply in: weight-only quantization multiplies in the model's own."""
    return _COMPUTE.get(shape.quantization, shape.dtype)


def _attention(shape: ModelShape, machine: Machine, work: Pass) -> float:
    read = shape.kv.bytes_per_sequence(round(work.context), shape.tp, bounded=True) * work.sequences
    reach = _reach(shape, round(work.context + work.tokens / 2))
    operations = shape.attention_flops(reach) * work.sequences * work.tokens / shape.tp
    return max(read / machine.bandwidth, operations / machine.compute(shape.dtype))


def _reach(shape: ModelShape, context: int) -> int:
    """Tokens that a layer looks back on, over the layers on average."""
    kv = shape.kv
    if kv.window is None or not kv.heads:
        return context
    share = kv.windowed / len(kv.heads)
    return round((1 - share) * context + share * min(context, kv.window))


def _communication(shape: ModelShape, machine: Machine, tokens: float) -> float:
    size = tokens * shape.hidden * _ACTIVATION_BYTES
    latency, total = machine.assumptions.collective_latency, 0.0
    if shape.tp > 1:
        ring = 2 * (shape.tp - 1) / shape.tp * size / machine.interconnect
        total += 2 * shape.layers * (latency + ring)
    if shape.pp > 1:
        total += (shape.pp - 1) * (latency + size / machine.interconnect)
    return total


def prefill_time(shape: ModelShape, machine: Machine, tokens: int, max_num_tokens: int) -> float:
    """Seconds to read a prompt of `tokens`, in pieces of at most `max_num_tokens`, with nothing cached.

    Of very many pieces, neighbours are taken together at the middle of what they look back on.
    """
    whole, rest = divmod(tokens, max_num_tokens)
    step = math.ceil(whole / _PIECES) or 1
    total = 0.0
    for start in range(0, whole, step):
        pieces = min(step, whole - start)
        context = (start + (pieces - 1) / 2) * max_num_tokens
        total += pieces * pass_time(shape, machine, Pass(1, max_num_tokens, context)).seconds
    last = pass_time(shape, machine, Pass(1, rest, whole * max_num_tokens)).seconds if rest else 0.0
    return total + last
