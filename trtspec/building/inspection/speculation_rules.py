"""Rules about what speculation needs of an engine: mode, draft tokens, reusable KV blocks, one beam."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.building.inspection.engine_config import DRAFT_TOKENS_EXTERNAL, NO_MODE, EngineConfig
from trtspec.building.inspection.facts import BOTH_RUNTIMES, InspectedEngine, engine_rule, rebuild
from trtspec.rules.registry import Hit, Level
from trtspec.rules.sizes import decoder_buffer_bytes
from trtspec.toolchain.flags import FP8_FAMILY
from trtspec.units import bytes_text

__all__ = ["paged_fmha_cause"]

_EXAMPLE = "TensorRT-LLM examples/draft_target_model/README.md"
_FIRST_FP8_SM = 89
_MUCH = 4 << 30  # bytes of decoder buffers that are worth a word


def _flags(engine: InspectedEngine) -> str:
    length = engine.expectation.max_draft_len or engine.expectation.draft_length or 8
    return f"--speculative_decoding_mode draft_tokens_external --max_draft_len {length}"


@engine_rule(
    "engine-mode",
    "CRASH",
    "error",
    title="The engine's speculative mode does not fit its role",
    source=f"{_EXAMPLE}; the C++ loader reads mode and max_draft_len from build_config",
    explanation="Only a target engine built for draft_tokens_external takes draft tokens from outside. The draft and "
    "the baseline are plain engines: with a mode they reserve memory for drafts, and an A/B would not compare like "
    "with like.",
    fix="Build the target with --speculative_decoding_mode draft_tokens_external, baseline and draft without a mode.",
    example='{"speculative_decoding_mode": 4} (MEDUSA) in a target engine',
    runtimes=BOTH_RUNTIMES,
)
def _mode(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    mode = config.speculative_mode
    wanted = DRAFT_TOKENS_EXTERNAL if engine.expectation.speculates else NO_MODE
    if mode == wanted or (engine.expectation.speculates and mode == NO_MODE and config.max_draft_len == 0):
        return  # a target without any draft support is engine-draft-length's
    data = {"mode": mode, "expected": wanted}
    message = f"the {engine.role} engine has speculative mode {mode}, its role needs {wanted}"
    fix = rebuild(engine, _flags(engine) if engine.expectation.speculates else "no --speculative_decoding_mode")
    yield Hit(engine.role, message, fix, data)


@engine_rule(
    "engine-draft-length",
    "CRASH",
    "error",
    title="The engine does not take as many draft tokens as the spec drafts",
    source="triton-inference-server/tensorrtllm_backend#473; the C++ loader refuses 0 in this mode",
    explanation="max_draft_len is built in and is the most draft tokens that one step takes. Requests with more are "
    "refused while serving.",
    fix="Build the target with a larger max_draft_length, or draft less.",
    example='{"max_draft_len": 4} with speculation: {draft_length: 5}',
    runtimes=BOTH_RUNTIMES,
)
def _draft_length(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    asked, built = engine.expectation, config.max_draft_len
    data = {"max_draft_len": built, "draft_length": asked.draft_length, "expected": asked.max_draft_len}
    if not asked.speculates:
        if built:
            message = f"the {engine.role} engine takes up to {built} draft tokens; a {engine.role} takes none"
            yield Hit(engine.role, message, rebuild(engine, "--max_draft_len 0"), data)
    elif built == 0:
        drafts = f", the spec drafts {asked.draft_length}" if asked.draft_length else ""
        message = f"the target engine was built without draft support (mode {config.speculative_mode}, "
        yield Hit("target", f"{message}max_draft_len 0){drafts}", rebuild(engine, _flags(engine)), data)
    elif asked.draft_length is not None and built < asked.draft_length:
        message = f"the target engine takes at most {built} draft tokens a step, the spec drafts {asked.draft_length}"
        fix = (
            f"set speculation.draft_length: {built} and max_draft_length: {built}, or {rebuild(engine, _flags(engine))}"
        )
        yield Hit("target", message, fix, data)
    elif asked.max_draft_len is not None and built != asked.max_draft_len:
        yield from _other_limit(engine, built, asked.max_draft_len)


def _other_limit(engine: InspectedEngine, built: int, asked: int) -> Iterator[Hit]:
    if engine.expectation.given and built > asked:
        return  # more than needed
    level: Level = "warning" if engine.expectation.given else "error"
    message = f"the target engine has max_draft_len {built}, {asked} was asked for (speculation.max_draft_length)"
    fix = f"set speculation.max_draft_length: {built}" if engine.expectation.given else rebuild(engine)
    yield Hit("target", message, fix, {"max_draft_len": built, "expected": asked}, level=level)


def paged_fmha_cause(config: EngineConfig, sm: int | None) -> tuple[str, str]:
    """Why paged context FMHA is off in an engine, as far as its config.json and its SM tell; and the way out.

    The builder switches it off without a word for these combinations (tensorrt_llm/builder.py, 1.2).
    """
    kv, weights = config.kv_cache_quant_algo, config.quant_algo
    if config.context_fmha is False:
        return "context FMHA is off, which switches it off too", "build with --context_fmha enable"
    if kv == "INT8":
        return (
            "its INT8 KV cache switched it off during the build",
            "set kv_cache_dtype: auto (or fp8 with fp8 weights)",
        )
    if kv == "FP8" and weights not in FP8_FAMILY:
        plain = f"{weights} weights" if weights else f"unquantized {config.dtype} weights"
        cause = f"its FP8 KV cache over {plain} switched it off during the build"
        return cause, "set quantization: fp8 (or w4a8_awq, nvfp4) as well, or kv_cache_dtype: auto"
    if kv == "FP8" and sm is not None and sm < _FIRST_FP8_SM:
        cause = f"its FP8 KV cache on SM {sm} switched it off during the build (SM {_FIRST_FP8_SM} or newer keeps it)"
        return cause, "set kv_cache_dtype: auto, or build on an Ada, Hopper or Blackwell GPU"
    return "nothing else in config.json switches it off: it was built so", "build with --use_paged_context_fmha enable"


@engine_rule(
    "engine-paged-context-fmha",
    "SILENT",
    "error",
    title="Paged context FMHA is off, so KV blocks cannot be reused",
    source=f"{_EXAMPLE}; tensorrt_llm/builder.py switches it off for INT8 KV, FP8 KV over other weights, SM < 89",
    explanation="Each round sends the whole prefix to both models again and relies on the KV cache of the rounds "
    "before. That needs paged context FMHA in target and draft, and block reuse at run time. Some combinations of KV "
    "cache and weights switch it off during the build without failing it; then every round computes the prompt anew.",
    fix="Use the KV cache type auto, or fp8 together with fp8, w4a8_awq or nvfp4 weights on SM 89 or newer.",
    example='{"plugin_config": {"use_paged_context_fmha": false}} with kv_cache_quant_algo INT8',
)
def _paged_context_fmha(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    if config.paged_context_fmha:
        return
    # a baseline does not need it, but then the two arms differ in more than speculation
    level: Level = "warning" if engine.role == "baseline" else "error"
    sm = engine.sm if engine.sm is not None else engine.expectation.sm  # not recorded while it is being built
    data = {"kv_cache_quant_algo": config.kv_cache_quant_algo, "quant_algo": config.quant_algo, "sm": sm}
    if config.paged_context_fmha is None:
        message = f"config.json of the {engine.role} engine does not say whether paged context FMHA is on"
        yield Hit(engine.role, message, rebuild(engine, "--use_paged_context_fmha enable"), data, level="warning")
        return
    cause, way_out = paged_fmha_cause(config, sm)
    consequence = "the prefix cache works in one arm only" if level == "warning" else "no round can reuse the KV cache"
    message = f"paged context FMHA is off in the {engine.role} engine: {cause}; {consequence}"
    yield Hit(engine.role, message, way_out, {**data, "cause": cause}, level=level)


@engine_rule(
    "engine-context-fmha",
    "SILENT",
    "error",
    title="Context FMHA is off",
    source=f"{_EXAMPLE}; tensorrt_llm/builder.py",
    explanation="Without context FMHA there is no paged context FMHA and no FP8 context FMHA.",
    fix="Build with --context_fmha enable, the default.",
    example='{"plugin_config": {"context_fmha": false}}',
)
def _context_fmha(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    if config.context_fmha is False:
        message = f"context FMHA is off in the {engine.role} engine"
        yield Hit(engine.role, message, rebuild(engine, "--context_fmha enable"))


@engine_rule(
    "engine-paged-kv",
    "CRASH",
    "error",
    title="The KV cache is not paged",
    source=f"{_EXAMPLE}; in-flight batching needs a paged KV cache",
    explanation="Batching in flight and the reuse of KV blocks work on pages only.",
    fix="Build with --kv_cache_type paged.",
    example='{"build_config": {"kv_cache_type": "continuous"}}',
)
def _paged_kv(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    if config.paged_kv is False:
        message = f"the KV cache of the {engine.role} engine is not paged"
        yield Hit(engine.role, message, rebuild(engine, "--kv_cache_type paged"))


@engine_rule(
    "engine-beams",
    "CRASH",
    "error",
    title="The engine is built for beam search",
    source=f"{_EXAMPLE}: beam search is not supported with draft tokens",
    explanation="Draft-target decoding works with one beam in both engines; more beams multiply the decoder's buffers.",
    fix="Build with --max_beam_width 1.",
    example='{"build_config": {"max_beam_width": 4}}',
)
def _beams(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.max_beam_width
    if wanted is not None and config.max_beam_width != wanted:
        message = f"the {engine.role} engine has max_beam_width {config.max_beam_width}, {wanted} is needed"
        data = {"max_beam_width": config.max_beam_width, "expected": wanted}
        yield Hit(engine.role, message, rebuild(engine, f"--max_beam_width {wanted}"), data)


@engine_rule(
    "engine-decoder-buffers",
    "OOM",
    "warning",
    title="The decoder's buffers take gigabytes",
    source="the external-draft decoder holds two float32 buffers of batch × (draft + 1) × beams × vocabulary "
    "(TensorRT-LLM C++ runtime); trtllm-build's default batch is 2048",
    explanation="With draft_tokens_external the decoder keeps the probabilities of draft and target for every "
    "sequence. At the builder's default of 2048 sequences that is tens of gigabytes.",
    fix="Build with the batch size that is really served, or lower max_batch_size at run time.",
    example='{"max_batch_size": 2048, "max_draft_len": 8} with a vocabulary of 128 256: 17.6 GiB',
)
def _decoder_buffers(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    if not config.speculates:
        return
    factors = (config.max_batch_size, config.max_draft_len + 1, config.max_beam_width, config.vocab_size)
    size = decoder_buffer_bytes(config.max_batch_size, config.max_draft_len, config.vocab_size, config.max_beam_width)
    if size > _MUCH:
        terms = " × ".join(str(factor) for factor in factors)
        message = f"the {engine.role} engine needs {bytes_text(size)} for decoder buffers (2 × 4 bytes × {terms})"
        yield Hit(engine.role, message, rebuild(engine, "a smaller --max_batch_size"), {"bytes": size})
