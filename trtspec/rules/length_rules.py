"""Rules about lengths: positions of both models, the engine's limit, room for a round, and what requests will need."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts, each_config, each_source
from trtspec.rules.registry import Hit, rule
from trtspec.rules.sizes import sequence_limit
from trtspec.units import count_text

__all__: list[str] = []


@rule(
    "draft-shorter",
    "PERF",
    "warning",
    title="The draft has fewer positions than the target",
    source="beyond its positions a draft proposes noise: requests are limited to what both support",
    explanation="Both models read the whole sequence. Where the draft ends, speculation ends.",
    fix="A draft with the target's length, or build.max_seq_len within both.",
    example="target Llama-3.1-70B (131 072), draft Llama-3-8B (8 192)",
)
def _shorter(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.pair.target_positions, facts.pair.draft_positions
    if target is None or draft is None or draft >= target:
        return
    wanted = facts.spec.build.max_seq_len
    message = f"the target takes {count_text(target)} tokens, the draft {count_text(draft)}"
    data = {"target": target, "draft": draft}
    if wanted is not None and wanted <= draft:
        yield Hit(
            "pair",
            f"{message}; build.max_seq_len {count_text(wanted)} fits both",
            None,
            data,
            level="note",
            severity="INFO",
        )
    else:
        yield Hit("pair", f"{message}: the pair is limited to {count_text(draft)}", "choose a longer draft", data)


@rule(
    "max-seq-len-too-long",
    "SILENT",
    "error",
    title="build.max_seq_len is more than both models have positions for",
    source="beyond its positions a model repeats itself or crashes; NVIDIA/TensorRT-LLM#1385",
    explanation="The engine is built for that length all the same; long requests get nonsense.",
    fix="build.max_seq_len up to the usable length of the pair.",
    example="build: {max_seq_len: 16384} with a draft of 8 192 positions",
)
def _too_long(facts: Facts) -> Iterator[Hit]:
    wanted, usable = facts.spec.build.max_seq_len, facts.pair.usable_length
    if wanted is None or usable is None or wanted <= usable:
        return
    limits = {"target": facts.pair.target_positions, "draft": facts.pair.draft_positions}
    short = " and ".join(f"the {role} {count_text(n)}" for role, n in limits.items() if n is not None and n < wanted)
    message = f"build.max_seq_len is {count_text(wanted)}, {short}"
    yield Hit("spec", message, f"set build.max_seq_len: {usable}", {"max_seq_len": wanted, "usable_length": usable})


@rule(
    "length-relies-on-scaling",
    "SILENT",
    "note",
    title="The length is reached by stretched positions",
    source="model cards (Qwen2.5: static YaRN may cost quality on short texts); transformers' modeling_rope_utils",
    explanation="linear, dynamic and yarn scaling stretch positions at run time. All texts pay a little for the "
    "longest ones, and target and draft may not stretch alike.",
    fix="build.max_seq_len within the native length where no longer requests are expected.",
    example='{"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}} and max_seq_len 65536',
)
def _stretched(facts: Facts) -> Iterator[Hit]:
    limit = sequence_limit(facts)
    for role, config in each_config(facts):
        native, usable = _native(config.max_positions, config.rope), config.usable_positions
        if limit is None or native is None or usable is None or not native < limit <= usable:
            continue
        kind = config.rope[0].kind
        message = f"max_seq_len {count_text(limit)} is reached by {kind} scaling; without it {count_text(native)}"
        yield Hit(role, message, f"set build.max_seq_len: {native} if that is enough", {"native": native, "kind": kind})


def _native(positions: int | None, rope: tuple[object, ...]) -> int | None:
    """Positions before linear, dynamic or yarn scaling; None where there is none of these."""
    if len(rope) != 1 or positions is None:
        return None
    scaling = rope[0]
    kind, fields = getattr(scaling, "kind", None), getattr(scaling, "fields", {})
    original = fields.get("original_max_position_embeddings")
    return (original if isinstance(original, int) else positions) if kind in ("linear", "dynamic", "yarn") else None


@rule(
    "little-room-for-drafts",
    "PERF",
    "warning",
    title="A round takes a large part of a sequence",
    source="a round writes draft length + 1 tokens behind the prompt; near the limit it is cut short",
    explanation="The engine keeps room for max_draft_length tokens in every sequence.",
    fix="Lower speculation.max_draft_length, or raise build.max_seq_len.",
    example="build: {max_seq_len: 32} with max_draft_length: 8",
)
def _room(facts: Facts) -> Iterator[Hit]:
    limit = facts.spec.build.max_seq_len or facts.pair.usable_length
    round_tokens = facts.spec.speculation.engine_draft_length + 1
    if limit is not None and round_tokens * 4 > limit:
        message = f"a round takes up to {round_tokens} tokens (max_draft_length {round_tokens - 1} + 1), "
        message += f"a sequence has {count_text(limit)}: little is left for prompts"
        fix = "lower speculation.max_draft_length, or raise build.max_seq_len"
        yield Hit("spec", message, fix, {"limit": limit, "round": round_tokens})


@rule(
    "expected-requests-too-long",
    "CRASH",
    "error",
    title="The expected requests do not fit a sequence",
    source="max_seq_len counts prompt and output together: NVIDIA/TensorRT-LLM#2057, #2143",
    explanation="A request longer than max_seq_len is refused by the server, or cut.",
    fix="build.max_seq_len of at least expectations.prompt_tokens + output_tokens.",
    example="expectations: {prompt_tokens: 8000, output_tokens: 1000} with build: {max_seq_len: 8192}",
)
def _expected(facts: Facts) -> Iterator[Hit]:
    expected, limit = facts.spec.expectations, sequence_limit(facts)
    if limit is None or not expected.model_fields_set & {"prompt_tokens", "output_tokens"}:
        return
    wanted = expected.prompt_tokens + expected.output_tokens
    if wanted > limit:
        message = f"expected are {count_text(expected.prompt_tokens)} + {count_text(expected.output_tokens)} = "
        message += f"{count_text(wanted)} tokens, a sequence has {count_text(limit)}"
        usable = facts.pair.usable_length
        within = usable is None or wanted <= usable
        fix = (
            f"set build.max_seq_len: {wanted}" if within else f"the pair's usable length is {usable}: shorten requests"
        )
        yield Hit("spec", message, fix, {"expected": wanted, "limit": limit})


@rule(
    "loadtest-output-too-long",
    "CRASH",
    "warning",
    title="The load test asks for more output than a sequence holds",
    source="triton-inference-server/perf_analyzer#286: requested and real length differ, arms cannot be compared",
    explanation="Every request of the load test would be refused or cut.",
    fix="A lower loadtest.max_tokens.",
    example="loadtest: {max_tokens: 4096} with build: {max_seq_len: 2048}",
)
def _output(facts: Facts) -> Iterator[Hit]:
    asked, limit = facts.spec.loadtest.max_tokens, sequence_limit(facts)
    if asked is not None and limit is not None and asked >= limit:
        message = f"loadtest.max_tokens is {count_text(asked)}, a sequence has {count_text(limit)} with its prompt"
        yield Hit("spec", message, f"set loadtest.max_tokens: {limit // 2}", {"asked": asked, "limit": limit})


@rule(
    "max-input-len-unused",
    "SILENT",
    "note",
    title="build.max_input_len has no effect",
    source="trtllm-build: ignored when padding removal and context FMHA are on, as speculation needs them",
    explanation="With packed inputs a prompt may be as long as max_seq_len leaves room.",
    fix="Remove it, or lower build.max_seq_len.",
    example="build: {max_input_len: 2048}",
)
def _input(facts: Facts) -> Iterator[Hit]:
    given, built = facts.spec.build.max_input_len, any(True for _ in each_source(facts))
    if given is not None and built:
        message = f"max_input_len {count_text(given)} is ignored with packed inputs; prompts are limited by max_seq_len"
        yield Hit("spec", message, "remove it, or lower build.max_seq_len", {"max_input_len": given})
