"""The memory of the torch runtime: every model of an arm on one device, in the system's memory or on a GPU.

Keys and values grow with the requests, and those of finished ones are kept for reuse, up to a number of tokens that is
fixed beforehand (`torch.kv_tokens`): with enough traffic that number is reached, so the plan counts all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trtspec.planning.fit import KV_SHARE, PlanInputs, arm_roles, limits_of
from trtspec.planning.items import ArmMemory, GpuMemory, Item, KvCache
from trtspec.planning.runtime_costs import CONTEXT_BYTES, EngineSizes
from trtspec.planning.shapes import ModelShape
from trtspec.planning.torch_weights import cpu_packing, cpu_weights
from trtspec.planning.weights import dtype_bytes
from trtspec.spec import Spec
from trtspec.spec.names import Arm, Role
from trtspec.units import bytes_text

__all__ = ["LEAST_TOKENS", "fit_torch_arm", "kv_limit"]

LEAST_TOKENS = 16384  # of keys and values, the runtime's default at least
_BLOCK = 64  # sequences grow by whole blocks
_PROCESS_BYTES = 400 << 20  # Python with torch and transformers imported
_CPU_CHUNK = 256  # prompt tokens of one sequence in a pass on a CPU


def kv_limit(spec: Spec, sizes: EngineSizes) -> int:
    """Tokens of keys and values that an engine of these sizes may come to hold, of running and kept sequences.

    **Formula:** `torch.kv_tokens`, else max(max_batch_size × max_seq_len, 16384); never less than one whole request.
    """
    asked = spec.torch.kv_tokens or max(sizes.max_batch_size * sizes.max_seq_len, LEAST_TOKENS)
    return max(asked, -(-sizes.max_seq_len // _BLOCK) * _BLOCK)


def fit_torch_arm(inputs: PlanInputs, arm: Arm, *, on_cpu: bool) -> ArmMemory:
    """Lay `arm` out on one device; keys and values up to their limit, or to what there is room for."""
    roles = arm_roles(inputs.spec, arm)
    fixed = tuple(item for role in roles for item in _fixed(inputs, role, on_cpu=on_cpu))
    tokens = _tokens(inputs, roles, fixed)
    caches = tuple(_kv_item(inputs.shapes[role], role, tokens[role]) for role in roles)
    device = GpuMemory("cpu" if on_cpu else 0, inputs.gpu_name, inputs.total, (*fixed, *caches))
    enough = all(tokens[role] for role in roles)
    return ArmMemory(
        arm=arm,
        per_gpu=(device,),
        kv_cache={role: _cache(inputs.shapes[role], role, tokens[role]) for role in roles},
        limits=limits_of(inputs, tokens),
        load_order=roles,
        fits=None if inputs.total is None else enough,
        short=max(0, device.fixed - (inputs.total if inputs.total is not None else device.fixed)),
    )


def _fixed(inputs: PlanInputs, role: Role, *, on_cpu: bool) -> Iterator[Item]:
    shape, sizes = inputs.shapes[role], inputs.sizes[role]
    yield _weights(inputs.spec, role, shape, on_cpu=on_cpu)
    if on_cpu:
        table = sizes.max_seq_len * shape.kv.head_dim * 4
        formula = f"{sizes.max_seq_len} positions × {shape.kv.head_dim // 2} complex numbers × 8 B"
        yield Item(role, "weights", "rotary table", table, formula)
    width = shape.intermediate + 4 * shape.hidden
    rows = min(sizes.max_num_tokens, _CPU_CHUNK * sizes.max_batch_size) if on_cpu else sizes.max_num_tokens
    each = dtype_bytes(shape.dtype)
    formula = f"{rows} rows × (2 × {shape.intermediate} + 4 × {shape.hidden}) × {each} B"
    yield Item(
        role, "activations", "one pass", rows * (width + shape.intermediate) * each, formula, estimate=True
    )  # fmt: skip
    logits = sizes.rows * shape.vocab_size * 4 * 2
    formula = f"2 × {sizes.rows} rows × vocabulary {shape.vocab_size} × 4 B"
    yield Item(role, "decoder_buffers", "logits and probabilities", logits, formula, estimate=True)
    process = _PROCESS_BYTES if on_cpu else CONTEXT_BYTES
    what = "a Python process with torch" if on_cpu else "CUDA context and libraries of a process"
    yield Item(role, "runtime", what, process, f"about {bytes_text(process)}", estimate=True)


def _weights(spec: Spec, role: Role, shape: ModelShape, *, on_cpu: bool) -> Item:
    if not on_cpu:
        return Item(role, "weights", "weights", shape.weight_bytes, shape.weight_formula())
    # a list of ids to propose is a draft's: in a target's folder it says nothing
    found = cpu_weights(shape if role == "draft" else replace(shape, proposed=None), cpu_packing(spec, shape))
    return Item(role, "weights", "weights", found.bytes, found.formula, found.estimate)


def _tokens(inputs: PlanInputs, roles: tuple[Role, ...], fixed: tuple[Item, ...]) -> Mapping[Role, int | None]:
    """Tokens of each role: its limit, or an equal number in all where the limits together do not fit."""
    limits = {role: kv_limit(inputs.spec, inputs.sizes[role]) for role in roles}
    if inputs.total is None:
        return dict.fromkeys(roles)
    room = round((inputs.total - sum(item.bytes for item in fixed)) * KV_SHARE)
    each = {role: max(1, inputs.shapes[role].kv_bytes_per_token) for role in roles}
    if sum(limits[role] * each[role] for role in roles) <= room:
        return limits
    equal = max(0, room // sum(each.values()))
    return {role: min(limits[role], equal) for role in roles}


def _kv_item(shape: ModelShape, role: Role, tokens: int | None) -> Item:
    size, each = (tokens or 0) * shape.kv_bytes_per_token, shape.kv_bytes_per_token
    return Item(role, "kv_cache", "keys and values", size, f"{tokens or 0} tokens at most × {each} B")


def _cache(shape: ModelShape, role: Role, tokens: int | None) -> KvCache:
    return KvCache(role, shape.kv_bytes_per_token, shape.kv.formula(), tokens, None, None)
