"""The memory of the torch runtime: every model of an arm on one device, in the system's memory or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.planning.fit import KV_SHARE, PlanInputs, arm_roles, limits_of
from trtspec.planning.items import ArmMemory, GpuMemory, Item, KvCache
from trtspec.planning.runtime_costs import CONTEXT_BYTES
from trtspec.planning.shapes import ModelShape
from trtspec.planning.weights import dtype_bytes
from trtspec.spec.names import Arm, Role
from trtspec.units import bytes_text

__all__ = ["CACHE_TOKENS", "fit_torch_arm"]

CACHE_TOKENS = 16384  # finished sequences kept for reuse, the runtime's default
_PROCESS_BYTES = 400 << 20  # Python with torch and transformers imported
_CPU_CHUNK = 256  # prompt tokens of one sequence in a pass on a CPU


def fit_torch_arm(inputs: PlanInputs, arm: Arm, *, on_cpu: bool) -> ArmMemory:
    """Lay `arm` out on one device; caches grow as sequences need them, so there are no fractions."""
    roles = arm_roles(inputs.spec, arm)
    fixed = tuple(item for role in roles for item in _fixed(inputs, role, on_cpu=on_cpu))
    tokens = _tokens(inputs, roles, fixed)
    caches = tuple(_kv_item(inputs.shapes[role], role, tokens) for role in roles)
    device = GpuMemory("cpu" if on_cpu else 0, inputs.gpu_name, inputs.total, (*fixed, *caches))
    enough = inputs.total is not None and tokens is not None and tokens > 0
    return ArmMemory(
        arm=arm,
        per_gpu=(device,),
        kv_cache={role: _cache(inputs.shapes[role], role, tokens) for role in roles},
        limits=limits_of(inputs, dict.fromkeys(roles, tokens)),
        load_order=roles,
        fits=None if inputs.total is None else enough,
        short=max(0, device.fixed - (inputs.total if inputs.total is not None else device.fixed)),
    )


def _fixed(inputs: PlanInputs, role: Role, *, on_cpu: bool) -> Iterator[Item]:
    shape, sizes = inputs.shapes[role], inputs.sizes[role]
    weights, formula = shape.weight_bytes, shape.weight_formula()
    if shape.tied and on_cpu:  # the head is packed for its products, the embedding stays for look-ups
        weights += round(shape.class_bytes("embedding"))
        formula += "; the tied embedding once more, packed as head"
    yield Item(role, "weights", "weights", weights, formula)
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


def _tokens(inputs: PlanInputs, roles: tuple[Role, ...], fixed: tuple[Item, ...]) -> int | None:
    """Tokens that can be kept: all sequences at full length and the kept ones, or as many as there is room for."""
    if inputs.total is None:
        return None
    wanted = max(inputs.sizes[role].max_batch_size * inputs.sizes[role].max_seq_len for role in roles) + CACHE_TOKENS
    left = inputs.total - sum(item.bytes for item in fixed)
    each = sum(inputs.shapes[role].kv_bytes_per_token for role in roles)
    return max(0, min(wanted, round(left * KV_SHARE) // max(1, each)))


def _kv_item(shape: ModelShape, role: Role, tokens: int | None) -> Item:
    size, each = (tokens or 0) * shape.kv_bytes_per_token, shape.kv_bytes_per_token
    return Item(role, "kv_cache", "keys and values", size, f"{tokens or 0} tokens at most × {each} B")


def _cache(shape: ModelShape, role: Role, tokens: int | None) -> KvCache:
    return KvCache(role, shape.kv_bytes_per_token, shape.kv.formula(), tokens, None, None)
