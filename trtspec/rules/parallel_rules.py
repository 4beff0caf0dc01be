"""Rules about splitting the models over GPUs: what divides, how many GPUs there are, and what a split costs."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.checkpoints import ModelConfig
from trtspec.checkpoints.parallel import Misfit, group_of, nearest_tps, pp_misfit, tp_misfits
from trtspec.rules.facts import Facts, ModelRole, each_built, each_source, family_of
from trtspec.rules.registry import Hit, rule
from trtspec.rules.sizes import model_parameters
from trtspec.spec.model import ModelSource
from trtspec.units import count_text

__all__: list[str] = []

_SPLIT = "NVIDIA/TensorRT-LLM#98, #374, #301; vllm-project/vllm#31474"
_EACH_PART = "Each rank must get a whole number of heads and columns; the converter stops after it has read the model."
_LARGEST = "The largest number of ranks that divides, as the finding names it."


def _hit(role: ModelRole, config: ModelConfig, source: ModelSource, misfit: Misfit) -> Hit:
    near = nearest_tps(config, source.tp, group_of(config, source.quantization))
    fits = f"set {role}.tp: {' or '.join(map(str, near))}"
    fix = fits if near else f"set {role}.quantization to one without groups, e.g. fp8"
    data = {"tp": source.tp, "size": misfit.size, "fitting": list(near)}
    return Hit(role, f"{role}.tp is {source.tp}: {misfit}", fix, data)


def _misfits(facts: Facts, words: str) -> Iterator[Hit]:
    """Findings for sizes whose name contains `words`, quantization groups aside."""
    for role, source, config in each_built(facts):
        for misfit in tp_misfits(config, source.tp):
            if words in misfit.what:
                yield _hit(role, config, source, misfit)


@rule(
    "tp-attention-heads",
    "CRASH",
    "error",
    title="The attention heads do not divide by tp",
    source=_SPLIT,
    explanation=_EACH_PART,
    fix=_LARGEST,
    example="draft: {checkpoint: ./Qwen2.5-0.5B, tp: 4}: 14 heads",
)
def _heads(facts: Facts) -> Iterator[Hit]:
    yield from _misfits(facts, "attention heads")


@rule(
    "tp-kv-heads",
    "CRASH",
    "error",
    title="The KV heads can neither be shared by the ranks nor copied to them",
    source=_SPLIT,
    explanation="Fewer KV heads than ranks are copied, which needs tp to be a multiple of them; more are shared, "
    "which needs them to be a multiple of tp.",
    fix=_LARGEST,
    example="10 KV heads (Phi-3-medium) with tp: 4",
)
def _kv_heads(facts: Facts) -> Iterator[Hit]:
    yield from _misfits(facts, "KV heads")


@rule(
    "tp-mlp-width",
    "CRASH",
    "error",
    title="The MLP's columns do not divide by tp",
    source=_SPLIT,
    explanation=_EACH_PART,
    fix=_LARGEST,
    example="intermediate_size 4862 with tp: 4",
)
def _mlp(facts: Facts) -> Iterator[Hit]:
    yield from _misfits(facts, "columns")


@rule(
    "tp-vocabulary",
    "CRASH",
    "error",
    title="The vocabulary's rows do not divide by tp, and this family's converter does not pad them",
    source="NVIDIA/TensorRT-LLM#98: 32001 rows over 2 ranks; the converters for OPT and MPT split rows as they are",
    explanation="Most converters pad the vocabulary to a multiple of the ranks. A few older ones do not.",
    fix="The largest tp that divides, or a checkpoint with a padded vocabulary.",
    example="OPTForCausalLM with vocab_size 50265 and tp: 2",
)
def _vocabulary(facts: Facts) -> Iterator[Hit]:
    yield from _misfits(facts, "vocabulary")


@rule(
    "tp-quantization-groups",
    "CRASH",
    "error",
    title="A quantization group would be cut by tp",
    source=f"{_SPLIT}; AWQ and GPTQ keep one scale for each 128 weights of a row, NVFP4 for each 16",
    explanation="The weights under one scale cannot lie on two GPUs.",
    fix="A smaller tp, or a quantization without groups (fp8).",
    example="draft Qwen2.5-0.5B (hidden size 896) with quantization: int4_awq and tp: 2",
)
def _groups(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        group = group_of(config, source.quantization)
        plain = tp_misfits(config, source.tp)
        for misfit in tp_misfits(config, source.tp, group):
            if group is not None and misfit not in plain:
                yield _hit(role, config, source, misfit)


@rule(
    "kv-heads-copied",
    "PERF",
    "note",
    title="KV heads are copied to several ranks",
    source="tensorrt_llm's converters copy KV heads where tp is larger than their number",
    explanation="Beyond as many ranks as KV heads, every further rank keeps the same keys and values: the KV cache on "
    "a GPU does not become smaller.",
    fix="tp up to the number of KV heads, or accept the copies.",
    example="target: {checkpoint: ./Qwen2.5-7B, tp: 8}: 4 KV heads",
)
def _copied(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        heads = config.kv_heads
        divides = config.heads is not None and config.heads % source.tp == 0
        if heads and divides and source.tp > heads > 1 and source.tp % heads == 0:
            message = f"{heads} KV heads on {source.tp} ranks: each is kept {source.tp // heads} times, the KV cache "
            message += f"on a GPU is as large as with tp {heads}"
            yield Hit(role, message, f"set {role}.tp: {heads}, or accept it", {"tp": source.tp, "kv_heads": heads})


@rule(
    "pp-layers",
    "CRASH",
    "error",
    title="More pipeline ranks than layers",
    source="tensorrt_llm/mapping.py, pp_layers",
    explanation="Each pipeline rank holds at least one layer.",
    fix="A smaller pp.",
    example="a draft of 4 layers with pp: 8",
)
def _pp(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        why = pp_misfit(config, source.pp)
        if why is not None:
            yield Hit(role, why, f"set {role}.pp: 1", {"pp": source.pp, "layers": config.layers})


@rule(
    "pp-unsupported",
    "CRASH",
    "error",
    title="This family's converter has no pipeline parallelism",
    source="examples/models/core/gemma/convert_checkpoint.py (--world-size alone) and its neighbours, TensorRT-LLM 1.x",
    explanation="The converters for Gemma, Phi, ChatGLM, GPT-NeoX, OPT and BLOOM split by tensor parallelism only.",
    fix="pp: 1, and tp for the same number of GPUs.",
    example="target: {checkpoint: ./gemma-2-27b-it, pp: 2}",
)
def _no_pipeline(facts: Facts) -> Iterator[Hit]:
    for role, source, config in each_built(facts):
        family = family_of(config)
        if source.pp > 1 and family is not None and not family.pipeline:
            message = f"the converter for {config.architecture} has no pipeline ranks, {role}.pp is {source.pp}"
            yield Hit(role, message, f"set {role}.pp: 1 and {role}.tp: {source.world_size}", {"pp": source.pp})


@rule(
    "pp-unproven",
    "PERF",
    "warning",
    title="Pipeline parallelism with draft-target speculation",
    source="no source shows the two together; each round passes every stage one after another",
    explanation="Speculation shortens the wait for one token. Pipeline stages lengthen it: a round goes through all "
    "of them before the next can begin. Nothing read says that it was tested.",
    fix="Tensor parallelism for the same number of GPUs.",
    example="target: {tp: 4, pp: 2}",
)
def _unproven(facts: Facts) -> Iterator[Hit]:
    for role, source in each_source(facts):
        if source.pp > 1:
            message = f"pp {source.pp}: a round passes {source.pp} stages one after another; not described for "
            message += "draft-target engines"
            yield Hit(role, message, f"set {role}.pp: 1 and {role}.tp: {source.world_size}", {"pp": source.pp})


@rule(
    "ranks-exceed-gpus",
    "CRASH",
    "error",
    title="A model has more ranks than the machine has GPUs",
    source="NVIDIA/TensorRT-LLM#1047, #1992, #2058: each rank needs a GPU of its own",
    explanation="tp × pp ranks of one model run on as many GPUs. Target and draft may share GPUs, ranks may not.",
    fix="A smaller tp, or hardware.count.",
    example="target: {tp: 8} with hardware: {count: 4}",
)
def _ranks(facts: Facts) -> Iterator[Hit]:
    hardware = facts.spec.hardware
    for role, source in each_source(facts):
        if hardware is not None and source.world_size > hardware.count:
            message = f"tp {source.tp} × pp {source.pp} = {source.world_size} ranks, hardware.count is {hardware.count}"
            yield Hit(role, message, f"set {role}.tp: {hardware.count} or less, or correct hardware.count",
                      {"ranks": source.world_size, "gpus": hardware.count})  # fmt: skip


@rule(
    "gpus-outside-machine",
    "CRASH",
    "error",
    title="A device number that the machine does not have",
    source="devices are numbered from 0 to count - 1",
    explanation="The server would look for a GPU that is not there.",
    fix="Numbers below hardware.count.",
    example="draft: {gpus: [4]} with hardware: {count: 4}",
)
def _outside(facts: Facts) -> Iterator[Hit]:
    hardware = facts.spec.hardware
    for role, source in each_source(facts):
        wrong = [gpu for gpu in source.gpus or () if hardware is not None and gpu >= hardware.count]
        if wrong and hardware is not None:
            message = f"{role}.gpus has {', '.join(map(str, wrong))}, the machine has 0 to {hardware.count - 1}"
            yield Hit(role, message, f"correct {role}.gpus or hardware.count", {"gpus": wrong})


_SMALL = 4_000_000_000


@rule(
    "draft-tp",
    "PERF",
    "warning",
    title="A small draft is split over several GPUs",
    source="vllm-project/vllm#31886, #10483, #5414; vllm-project/vllm-ascend#5804",
    explanation="A draft step of a small model takes well under a millisecond. Exchanging its parts between GPUs after "
    "every layer takes longer than computing them.",
    fix="draft.tp: 1.",
    example="draft: {checkpoint: ./Llama-3.2-1B-Instruct, tp: 4}",
)
def _draft_tp(facts: Facts) -> Iterator[Hit]:
    source, size = facts.spec.draft, model_parameters(facts, "draft")
    if not facts.engines or not facts.is_built("draft") or source.tp == 1 or size is None:
        return
    if size < _SMALL:
        message = f"draft.tp is {source.tp} for {count_text(size)} parameters: exchange between GPUs costs more than "
        message += "it saves"
        yield Hit("draft", message, "set draft.tp: 1", {"tp": source.tp, "parameters": size})


@rule(
    "draft-tp-larger",
    "PERF",
    "warning",
    title="The draft is split over more GPUs than the target",
    source="vllm-project/vllm#31886: a draft wants fewer ranks than its target",
    explanation="The smaller model gains less from each GPU and pays the same for the exchange.",
    fix="draft.tp at most target.tp.",
    example="target: {tp: 2}, draft: {tp: 4}",
)
def _draft_larger(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.spec.target.tp, facts.spec.draft.tp
    if facts.engines and facts.is_built("target") and facts.is_built("draft") and draft > target:
        yield Hit("draft", f"draft.tp {draft} is larger than target.tp {target}", f"set draft.tp: {target} or less",
                  {"target": target, "draft": draft})  # fmt: skip


_NVLINK = 200e9  # bytes/s, both directions: below it GPUs talk over PCIe (or a bridge between two of them)


@rule(
    "tp-over-pcie",
    "PERF",
    "note",
    title="Tensor parallelism over PCIe",
    source="datasheets of the GPUs; two all-reduces in each layer",
    explanation="Each layer exchanges its result between the ranks twice. Over PCIe that takes a large part of a "
    "decoding step, and speculation's small batches feel it most.",
    fix="GPUs with NVLink, a quantization that fits fewer GPUs, or accept it.",
    example="target: {tp: 4} with hardware: {gpu: L40S, count: 4}",
)
def _pcie(facts: Facts) -> Iterator[Hit]:
    if facts.gpu is None or facts.gpu.interconnect >= _NVLINK:
        return
    for role, source in each_source(facts):
        if source.tp > 1:
            rate = facts.gpu.interconnect / 1e9
            message = f"tp {source.tp} on {facts.gpu.name}: the ranks exchange over {rate:.0f} GB/s, not NVLink"
            yield Hit(role, message, None, {"tp": source.tp, "bytes_per_second": facts.gpu.interconnect})
