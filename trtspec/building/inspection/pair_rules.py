"""Rules about the engines of a pair together: one vocabulary, one version, limits that fit, a fair baseline."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.building.inspection.engine_config import EngineConfig
from trtspec.building.inspection.facts import EngineFacts
from trtspec.rules.registry import Hit, Level, rule

__all__: list[str] = []

_EXAMPLE = "TensorRT-LLM examples/draft_target_model/README.md"


def _pair(facts: EngineFacts) -> tuple[EngineConfig, EngineConfig] | None:
    target, draft = facts.of("target"), facts.of("draft")
    return None if target is None or draft is None else (target, draft)


@rule(
    "engines-vocabulary",
    "SILENT",
    "error",
    subject="engine",
    title="Draft and target engine have different vocabularies",
    source=f"{_EXAMPLE}: tokenizer and vocabulary must be shared; widths may differ (Qwen2.5: 151936, 152064)",
    explanation="The draft's ids go to the target as they are, so both must mean the same by an id. Widths may differ "
    "by padding that no token uses; comparing logits needs equal widths.",
    fix="Choose a draft with the target's tokenizer.",
    example="target 128 256 ids, draft 32 000",
)
def _vocabulary(facts: EngineFacts) -> Iterator[Hit]:
    pair = _pair(facts)
    if pair is None or pair[0].vocab_size == pair[1].vocab_size:
        return
    target, draft = (config.vocab_size for config in pair)
    expected = [facts.expected(role) for role in ("target", "draft")]
    widths = {item.tokenizer_width for item in expected if item is not None and item.tokenizer_width is not None}
    message = f"the target engine has vocab_size {target}, the draft engine {draft}"
    data = {"target": target, "draft": draft, "tokenizer": max(widths, default=None)}
    if facts.acceptance == "logits":
        fix = "set speculation.acceptance: tokens, or choose a draft with the same width"
        yield Hit("pair", f"{message}: logits of different widths cannot be compared", fix, data)
    elif len(widths) == 1 and max(widths) <= min(target, draft):
        held = f"{message}; both hold the tokenizer's {max(widths)} ids"
        yield Hit("pair", held, None, data, level="note", severity="INFO")
    else:
        level: Level = "error" if widths and max(widths) > min(target, draft) else "warning"
        unsure = "" if widths else "; whether that is padding cannot be told without the tokenizers"
        fix = "choose a draft with the target's tokenizer, or give both checkpoints so that trtspec check can compare"
        yield Hit("pair", f"{message}{unsure}", fix, data, level=level)


@rule(
    "engines-version",
    "CRASH",
    "error",
    subject="engine",
    title="The engines were built by different versions of TensorRT-LLM",
    source="triton-inference-server/tensorrtllm_backend#531: an engine loads only in the version that built it",
    explanation="One server process has one TensorRT-LLM, so all its engines must come from that version.",
    fix="Build all engines in one image.",
    example="target built by 1.2.1, draft by 1.1.0",
)
def _version(facts: EngineFacts) -> Iterator[Hit]:
    engines = [engine for engine in facts.engines if engine.config and engine.config.runtime == "tensorrt_llm"]
    found: dict[str, str] = {engine.role: engine.config.version for engine in engines if engine.config}
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{role} {version}" for role, version in found.items())
        fix = "build all of them with one version (trtspec build SPEC --force)"
        yield Hit("pair", f"the engines come from different versions of TensorRT-LLM: {listed}", fix, found)


@rule(
    "engines-limits",
    "PERF",
    "warning",
    subject="engine",
    title="The draft engine takes less than the target engine",
    source=f"{_EXAMPLE} gives both engines the same max_batch_size, max_input_len and max_seq_len",
    explanation="Beyond the draft's limits requests go on without speculation, or wait for a place in its batch.",
    fix="Build the draft with the target's batch size and length.",
    example="target max_seq_len 8200 with max_draft_len 8, draft max_seq_len 4096",
)
def _limits(facts: EngineFacts) -> Iterator[Hit]:
    pair = _pair(facts)
    if pair is None:
        return
    target, draft = pair
    length = target.max_seq_len - target.max_draft_len
    if draft.max_seq_len < length:
        message = f"the draft engine takes {draft.max_seq_len} tokens, the target {length} and its draft tokens"
        fix = f"build the draft with max_seq_len {length}"
        yield Hit("pair", message, fix, {"target": length, "draft": draft.max_seq_len})
    if draft.max_batch_size < target.max_batch_size:
        message = f"the draft engine takes {draft.max_batch_size} sequences at once, the target {target.max_batch_size}"
        fix = f"build the draft with max_batch_size {target.max_batch_size}"
        yield Hit("pair", message, fix, {"target": target.max_batch_size, "draft": draft.max_batch_size})


_SAME = (
    "architecture", "dtype", "quant_algo", "kv_cache_quant_algo", "tp", "pp", "vocab_size", "max_batch_size",
    "tokens_per_block", "paged_context_fmha", "rotary_scaling", "layers", "hidden_size",
)  # fmt: skip


@rule(
    "engines-baseline",
    "SILENT",
    "error",
    subject="engine",
    title="Baseline and target engine differ in more than speculation",
    source="an A/B measures one change; the baseline is the target's network without draft support",
    explanation="A baseline with another precision, parallelism or batch size makes the speed-up meaningless, and its "
    "answers differ from the target's for another reason than speculation.",
    fix="Build the baseline from the target's checkpoint with the same options (trtspec build does).",
    example="baseline in bfloat16, target in FP8",
)
def _baseline(facts: EngineFacts) -> Iterator[Hit]:
    baseline, target = facts.of("baseline"), facts.of("target")
    if baseline is None or target is None:
        return
    differing = {
        name: (getattr(baseline, name), getattr(target, name))
        for name in _SAME
        if getattr(baseline, name) != getattr(target, name)
    }
    if differing:
        listed = "; ".join(f"{name} {one} and {other}" for name, (one, other) in differing.items())
        fix = "leave out baseline.engine and let trtspec build it beside the target"
        data = {name: {"baseline": one, "target": other} for name, (one, other) in differing.items()}
        yield Hit("pair", f"baseline and target engine differ in more than speculation: {listed}", fix, data)
