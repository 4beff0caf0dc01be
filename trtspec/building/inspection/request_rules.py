"""Rules that hold an engine against what was asked for: parallelism, sizes, precision, positions, vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.building.inspection.engine_config import EngineConfig
from trtspec.building.inspection.expectation import NO_QUANT
from trtspec.building.inspection.facts import BOTH_RUNTIMES, InspectedEngine, engine_rule, rebuild
from trtspec.checkpoints.architectures import TENSORRT_LLM
from trtspec.rules.registry import Hit, Level

__all__ = ["padding_multiple"]

_BUILDER = "tensorrt_llm/builder.py: config.json records what was built, which may differ from what was asked"


@engine_rule(
    "engine-mapping",
    "CRASH",
    "error",
    title="The engine's parallelism is not the spec's",
    source="vllm-project/vllm#31886, #10483, #5414; the TensorRT-LLM loader rejects a tp, pp or cp that differs",
    explanation="tp and pp are fixed when the checkpoint is converted. Target and draft may differ: a small draft is "
    "fastest with tp 1, since its communication costs more than its arithmetic.",
    fix="Set tp and pp of this role to the engine's, or build the engine again.",
    example='{"mapping": {"tp_size": 4}} with draft: {tp: 1}',
)
def _mapping(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    asked = engine.expectation
    section = "draft" if engine.role == "draft" else "target"
    for name, built, wanted in (("tp", config.tp, asked.tp), ("pp", config.pp, asked.pp)):
        if wanted is not None and built != wanted:
            message = (
                f"the {engine.role} engine has mapping.{name}_size {built}, the spec says {section}.{name}: {wanted}"
            )
            fix = f"set {section}.{name}: {built}, or {rebuild(engine)}" if asked.given else rebuild(engine)
            yield Hit(engine.role, message, fix, {f"{name}_size": built, "expected": wanted})
    if config.world_size != config.tp * config.pp * config.cp:
        message = f"the {engine.role} engine's config.json contradicts itself: world_size {config.world_size}, "
        product = f"tp {config.tp} × pp {config.pp} × cp {config.cp}"
        yield Hit(engine.role, f"{message}{product}", rebuild(engine), {"world_size": config.world_size})


@engine_rule(
    "engine-sizes",
    "CRASH",
    "error",
    title="The engine's limits are not those that were asked for",
    source=f"{_BUILDER}; with a speculative mode max_seq_len has max_draft_len on top, max_num_tokens holds one "
    "verification of every sequence",
    explanation="max_batch_size, max_seq_len and max_num_tokens are built in. Requests beyond them are refused or "
    "wait; larger ones than asked for cost memory.",
    fix="Build again, or set the spec's build section to what the engine has.",
    example='{"build_config": {"max_seq_len": 4096}} where 8200 is needed',
    runtimes=BOTH_RUNTIMES,
)
def _sizes(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    asked = engine.expectation
    for name in ("max_batch_size", "max_seq_len", "max_num_tokens"):
        built, wanted = getattr(config, name), getattr(asked, name)
        if wanted is None or built == wanted or (asked.given and built > wanted):
            continue
        level: Level = "error" if not asked.given or name == "max_seq_len" else "warning"
        message = (
            f"the {engine.role} engine has {name} {built}, {wanted} {'is needed' if asked.given else 'was asked for'}"
        )
        fix = f"lower build.{name}, or {rebuild(engine)}" if asked.given else rebuild(engine)
        yield Hit(engine.role, message, fix, {name: built, "expected": wanted}, level=level)


def _differs(engine: InspectedEngine, what: str, built: str, wanted: str, fix: str | None = None) -> Hit:
    message = f"the {engine.role} engine has {what} {built}, {wanted} is expected"
    return Hit(engine.role, message, fix or rebuild(engine), {what: built, "expected": wanted})


def _network(architecture: str) -> str:
    """The class that builds an architecture: converters write either name (Mistral is built as LLaMA)."""
    return TENSORRT_LLM.get(architecture, architecture).lower()


@engine_rule(
    "engine-architecture",
    "SILENT",
    "error",
    title="The engine is of another network than the checkpoint",
    source=_BUILDER,
    explanation="Tokenizer, chat template and end ids come from the checkpoint: with another network they do not fit.",
    fix="Give the checkpoint that the engine was built from.",
    example='{"architecture": "QWenForCausalLM"} beside a Llama checkpoint',
    runtimes=BOTH_RUNTIMES,
)
def _architecture(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.architecture
    if wanted is not None and _network(config.architecture) != _network(wanted):
        yield _differs(engine, "architecture", config.architecture, wanted)


@engine_rule(
    "engine-dtype",
    "SILENT",
    "error",
    title="The engine computes in another type than asked for",
    source=_BUILDER,
    explanation="Baseline and target must compute alike, or their answers differ for another reason than speculation.",
    fix="Set dtype to the engine's, or build again.",
    example='{"dtype": "float16"} with target: {dtype: bfloat16}',
    runtimes=BOTH_RUNTIMES,
)
def _dtype(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.dtype
    if wanted is not None and config.dtype != wanted:
        yield _differs(engine, "dtype", config.dtype, wanted)


@engine_rule(
    "engine-logits-dtype",
    "SILENT",
    "error",
    title="The engine's logits have another type than asked for",
    source=_BUILDER,
    explanation="Type of the logits that the decoder samples from; Triton's model must declare the same one.",
    fix="Set build.logits_dtype to the engine's, or build again.",
    example='{"logits_dtype": "float16"} with build: {logits_dtype: float32}',
)
def _logits_dtype(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.logits_dtype
    if wanted is not None and config.logits_dtype is not None and config.logits_dtype != wanted:
        yield _differs(engine, "logits_dtype", config.logits_dtype, wanted)


@engine_rule(
    "engine-quantization",
    "SILENT",
    "error",
    title="The engine's weights are not quantized as asked for",
    source="tensorrt_llm/quantization/mode.py (QuantAlgo); examples/quantization/quantize.py maps --qformat to it",
    explanation="A step that was skipped or a flag that was ignored leaves an engine that works and has another size, "
    "speed and quality.",
    fix="Set quantization to what the engine has, or build again.",
    example='{"quantization": {"quant_algo": null}} with target: {quantization: fp8}',
)
def _quantization(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted, built = engine.expectation.quant_algo, config.quant_algo or NO_QUANT
    if wanted is not None and built != wanted:
        yield _differs(engine, "quant_algo", built, wanted)


@engine_rule(
    "engine-kv-quantization",
    "SILENT",
    "error",
    title="The engine's KV cache is not of the type asked for",
    source="tensorrt_llm/models/modeling_utils.py (kv_cache_quant_algo)",
    explanation="The KV cache's type decides how many sequences fit, and whether paged context FMHA stays on.",
    fix="Set kv_cache_dtype to what the engine has, or build again.",
    example='{"quantization": {"kv_cache_quant_algo": "FP8"}} with target: {kv_cache_dtype: auto}',
)
def _kv_quantization(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted, built = engine.expectation.kv_cache_quant_algo, config.kv_cache_quant_algo or NO_QUANT
    if wanted is not None and built != wanted:
        yield _differs(engine, "kv_cache_quant_algo", built, wanted)


@engine_rule(
    "engine-tokens-per-block",
    "PERF",
    "warning",
    title="The KV cache has blocks of another size than asked for",
    source="plugin_config.tokens_per_block; the builder takes powers of two",
    explanation="Only whole blocks are reused: a small block loses less of a prefix, a large one is a little faster.",
    fix="Set build.tokens_per_block to the engine's, or build again.",
    example='{"plugin_config": {"tokens_per_block": 64}} with build: {tokens_per_block: 32}',
)
def _tokens_per_block(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted, built = engine.expectation.tokens_per_block, config.tokens_per_block
    if wanted is not None and built is not None and built != wanted:
        yield _differs(engine, "tokens_per_block", str(built), str(wanted))


@engine_rule(
    "engine-rope-scaling",
    "SILENT",
    "error",
    title="The checkpoint scales its positions, the engine does not",
    source="NVIDIA/TensorRT-LLM#1385: scaling was dropped when the configuration came from flags",
    explanation="A model whose positions are scaled was trained for it. Without the scaling, or with another factor, "
    "it repeats itself and loses the thread, from the first token or beyond the original length.",
    fix="Convert the checkpoint again, from its folder rather than from flags.",
    example='{"rotary_scaling": null} beside a checkpoint with rope_type llama3',
)
def _rope_scaling(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted, built = engine.expectation.rotary_scaling, config.rotary_scaling
    if not wanted:
        return
    kind = wanted.get("rope_type", wanted.get("type"))
    data = {"rotary_scaling": None if built is None else dict(built), "expected": dict(wanted)}
    model = config.data["pretrained_config"]
    if built is None and any(key.startswith("longrope_") for key in model):
        return  # Phi-3 keeps its two lists of factors beside it
    if built is None:
        message = (
            f"pretrained_config.rotary_scaling of the {engine.role} engine is null, its checkpoint has {kind} scaling"
        )
        yield Hit(engine.role, message, rebuild(engine), data)
    elif built.get("factor") is not None and wanted.get("factor") not in {None, built["factor"]}:
        message = (
            f"the {engine.role} engine scales positions by {built['factor']}, its checkpoint by {wanted['factor']}"
        )
        yield Hit(engine.role, message, rebuild(engine), data)


def padding_multiple(size: int, padded: int) -> int | None:
    """The power of two (at most 1024) that `size` was rounded up to to give `padded`; None when it was not."""
    for multiple in (8, 16, 32, 64, 128, 256, 512, 1024):
        if -(-size // multiple) * multiple == padded:
            return multiple
    return None


@engine_rule(
    "engine-vocabulary",
    "CRASH",
    "error",
    title="The engine has fewer ids than its checkpoint or tokenizer, or those of another model",
    source="triton-inference-server/tensorrtllm_backend#720: a width taken from the tokenizer does not fit the engine",
    explanation="The rows of the embedding are often more than the tokenizer has ids, rounded up for speed. Everything "
    "that is sized by the vocabulary (logits, masks, biases) must take the engine's width, not the tokenizer's.",
    fix="Give the checkpoint that the engine was built from.",
    example='{"vocab_size": 32000} with a tokenizer of 128 256 ids',
    runtimes=BOTH_RUNTIMES,
)
def _vocabulary(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    built, model, ids = config.vocab_size, engine.expectation.vocab_size, engine.expectation.tokenizer_width
    data = {"vocab_size": built, "checkpoint": model, "tokenizer": ids}
    if ids is not None and ids > built:
        message = f"the tokenizer has ids up to {ids - 1}, the {engine.role} engine has {built} (vocab_size)"
        yield Hit(engine.role, message, rebuild(engine), data)
    elif model is not None and (built < model or (built > model and padding_multiple(model, built) is None)):
        message = f"the {engine.role} engine has vocab_size {built}, its checkpoint {model}: it is of another model"
        yield Hit(engine.role, message, rebuild(engine), data)


@engine_rule(
    "engine-vocabulary-padded",
    "INFO",
    "note",
    title="The engine's vocabulary is wider than the tokenizer's",
    source="triton-inference-server/tensorrtllm_backend#720",
    explanation="The ids beyond the tokenizer's are padding. trtspec sizes by the engine everywhere.",
    fix="Nothing; own code that makes logit biases or masks must use the engine's width.",
    example='{"vocab_size": 152064} with a tokenizer of 151 665 ids',
    runtimes=BOTH_RUNTIMES,
)
def _padded(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    ids = engine.expectation.tokenizer_width
    if ids is not None and ids < config.vocab_size:
        message = f"the {engine.role} engine has {config.vocab_size} ids, its tokenizer {ids}: the rest is padding"
        yield Hit(engine.role, message, None, {"vocab_size": config.vocab_size, "tokenizer": ids})
