"""Rules about a plan: what does not fit, what fits badly, what a server needs around it.

They take `PlanFacts`; `plan_findings` runs them. `trtspec rules` lists them with all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trtspec.planning.items import ArmMemory, GpuMemory, Kind
from trtspec.planning.memory import MemoryPlan
from trtspec.planning.remedies import Remedy
from trtspec.planning.runtime_costs import SHM_PER_PYTHON_MODEL
from trtspec.planning.torch_memory import kv_limit
from trtspec.rules.registry import Finding, Hit, Level, Role, rule, rules_of, run_rules
from trtspec.spec import Spec, SpecFile
from trtspec.spec.names import ARMS
from trtspec.units import bytes_text, count_text, duration_text

__all__ = ["LOAD_BYTES_PER_SECOND", "PlanFacts", "load_seconds", "plan_findings", "shared_memory_bytes"]

LOAD_BYTES_PER_SECOND = 0.5e9  # of a network volume; a local NVMe reads several times as fast
_CONTAINER_SHM = 64 << 20  # docker's and Kubernetes' default size of /dev/shm
_LARGE_SHARE = 0.1
_LARGE_BYTES = 4 << 30
_MANY = 512  # sequences in flight from which the decoder's buffers are worth a look


@dataclass(frozen=True)
class PlanFacts:
    """What rules about a plan look at."""

    spec: Spec
    plan: MemoryPlan

    @property
    def arms(self) -> tuple[ArmMemory, ...]:
        """Both arms."""
        return tuple(self.plan.arm(arm) for arm in ARMS)

    @property
    def engines(self) -> bool:
        """True for the runtime whose memory is fixed when engines are built."""
        return self.spec.runtime == "tensorrt_llm"


def plan_findings(spec_file: SpecFile, plan: MemoryPlan) -> tuple[Finding, ...]:
    """What the rules about plans find, errors first."""
    return run_rules(PlanFacts(spec_file.spec, plan), rules_of("plan"))


def shared_memory_bytes(python_models: int) -> int:
    """Room in /dev/shm for `python_models` Python model instances: 64 MiB each (server#3678 of Triton)."""
    return python_models * SHM_PER_PYTHON_MODEL


def load_seconds(size: int, speed: float = LOAD_BYTES_PER_SECOND) -> float:
    """Seconds to read engines of `size` bytes at `speed` bytes per second."""
    return size / speed


def _arm_role(arm: ArmMemory) -> Role:
    if arm.arm == "baseline":
        return "baseline"
    return "pair" if "draft" in arm.kv_cache else "target"


def _fix(remedies: tuple[Remedy, ...]) -> str | None:
    """The first change that makes it fit, or those that help most."""
    if not remedies:
        return None
    fitting = [remedy for remedy in remedies if remedy.fits]
    if fitting:
        first, *others = fitting[:3]
        more = "".join(f"; or {remedy.text}" for remedy in others)
        return f"set {first.text} (frees {bytes_text(first.frees)}){more}"
    return f"no single change is enough; {remedies[0].text} frees most ({bytes_text(remedies[0].frees)})"


def _is_large(size: int, gpu: GpuMemory) -> bool:
    return size > _LARGE_BYTES or (gpu.total is not None and size > _LARGE_SHARE * gpu.total)


def _share(gpu: GpuMemory, kind: Kind) -> int:
    return sum(item.bytes for item in gpu.items if item.kind == kind)


@rule(
    "memory-too-small",
    "OOM",
    "error",
    subject="plan",
    title="An arm does not fit into the memory of its GPUs",
    source="NVIDIA/TensorRT-LLM#2322, #3497, #2773: the second model of a pair finds no memory left",
    explanation="Weights, activations, buffers and contexts are taken when a model is loaded; keys and values get "
    "what is left. Where nothing is left the server stops while it loads.",
    fix="take one of the plan's changes: each was planned again and is shown with what it frees",
    example="a 70B target in bfloat16 on one 80 GB GPU",
)
def _too_small(facts: PlanFacts) -> Iterator[Hit]:
    for arm in facts.arms:
        if arm.fits is not False or facts.plan.placement.problems:
            continue
        gpu = arm.tightest
        total = gpu.total or 0
        parts = ", ".join(
            f"{item.role} {item.name} {bytes_text(item.bytes)}"
            for item in sorted(gpu.items, key=lambda item: -item.bytes)[:3]
        )
        where = "system memory" if gpu.gpu == "cpu" else f"GPU {gpu.gpu} ({gpu.name})"
        message = f"the {arm.arm} arm needs {bytes_text(gpu.fixed)} on {where} before any keys and values, it has "
        message += f"{bytes_text(total)}: {parts}"
        data = {"arm": arm.arm, "gpu": gpu.gpu, "needed_bytes": gpu.fixed, "total_bytes": total}
        yield Hit(_arm_role(arm), message, _fix(facts.plan.remedies), {**data, "short_bytes": arm.short})


@rule(
    "kv-cache-below-one-request",
    "CRASH",
    "warning",
    subject="plan",
    title="The KV cache holds less than one request of max_seq_len",
    source="TensorRT-LLM refuses a request that its KV cache can never hold; guaranteed_no_evict never schedules it",
    explanation="A request keeps its keys and values in the caches of both target and draft until it ends.",
    fix="lower build.max_seq_len, or make room",
    example="build: {max_seq_len: 8192} with room for 5 000 tokens",
)
def _below_one(facts: PlanFacts) -> Iterator[Hit]:
    for arm in facts.arms:
        usual, longest = arm.limits.rooms
        if not arm.fits or longest.by_memory is None or longest.by_memory > 0:
            continue
        tokens = min(cache.max_tokens or 0 for cache in arm.kv_cache.values())
        message = f"the KV caches of the {arm.arm} arm hold {count_text(tokens)} tokens, "
        message += f"a request may have {count_text(longest.tokens)} (max_seq_len)"
        if usual.by_memory == 0:
            message += f", an expected one {count_text(usual.tokens)}"
        fix = _fix(facts.plan.remedies) or f"set build.max_seq_len: {max(16, tokens)}"
        level: Level | None = "error" if usual.by_memory == 0 else None
        data = {"arm": arm.arm, "tokens": tokens, "max_seq_len": longest.tokens}
        yield Hit(_arm_role(arm), message, fix, data, level=level)


@rule(
    "kv-tokens-beyond-memory",
    "OOM",
    "warning",
    subject="plan",
    title="torch.kv_tokens, or its default, is more than the memory holds",
    source="docs/torch.md: finished sequences are kept for reuse until the limit is reached",
    explanation="The torch runtime takes memory for keys and values as requests need it and keeps those of finished "
    "ones, up to torch.kv_tokens. A limit that the memory does not hold is reached after some traffic, and the server "
    "is ended for want of memory then.",
    fix="torch.kv_tokens: what the plan has room for.",
    example="torch: {kv_tokens: 1000000} on a laptop",
)
def _beyond_memory(facts: PlanFacts) -> Iterator[Hit]:
    for arm in facts.arms if facts.spec.runtime == "torch" else ():
        counts = {role: cache.max_tokens for role, cache in arm.kv_cache.items()}
        limits = {role: kv_limit(facts.spec, facts.plan.inputs.sizes[role]) for role in counts}
        short = {role: count for role, count in counts.items() if count is not None and 0 < count < limits[role]}
        if not short:
            continue
        least = min(short.values())
        wanted = sum(limits[role] * cache.bytes_per_token for role, cache in arm.kv_cache.items())
        message = f"keys and values of the {arm.arm} arm may grow to {bytes_text(wanted)}, "
        message += f"memory has room for {count_text(least)} tokens of them"
        data = {"arm": arm.arm, "limit": max(limits.values()), "tokens": least, "bytes": wanted}
        yield Hit(_arm_role(arm), message, f"set torch.kv_tokens: {least}", data)


@rule(
    "kv-tokens-below-one-request",
    "CRASH",
    "error",
    subject="plan",
    title="torch.kv_tokens is less than one request of max_seq_len",
    source="the torch runtime refuses to load such an engine",
    explanation="A request reserves its longest possible sequence when it starts, which could never be.",
    fix="torch.kv_tokens: max_seq_len and the draft tokens of a round at least, or a smaller build.max_seq_len.",
    example="torch: {kv_tokens: 512} with build: {max_seq_len: 1024}",
)
def _below_longest(facts: PlanFacts) -> Iterator[Hit]:
    given = facts.spec.torch.kv_tokens
    longest = max(sizes.max_seq_len for sizes in facts.plan.inputs.sizes.values())
    if facts.spec.runtime != "torch" or given is None or given >= longest:
        return
    message = f"torch.kv_tokens is {given}, a sequence may have {longest} (max_seq_len and draft tokens)"
    data = {"kv_tokens": given, "max_seq_len": longest}
    yield Hit("spec", message, f"set torch.kv_tokens: {longest} or more, or a smaller build.max_seq_len", data)


@rule(
    "kv-cache-below-batch",
    "PERF",
    "warning",
    subject="plan",
    title="Fewer requests of the expected length fit than max_batch_size",
    source="requests beyond the KV cache wait; the buffers for max_batch_size are taken all the same",
    explanation="Requests beyond what the KV cache holds wait, although the engine has room for them in a batch.",
    fix="lower build.max_batch_size to what fits, or make room for more",
    example="build: {max_batch_size: 64} where 21 requests of 1 280 tokens fit",
)
def _below_batch(facts: PlanFacts) -> Iterator[Hit]:
    for arm in facts.arms:
        usual = arm.limits.rooms[0]
        wanted = facts.spec.build.max_batch_size
        if not arm.fits or usual.by_memory is None or not 0 < usual.by_memory < wanted:
            continue
        message = f"{usual.by_memory} requests of {count_text(usual.tokens)} tokens fit at once in the {arm.arm} arm, "
        message += f"build.max_batch_size is {wanted}"
        helping = [remedy for remedy in facts.plan.remedies if (remedy.concurrent or 0) > usual.by_memory]
        more = f", or {helping[0].text} ({helping[0].concurrent} fit)" if helping else ""
        fix = f"set build.max_batch_size: {usual.by_memory}{more}"
        yield Hit(_arm_role(arm), message, fix, {"arm": arm.arm, "fit": usual.by_memory, "max_batch_size": wanted})


@rule(
    "default-fractions-collide",
    "OOM",
    "note",
    subject="plan",
    title="Two models on one GPU with the default memory fraction starve each other",
    source="NVIDIA/TensorRT-LLM#486, #2322, #3497; kv_cache_free_gpu_mem_fraction is a share of what is free then",
    explanation="Each model takes its fraction of the memory that is free when it is loaded. With 0.9 in both, the "
    "first leaves a tenth for the second, and which one is first is not fixed.",
    fix="set the token caps of the plan, with its fractions for any order",
    example="80 GB, weights of 35 and 2.5 GB, 0.9 in both: target first, the draft gets 1.8 GB; draft first, the "
    "target does not fit",
)
def _default_fractions(facts: PlanFacts) -> Iterator[Hit]:
    worst = []
    for order, outcomes in facts.plan.default_orders.items():
        last = outcomes[-1]
        got = "does not fit" if last.kv_bytes is None else f"gets {bytes_text(last.kv_bytes)} of keys and values"
        worst.append(f"{order[0]} first: the {last.role} {got}")
    if not worst or facts.plan.placement.problems:
        return
    draft, target = facts.plan.kv_cache["draft"], facts.plan.kv_cache["target"]
    message = f"draft and target share a GPU; with TensorRT-LLM's default fraction 0.9 in both, {'; '.join(worst)}"
    fix = None
    if draft.fraction_any_order is not None and target.fraction_any_order is not None:
        fix = f"set max_tokens_in_paged_kv_cache draft {draft.max_tokens}, target {target.max_tokens} with "
        fix += f"kv_cache_free_gpu_mem_fraction draft {draft.fraction_any_order}, target {target.fraction_any_order}: "
        fix += "right in any order; the smaller of cap and fraction is taken"
    yield Hit("pair", message, fix, {"shared_gpus": list(facts.plan.placement.shared)})


@rule(
    "decoder-buffers-large",
    "OOM",
    "warning",
    subject="plan",
    title="max_batch_size makes the decoder's buffers large",
    source="the decoder of draft_tokens_external keeps 2 × batch × (max_draft_len + 1) × vocabulary in float32; "
    "NVIDIA/TensorRT-LLM#1188",
    explanation="They are taken when the engine is loaded, however few requests are in flight. trtllm-build's own "
    "default of 2048 sequences costs 21.5 GiB with 10 drafted tokens and a vocabulary of 128256.",
    fix="lower build.max_batch_size, or speculation.max_draft_length",
    example="build: {max_batch_size: 2048} with draft_length: 10 and a vocabulary of 128 256: 21.5 GiB",
)
def _decoder_buffers(facts: PlanFacts) -> Iterator[Hit]:
    gpu = facts.plan.speculative.tightest
    size = _share(gpu, "decoder_buffers")
    batch = facts.spec.build.max_batch_size
    if not facts.engines or not (_is_large(size, gpu) or (batch >= _MANY and size > _LARGE_BYTES / 4)):
        return
    message = f"the decoders' buffers take {bytes_text(size)} on each GPU for {batch} sequences in flight"
    per = size / batch
    fix = f"lower build.max_batch_size: each sequence costs {bytes_text(per)}"
    yield Hit("spec", message, fix, {"bytes": size, "max_batch_size": batch, "bytes_per_sequence": round(per)})


@rule(
    "activations-large",
    "OOM",
    "warning",
    subject="plan",
    title="max_num_tokens makes the execution contexts large",
    source="TensorRT-LLM docs/source/legacy/reference/memory.md: about linear in max_num_tokens, fixed at build time",
    explanation="Activations are reserved for max_num_tokens tokens when an engine is loaded, used or not.",
    fix="lower build.max_num_tokens; longer prompts are processed in parts",
    example="build: {max_num_tokens: 65536} for a model of 8 billion parameters",
)
def _activations(facts: PlanFacts) -> Iterator[Hit]:
    gpu = facts.plan.speculative.tightest
    size, tokens = _share(gpu, "activations"), facts.spec.build.max_num_tokens
    if not facts.engines or not _is_large(size, gpu) or tokens <= 2048:
        return
    message = f"the execution contexts take about {bytes_text(size)} on each GPU for max_num_tokens {tokens}"
    fix = f"set build.max_num_tokens: {max(2048, tokens // 2)} (about {bytes_text(size / 2)} less with half of them)"
    yield Hit("spec", message, fix, {"bytes": size, "max_num_tokens": tokens})


@rule(
    "placement-impossible",
    "CRASH",
    "error",
    subject="plan",
    title="The ranks cannot be placed on the GPUs that were found",
    source="each rank of a model needs a GPU of its own (tp × pp)",
    explanation="Each rank of a model needs a GPU of its own; without a placement nothing else can be planned.",
    fix="lower tp or pp, correct the GPU numbers, or name the machine that is meant in hardware",
    example="target: {tp: 4} on a machine with 2 GPUs",
)
def _placement(facts: PlanFacts) -> Iterator[Hit]:
    if facts.spec.hardware is not None:  # then the rules about the pair say it
        return
    for problem in facts.plan.placement.problems:
        role: Role = "draft" if problem.startswith("draft") else "target"
        message = problem.removeprefix(f"{role} ")
        yield Hit(role, message, f"lower {role}.tp, or name the machine in hardware", {"gpus": facts.plan.inputs.count})


@rule(
    "shared-memory-small",
    "CRASH",
    "note",
    subject="plan",
    title="A container's default /dev/shm is too small for the Python models",
    source="triton-inference-server/server#3678, NVIDIA/TensorRT-LLM#674: about 64 MiB for each Python model instance",
    explanation="Python models exchange tensors with the server through /dev/shm; where it is full they die with a "
    "bus error. Docker and Kubernetes give 64 MiB.",
    fix="docker run --shm-size=…, in Kubernetes an emptyDir with medium: Memory at /dev/shm",
    example="ten Python model instances in a container: 640 MiB, /dev/shm has 64 MiB",
)
def _shared_memory(facts: PlanFacts) -> Iterator[Hit]:
    needed = next((item.bytes for item in facts.plan.host if "shm" in item.name), 0)
    if facts.engines and needed >= _CONTAINER_SHM:
        size = max(1 << 30, needed)
        message = f"the server's Python models need about {bytes_text(needed)} in /dev/shm, "
        message += "a container has 64 MiB for everything"
        yield Hit("spec", message, f"docker run --shm-size={size >> 20}m", {"bytes": needed})


@rule(
    "load-time",
    "CRASH",
    "note",
    subject="plan",
    title="Loading the engines takes longer than a probe or a timeout may wait",
    source="triton-inference-server/server#7014, #6469, kserve/kserve#5062: pods restarted for ever while they load",
    explanation="The server is not ready before every engine is read. A probe without a start-up allowance restarts "
    "it before that.",
    fix="raise serving.ready_timeout; in Kubernetes give the container a startupProbe of that length",
    example="engines of 140 GB at 0.5 GB/s: 280 s, serving: {ready_timeout: 60}",
)
def _load_time(facts: PlanFacts) -> Iterator[Hit]:
    shapes = facts.plan.inputs.shapes
    size = sum(shapes[role].weight_bytes for role in facts.plan.placement.models)
    seconds, allowed = load_seconds(size), facts.spec.serving.ready_timeout
    if not facts.engines or seconds < 30:
        return
    message = f"reading {bytes_text(size)} of engines takes about {duration_text(seconds)} at 0.5 GB/s"
    data = {"bytes": size, "seconds": round(seconds), "ready_timeout": allowed}
    if seconds > allowed:
        fix = f"set serving.ready_timeout: {round(seconds * 1.5)}, and a startupProbe of that length"
        yield Hit("spec", f"{message}, serving.ready_timeout is {allowed:g} s", fix, data, level="warning")
    else:
        yield Hit("spec", message, f"a startupProbe of at least {duration_text(seconds * 1.5)}", data)


@rule(
    "both-arms-at-once",
    "OOM",
    "note",
    subject="plan",
    title="Both arms do not fit on the GPUs at the same time",
    source="a load test sends to both arms in turn, so both servers have to run",
    explanation="Each arm fits alone. A paired comparison switches between them many times, which needs both loaded.",
    fix="measure with the baseline arm on other GPUs, or on a second machine of the same kind",
    example="two arms of 60 GB each on one 80 GB GPU",
)
def _both_arms(facts: PlanFacts) -> Iterator[Hit]:
    left = facts.plan.both_arms_free
    if left is None or left > 0 or not all(arm.fits for arm in facts.arms):
        return
    message = f"each arm fits alone; both at once lack {bytes_text(-left)} before any keys and values"
    fix = "for the load test, serve the baseline arm on other GPUs"
    yield Hit("pair", message, fix, {"short_bytes": -left})


@rule(
    "attention-window-unset",
    "PERF",
    "note",
    subject="plan",
    title="Layers with a sliding window keep all tokens",
    source="TensorRT-LLM bounds the KV cache of a layer only when max_attention_window_size is set; "
    "tensorrtllm_backend docs/model_config.md",
    explanation="Such a layer never looks behind its window; unless the server is told, its cache keeps every token.",
    fix="nothing is wrong; with the window set, longer requests would take less of the KV cache",
    example="Gemma 2: 21 of 42 layers look back 4 096 tokens, requests have 8 192",
)
def _window(facts: PlanFacts) -> Iterator[Hit]:
    length = facts.plan.inputs.max_seq_len
    for role in facts.plan.placement.models:
        kv = facts.plan.inputs.shapes[role].kv
        if not facts.engines or kv.window is None or not kv.windowed or kv.window >= length:
            continue
        full, bounded = kv.bytes_per_sequence(length), kv.bytes_per_sequence(length, bounded=True)
        message = f"{kv.windowed} of {len(kv.heads)} layers look back {kv.window} tokens, but keep all: a request of "
        message += f"{count_text(length)} takes {bytes_text(full)}, it would take {bytes_text(bounded)}"
        yield Hit(role, message, None, {"window": kv.window, "layers": kv.windowed, "saved_bytes": full - bounded})
