"""Laying an arm out on its GPUs: fixed items, what is left for keys and values, fractions in load order, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trtspec.planning.items import ArmMemory, GpuMemory, Item, KvCache, Limits, SequenceRoom
from trtspec.planning.placement import Launch, Placement
from trtspec.planning.runtime_costs import (
    EngineSizes,
    activation_item,
    buffer_items,
    context_item,
    driver_item,
    nccl_item,
    triton_item,
)
from trtspec.planning.shapes import ModelShape
from trtspec.spec import Spec
from trtspec.spec.names import Arm, Role

__all__ = [
    "KV_SHARE",
    "LOAD_ORDERS",
    "Load",
    "LoadOutcome",
    "PlanInputs",
    "arm_roles",
    "fit_arm",
    "limits_of",
    "simulate_load",
]

KV_SHARE = 0.9  # of what is left: TensorRT-LLM's own default leaves a tenth for what nobody counted
# the first is planned; Triton loads models in parallel, so the other one can happen
LOAD_ORDERS: tuple[tuple[Role, Role], ...] = (("draft", "target"), ("target", "draft"))


@dataclass(frozen=True)
class PlanInputs:
    """All that a layout depends on. `total` bytes of one GPU, None when it is not known; `count` GPUs.

    `max_seq_len` tokens of a request, prompt and answer together, and why so many.
    """

    spec: Spec
    shapes: Mapping[Role, ModelShape]
    sizes: Mapping[Role, EngineSizes]
    max_seq_len: int
    length_why: str
    gpu_name: str
    total: int | None
    count: int
    sm: int | None = None


@dataclass(frozen=True)
class Load:
    """A model that is about to be loaded: bytes before its KV cache, the fraction it asks for, and its cap in bytes."""

    role: str
    fixed: int
    fraction: float
    cap: int | None = None


@dataclass(frozen=True)
class LoadOutcome:
    """What became of it: free bytes when the fraction was taken, and the KV cache that it got (None: no memory)."""

    role: str
    free: int
    kv_bytes: int | None


def simulate_load(total: int, loads: Sequence[Load]) -> tuple[LoadOutcome, ...]:
    """Load one model after the other on a GPU: each takes its fraction of what is free after its own fixed part.

    With a cap (max_tokens_in_paged_kv_cache) the smaller of the two is taken.

    Source: kv_cache_free_gpu_mem_fraction is a share of the memory that is free at that moment, not of the GPU
    (NVIDIA/TensorRT-LLM#486, #2322, #3497).
    """
    outcomes, free = [], total
    for load in loads:
        free -= load.fixed
        taken = math.floor(free * load.fraction) if free >= 0 else None
        if taken is not None and load.cap is not None:
            taken = min(taken, load.cap)
        outcomes.append(LoadOutcome(load.role, free, taken))
        free -= taken or 0
    return tuple(outcomes)


def arm_roles(spec: Spec, arm: Arm) -> tuple[Role, ...]:
    """The roles of an arm in the planned load order."""
    return _orders(spec)[0] if arm == "speculative" else ("baseline",)


def _orders(spec: Spec) -> tuple[tuple[Role, ...], ...]:
    """The load orders of the speculative arm."""
    return LOAD_ORDERS if spec.draft.is_model else (("target",),)


def fit_arm(inputs: PlanInputs, placement: Placement, arm: Arm) -> ArmMemory:
    """Lay `arm` out: on each GPU all fixed items, then as many tokens of keys and values as fit.

    Target and draft get room for the same number of tokens: a sequence needs both caches. `KV_SHARE` of what is left
    is used. Where the fixed items alone are too large nothing is left, and `short` says by how much.
    """
    roles = arm_roles(inputs.spec, arm)
    fixed = {gpu: list(_fixed(inputs, placement, arm, gpu)) for gpu in _arm_gpus(placement, roles)}
    tokens = {role: _tokens(inputs, placement, roles, role, fixed) for role in roles}
    target, draft = tokens.get("target"), tokens.get("draft")
    if target is not None and draft is not None:
        tokens["draft"] = min(draft, target)
    per_gpu = tuple(_gpu(inputs, placement, gpu, fixed[gpu], tokens) for gpu in fixed)
    missing = [gpu.fixed - gpu.total for gpu in per_gpu if gpu.total is not None]
    enough = all(count is None or count > 0 for count in tokens.values())
    return ArmMemory(
        arm=arm,
        per_gpu=per_gpu,
        kv_cache={role: _cache(inputs, placement, role, per_gpu, tokens[role]) for role in roles},
        limits=limits_of(inputs, {role: tokens[role] for role in roles}),
        load_order=roles,
        fits=None if inputs.total is None else enough and not placement.problems,
        short=max(0, *missing, 0),
    )


def _arm_gpus(placement: Placement, roles: Sequence[Role]) -> tuple[int, ...]:
    return tuple(sorted({gpu for role in roles for gpu in placement.roles[role].gpus}))


def _ranks(placement: Placement, role: Role, gpu: int) -> tuple[int, ...]:
    return placement.roles[role].ranks_on(gpu)


def _fixed(inputs: PlanInputs, placement: Placement, arm: Arm, gpu: int) -> Iterator[Item]:
    launch = placement.launches[arm]
    here = [(role, rank) for role in arm_roles(inputs.spec, arm) for rank in _ranks(placement, role, gpu)]
    for role, rank in here:
        yield from _role_items(inputs, role, rank)
        if launch.mode != "direct":
            yield context_item(role)
    yield from _server_items(launch)
    if inputs.total is not None:
        yield driver_item(inputs.total)


def _server_items(launch: Launch) -> Iterator[Item]:
    """What the server process itself has on each GPU."""
    if launch.mode == "direct":
        yield context_item("server")
    if not launch.spawns:  # the orchestrator that spawns is started with empty pools
        yield triton_item()


def _role_items(inputs: PlanInputs, role: Role, rank: int) -> Iterator[Item]:
    shape, sizes = inputs.shapes[role], inputs.sizes[role]
    yield Item(role, "weights", "weights", shape.rank_weight_bytes(rank), shape.weight_formula(rank))
    yield activation_item(role, shape, sizes)
    if rank // shape.tp == shape.pp - 1:
        yield from buffer_items(role, shape, sizes, logits=inputs.spec.speculation.acceptance == "logits")
    nccl = nccl_item(role, shape)
    if nccl is not None:
        yield nccl


def _tokens(
    inputs: PlanInputs, placement: Placement, roles: Sequence[Role], role: Role, fixed: Mapping[int, Sequence[Item]]
) -> int | None:
    """Tokens of keys and values that fit on every GPU of `role`, whole blocks; None for GPUs of unknown size."""
    if inputs.total is None:
        return None
    block = inputs.sizes[role].tokens_per_block
    found = []
    for gpu in placement.roles[role].gpus:
        left = inputs.total - sum(item.bytes for item in fixed[gpu])
        each = sum(
            inputs.shapes[other].rank_kv_bytes(rank) for other in roles for rank in _ranks(placement, other, gpu)
        )
        found.append(max(0, math.floor(left * KV_SHARE)) // max(1, each))
    return min(found) // block * block


def _gpu(
    inputs: PlanInputs, placement: Placement, gpu: int, fixed: Sequence[Item], tokens: Mapping[Role, int | None]
) -> GpuMemory:
    caches = []
    for role, count in tokens.items():
        for rank in _ranks(placement, role, gpu):
            each = inputs.shapes[role].rank_kv_bytes(rank)
            if count:
                caches.append(Item(role, "kv_cache", "keys and values", count * each, f"{count} tokens × {each} B"))
    return GpuMemory(gpu, inputs.gpu_name, inputs.total, (*fixed, *caches))


def _cache(
    inputs: PlanInputs, placement: Placement, role: Role, per_gpu: Sequence[GpuMemory], tokens: int | None
) -> KvCache:
    shape = inputs.shapes[role]
    orders: tuple[tuple[Role, ...], ...] = _orders(inputs.spec) if role != "baseline" else (("baseline",),)
    fractions = [_fraction(placement, role, per_gpu, order) for order in orders]
    known = [fraction for fraction, _ in fractions if fraction is not None]
    return KvCache(
        role=role,
        bytes_per_token=shape.kv_bytes_per_token,
        formula=shape.kv.formula(shape.tp, shape.stage_layers(0) if shape.pp > 1 else None),
        max_tokens=tokens,
        fraction=fractions[0][0],
        fraction_any_order=max(known) if len(known) == len(fractions) else None,
        free_at_load=fractions[0][1],
    )


def _fraction(
    placement: Placement, role: Role, per_gpu: Sequence[GpuMemory], order: Sequence[Role]
) -> tuple[float | None, int | None]:
    """The fraction that gives the role its cache when models load in `order`, and what is free then.

    KV bytes / free bytes, on the GPU where it is the largest; rounded up to a thousandth, as the token cap binds.
    """
    before = order[: order.index(role)]
    worst: tuple[float, int] | None = None
    for gpu in per_gpu:
        if gpu.total is None or gpu.gpu not in placement.roles[role].gpus:
            continue
        taken = gpu.of("server") + sum(gpu.of(other) for other in before)
        free = gpu.total - taken - (gpu.of(role) - gpu.of(role, "kv_cache"))
        share = gpu.of(role, "kv_cache") / free if free > 0 else 0.0
        if worst is None or share > worst[0]:
            worst = share, free
    if worst is None or worst[0] == 0:
        return None, worst[1] if worst else None
    return min(0.99, math.ceil(worst[0] * 1000) / 1000), worst[1]


def limits_of(inputs: PlanInputs, tokens: Mapping[Role, int | None]) -> Limits:
    """Prompts and concurrent sequences that fit into caches of `tokens` tokens."""
    expected = inputs.spec.expectations
    usual = min(expected.prompt_tokens + expected.output_tokens, inputs.max_seq_len)
    rooms = (
        _room(inputs, tokens, SequenceRoom("expected", usual, 0, None, None)),
        _room(inputs, tokens, SequenceRoom("longest", inputs.max_seq_len, 0, None, None)),
    )
    answer = min(expected.output_tokens, inputs.max_seq_len - 1)
    whole, chunked = (_longest_prompt(inputs, tokens, 1, chunked=chunked) for chunked in (False, True))
    return Limits(whole, chunked, _longest_prompt(inputs, tokens, answer, chunked=True), rooms[0].at_once, rooms)


def _longest_prompt(inputs: PlanInputs, tokens: Mapping[Role, int | None], answer: int, *, chunked: bool) -> int | None:
    """The longest prompt that leaves room for `answer` tokens, and for drafts in the cache; None without a cache.

    Packed input with context FMHA takes a prompt in one pass of max_num_tokens, where the server does not cut it
    (enable_chunked_context of Triton's tensorrtllm backend, off by default); NVIDIA/TensorRT-LLM#2702, #6539. The torch
    runtime always cuts.
    """
    known = [count for count in tokens.values() if count is not None]
    if not known:
        return None
    drafts = max(inputs.sizes[role].max_draft_len for role in tokens)
    limits = [inputs.max_seq_len - answer, min(known) - drafts - answer]
    if not chunked and inputs.spec.runtime == "tensorrt_llm":
        limits += [inputs.sizes[role].max_num_tokens for role in tokens]
    return max(0, min(limits))


def _room(inputs: PlanInputs, tokens: Mapping[Role, int | None], room: SequenceRoom) -> SequenceRoom:
    counts, size = [], 0
    for role, limit in tokens.items():
        shape, sizes = inputs.shapes[role], inputs.sizes[role]
        block = sizes.tokens_per_block
        length = math.ceil((room.tokens + sizes.max_draft_len) / block) * block
        size += length * shape.kv_bytes_per_token
        if limit is not None:
            counts.append(limit // length)
    if not counts:
        return replace(room, kv_bytes=size)
    fits = min(counts)
    in_flight = min(inputs.sizes[role].max_batch_size for role in tokens)
    return replace(room, kv_bytes=size, by_memory=fits, at_once=min(fits, in_flight))
