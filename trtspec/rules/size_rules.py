"""Rules about what a round costs: the size of the draft next to the target's, and how long drafts are."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts
from trtspec.rules.registry import Hit, rule
from trtspec.rules.sizes import model_parameters, size_ratio
from trtspec.units import count_text

__all__: list[str] = []

_LONG = 10
_COSTLY = 0.2
_ROUND = "a round costs one target pass and draft_length draft passes: it pays only when those are cheap"


@rule(
    "draft-not-smaller",
    "PERF",
    "warning",
    title="The draft is not smaller than the target",
    source=_ROUND,
    explanation="With a draft as large as the target each round costs more than it can save. The same checkpoint on "
    "both sides is a useful control (all drafts are accepted), never a speed-up.",
    fix="Exchange the two, or choose a smaller draft.",
    example="target and draft both {checkpoint: ./Llama-3.1-8B}",
)
def _not_smaller(facts: Facts) -> Iterator[Hit]:
    sizes = size_ratio(facts)
    if sizes is None:
        return
    target, draft, ratio = sizes
    data = {"ratio": ratio, "target": target, "draft": draft}
    if facts.same_folder:
        message = "target and draft are the same checkpoint: a control in which all is accepted, never a speed-up"
        yield Hit("pair", message, "give a smaller model as draft", data)
    elif ratio >= 1:
        message = f"the draft has {count_text(draft)} parameters, the target {count_text(target)}"
        yield Hit("pair", message, "exchange the two, or choose a smaller draft", data)


@rule(
    "draft-costly",
    "PERF",
    "note",
    title="The draft is a large part of the target's size",
    source=f"{_ROUND}; vllm-project/vllm#5239, ggml-org/llama.cpp#3649 (large drafts lost)",
    explanation="At small batches a pass takes about as long as reading the weights. With cost ratio c and draft "
    "length n, a round costs 1 + n·c target passes and gives at most n + 1 tokens: the speed-up stays below "
    "(n + 1) / (1 + n·c), whatever is accepted.",
    fix="Take a draft of a tenth of the target's parameters or less, or shorter drafts.",
    example="target Qwen2.5-1.5B, draft Qwen2.5-0.5B",
)
def _costly(facts: Facts) -> Iterator[Hit]:
    sizes = size_ratio(facts)
    if sizes is None or not _COSTLY < sizes[2] < 1 or facts.same_folder:
        return
    length = facts.spec.speculation.draft_length
    bound = (length + 1) / (1 + length * sizes[2])
    message = f"the draft has {sizes[2]:.0%} of the target's parameters: with draft length {length} the speed-up stays "
    message += f"below ×{bound:.1f}, whatever is accepted"
    data = {"ratio": sizes[2], "draft_length": length, "bound": bound}
    yield Hit("pair", message, "take a smaller draft, or lower speculation.draft_length", data)


@rule(
    "draft-length-long",
    "PERF",
    "warning",
    title="Drafts are longer than what pays in practice",
    source="the draft-target example of TensorRT-LLM: 4 to 10 in common use",
    explanation="The chance that a whole draft is accepted falls with every token, its cost does not. Long drafts win "
    "only where text is copied (draft.method: lookup has a length of its own for that).",
    fix="Begin with speculation.draft_length: 4 and measure.",
    example="speculation: {draft_length: 16}",
)
def _long(facts: Facts) -> Iterator[Hit]:
    length = facts.spec.speculation.draft_length
    if length > _LONG and facts.spec.draft.is_model:
        message = f"draft_length {length}: 4 to {_LONG} are common, every further token is accepted less often"
        yield Hit("spec", message, "set speculation.draft_length: 4 and measure", {"draft_length": length})


@rule(
    "lookup-in-made-up-text",
    "PERF",
    "note",
    title="Drafts are looked up in the text, and the load test's texts are made up",
    source="prompt lookup (github.com/apoorvumang/prompt-lookup-decoding) finds what an answer takes from its prompt",
    explanation="A lookup pays where answers repeat their prompt: edits, extraction, summaries, code. In random words, "
    "and in answers to them, there is nothing to find that a real request would have.",
    fix="loadtest.prompts: builtin, or a file with prompts of your own.",
    example="draft: {method: ngram} with loadtest: {prompts: random}",
)
def _made_up(facts: Facts) -> Iterator[Hit]:
    if facts.spec.draft.looks_up and facts.spec.loadtest.prompts == "random":
        message = f"draft.method {facts.spec.draft.method} with random words as prompts: what is found there says "
        message += "nothing about real requests"
        yield Hit("spec", message, "set loadtest.prompts: builtin, or give a file with your own", {})


@rule(
    "draft-vocabulary-heavy",
    "PERF",
    "note",
    title="Half of the draft's parameters are its vocabulary",
    source="a draft step reads the whole output head: vocabulary × hidden size",
    explanation="Drafts of a family share its vocabulary. In a very small one the output head is most of what a draft "
    "step reads, so it is slower than its layers suggest.",
    fix="Compare with the family's next larger draft by a load test.",
    example="draft gemma-3-270m: 262 144 rows × 640 of 268 million parameters",
)
def _heavy(facts: Facts) -> Iterator[Hit]:
    config = facts.surveys["draft"].config if "draft" in facts.roles else None
    total = model_parameters(facts, "draft")
    if config is None or not total or not config.vocab_size or not config.hidden or not config.layers:
        return
    share = config.vocab_size * config.hidden / total
    if 0.5 <= share <= 1:
        message = f"{share:.0%} of the draft's parameters are its vocabulary ({count_text(config.vocab_size)} rows × "
        message += f"{count_text(config.hidden)}), which every draft step reads"
        yield Hit("draft", message, None, {"share": share})
