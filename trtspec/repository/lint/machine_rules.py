"""Rules about GPUs, ranks, memory and concurrency of the models that are served together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from trtspec.planning.plan_rules import shared_memory_bytes
from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.model import CPP_BACKEND, Model
from trtspec.rules.registry import Hit, rule
from trtspec.units import bytes_text

__all__: list[str] = []

_FRACTION = "kv_cache_free_gpu_mem_fraction"
_CAP = "max_tokens_in_paged_kv_cache"
_DEFAULT_FRACTION = 0.9
_MOST = 0.95  # of free memory, for the caches of all models of a GPU
_CONTAINER_SHM = 64 << 20  # docker's and Kubernetes' default size of /dev/shm
_LAUNCH = "scripts/launch_triton_server.py and docs/model_config.md of triton-inference-server/tensorrtllm_backend"
_BATCHING = "triton_backend/inflight_batcher_llm: requests are handed to the executor at once"


@rule(
    "repository-kv-fractions",
    "OOM",
    "warning",
    subject="repository",
    title="Two models of one GPU both want most of its free memory",
    source="NVIDIA/TensorRT-LLM#486, #2322, #3497, #2773: the fraction is of what is free when a model is loaded",
    explanation="Triton loads models in no fixed order, and each takes its fraction of what is free at that moment. "
    "After the first with 0.9 a tenth is left for the weights and the cache of the second.",
    fix="Cap both caches with max_tokens_in_paged_kv_cache (trtspec plan computes them), or split the fractions.",
    example="kv_cache_free_gpu_mem_fraction 0.9 in target and draft, both on GPU 0",
)
def _fractions(facts: RepositoryFacts) -> Iterator[Hit]:
    for one, other in combinations(facts.leaves, 2):
        shared = _shared(one, other)
        shares = [_fraction(model) for model in (one, other)]
        uncapped = [model.name for model in (one, other) if model.number(_CAP) is None]
        if shared is None or not uncapped or sum(shares) <= _MOST:
            continue
        message = f"{_FRACTION} {shares[0]:g} here and {shares[1]:g} in {other.name} on {shared}: together "
        message += (
            f"{sum(shares):g}, and {' and '.join(uncapped)} without {_CAP}; what is loaded second may find no room"
        )
        fix = f"set {_CAP} in both (trtspec plan computes it), or fractions that sum up to {_MOST} at most"
        yield hit(facts, one, message, fix, line=one.line_of(_FRACTION), other=other.name, sum=sum(shares))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _fraction(model: Model) -> float:
    found = model.number(_FRACTION)
    return _DEFAULT_FRACTION if found is None else found


def _shared(one: Model, other: Model) -> str | None:
    """The GPUs of both models in words; None when they have none in common."""
    mine, others = ({gpu for group in model.groups("gpu_device_ids") for gpu in group} for model in (one, other))
    if not mine or not others:
        return "the same GPUs (gpu_device_ids is not given)"
    common = sorted(mine & others)
    return f"GPU {', '.join(str(gpu) for gpu in common)}" if common else None


@rule(
    "repository-gpu-ids",
    "CRASH",
    "error",
    subject="repository",
    title="A model has not as many GPUs as its engine has ranks",
    source=f"{_LAUNCH}; NVIDIA/TensorRT-LLM#1047, #1992, #2058",
    explanation="gpu_device_ids names a GPU for each rank (tp × pp) of an instance; a semicolon separates instances.",
    fix="Name one GPU for each rank.",
    example='gpu_device_ids: "0" with an engine of tp 2',
)
def _gpus(facts: RepositoryFacts) -> Iterator[Hit]:
    for model, engine in facts.each_engine():
        if (model.number("num_nodes") or 1) > 1:
            continue
        for group in model.groups("gpu_device_ids"):
            if len(group) != engine.world_size or len(set(group)) != len(group):
                given = ",".join(str(gpu) for gpu in group)
                message = f'gpu_device_ids "{given}" names {_count(len(set(group)), "GPU")}, its engine has '
                message += f"{_count(engine.world_size, 'rank')} (tp {engine.tp}, pp {engine.pp})"
                line = model.line_of("gpu_device_ids")
                yield hit(facts, model, message, "name one GPU for each rank", line=line, ranks=engine.world_size)


@rule(
    "repository-participant-ids",
    "CRASH",
    "error",
    subject="repository",
    title="The MPI ranks of the models overlap, lack, or are not as many as the engine's",
    source=f"{_LAUNCH}: without spawning, participant_ids are disjoint and leave rank 0 to the orchestrator",
    explanation="With TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES=0 every model has MPI ranks of its own; rank 0 serves and "
    "belongs to none. Ranks that are named twice make the start hang.",
    fix="Give each model as many ranks as its engine has, from 1 on, none twice.",
    example='participant_ids "1,2" in the target and "2" in the draft',
)
def _participants(facts: RepositoryFacts) -> Iterator[Hit]:
    ranks = {
        model.name: [rank for group in model.groups("participant_ids") for rank in group] for model in facts.leaves
    }
    several = len(ranks) > 1
    taken: dict[int, str] = {}
    for model in facts.leaves:
        mine = ranks[model.name]
        problems = list(_own_ranks(facts, model, mine, several=several))
        if not mine and any(ranks.values()):
            others = ", ".join(name for name, found in ranks.items() if found)
            problems.append(f"has no participant_ids, {others} has")
        for rank in dict.fromkeys(mine):
            if rank in taken:
                problems.append(f"participant_ids has rank {rank}, which is {taken[rank]}'s")
            taken.setdefault(rank, model.name)
        for problem in problems:
            fix = "give each model ranks of its own, one for each rank of its engine, from 1 on"
            yield hit(facts, model, problem, fix, line=model.line_of("participant_ids"), participant_ids=mine)


def _own_ranks(facts: RepositoryFacts, model: Model, mine: list[int], *, several: bool) -> Iterator[str]:
    engine = facts.engine(model)
    instances = len(model.groups("participant_ids"))
    if mine and engine is not None and len(mine) != engine.world_size * instances:
        of = f" × {instances} instances" if instances > 1 else ""
        yield f"participant_ids names {len(mine)} ranks, its engine has {engine.world_size}{of}"
    if len(set(mine)) != len(mine):
        yield "participant_ids names a rank twice"
    if several and 0 in mine:
        yield "participant_ids has rank 0, which is the orchestrator's"


@rule(
    "repository-bls-instances",
    "PERF",
    "warning",
    subject="repository",
    title="NVIDIA's BLS has fewer instances than the target takes requests",
    source="triton-inference-server/tensorrtllm_backend#257, #416, #535: an instance serves one request at a time",
    explanation="Each instance of the BLS works on one request until it is finished. With fewer instances than the "
    "engine's batch, requests queue while the engine idles.",
    fix="Set bls_instance_count to the target's max_batch_size.",
    example="instance_group [{ count: 1 }] before a target with max_batch_size 8",
)
def _instances(facts: RepositoryFacts) -> Iterator[Hit]:
    for caller in facts.callers:
        target = facts.model(caller.target)
        if caller.model.kind != "bls" or target is None:
            continue
        count, batch = caller.model.instances, target.config.max_batch_size
        if count < batch:
            message = f"{_count(count, 'instance')} of NVIDIA's BLS before {target.name} with "
            message += f"max_batch_size {batch}: at most {count} of {batch} requests run at once"
            fix = f"set instance_group count to {batch}"
            yield hit(facts, caller.model, message, fix, instances=count, wanted=batch)


@rule(
    "repository-batching-useless",
    "INFO",
    "warning",
    subject="repository",
    title="Batching or instances of Triton that do nothing, or harm, for this backend",
    source=f"{_BATCHING}; one instance of KIND_CPU, GPUs are a parameter",
    explanation="Batching in flight happens in the executor, so waiting for a batch in Triton only delays requests. "
    "More instances, or instances on GPUs, of a model of this backend are further copies of the engine.",
    fix="max_queue_delay_microseconds 0, one instance of KIND_CPU, no dynamic batching before a BLS.",
    example="max_queue_delay_microseconds: 1000 in tensorrt_llm",
)
def _batching(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        if model.backend == CPP_BACKEND:
            yield from _leaf_batching(facts, model)
        elif model.kind == "bls" and model.config.HasField("dynamic_batching"):
            message = "dynamic batching before NVIDIA's BLS: it takes requests one by one, waiting gains nothing"
            yield hit(facts, model, message, "remove dynamic_batching", line=_line(model, "dynamic_batching"))


def _leaf_batching(facts: RepositoryFacts, model: Model) -> Iterator[Hit]:
    delay = model.config.dynamic_batching.max_queue_delay_microseconds
    if delay:
        message = f"max_queue_delay_microseconds {delay} delays requests and batches nothing: the executor does that"
        yield hit(facts, model, message, "set it to 0", line=_line(model, "max_queue_delay_microseconds"), delay=delay)
    too_large = [n for n in model.config.dynamic_batching.preferred_batch_size if n > model.config.max_batch_size]
    if too_large:
        message = f"preferred_batch_size {too_large[0]} is more than max_batch_size {model.config.max_batch_size}"
        line = _line(model, "preferred_batch_size")
        yield hit(facts, model, f"{message}: the model does not load", "set both to the same", line=line, level="error")
    kinds = {group.kind for group in model.config.instance_group}
    on_gpu = type(model.config).DESCRIPTOR.fields_by_name["instance_group"].message_type.enum_values_by_name["KIND_GPU"]
    apart = ";" in (model.value("gpu_device_ids") or "")
    if on_gpu.number in kinds or (model.instances > 1 and not apart):
        message = f"instance_group has {model.instances} instances{' of KIND_GPU' if on_gpu.number in kinds else ''}; "
        message += "the backend wants one of KIND_CPU, GPUs are named in gpu_device_ids"
        fix = "write instance_group [{ count: 1, kind: KIND_CPU }]"
        yield hit(facts, model, message, fix, line=_line(model, "instance_group"), instances=model.instances)


def _line(model: Model, word: str) -> int | None:
    return next((n for n, text in enumerate((model.text or "").splitlines(), 1) if word in text), None)


@rule(
    "repository-shared-memory",
    "CRASH",
    "note",
    subject="repository",
    title="The Python models need more of /dev/shm than a container has by itself",
    source="triton-inference-server/server#3678, triton-inference-server/tensorrtllm_backend#562",
    explanation="Every instance of a Python model takes about 64 MiB of shared memory; containers have 64 MiB unless "
    "told otherwise. Beyond that models die with a bus error.",
    fix="docker run --shm-size, or an emptyDir of medium Memory on /dev/shm.",
    example="preprocessing 1, postprocessing 1 and BLS 8 instances: 640 MiB",
)
def _shared_memory(facts: RepositoryFacts) -> Iterator[Hit]:
    instances = {model.name: model.instances for model in facts.parsed if model.backend == "python"}
    needed = shared_memory_bytes(sum(instances.values()))
    if needed > _CONTAINER_SHM:
        parts = ", ".join(f"{name} {count}" for name, count in instances.items())
        message = (
            f"{sum(instances.values())} instances of Python models ({parts}) need {bytes_text(needed)} of /dev/shm"
        )
        fix = f"docker run --shm-size={needed >> 20}m, or an emptyDir of medium Memory of that size"
        yield Hit("repository", message, fix, {"instances": instances, "bytes": needed})
