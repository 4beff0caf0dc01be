"""Rules about lengths: positions of both models, the engine's limit, and room for a round."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts
from trtspec.rules.registry import Hit, rule
from trtspec.units import count_text

__all__: list[str] = []


@rule(
    "draft-shorter",
    "PERF",
    "warning",
    title="The draft has fewer positions than the target",
    source="beyond its positions a draft proposes noise: requests are limited to what both support",
)
def _shorter(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.pair.target_positions, facts.pair.draft_positions
    if target is None or draft is None or draft >= target:
        return
    wanted = facts.spec.build.max_seq_len
    message = f"the target takes {count_text(target)} tokens, the draft {count_text(draft)}"
    data = {"target": target, "draft": draft}
    if wanted is not None and wanted <= draft:
        yield Hit("pair", f"{message}; build.max_seq_len {count_text(wanted)} fits both", None, data, level="note")
    else:
        yield Hit("pair", f"{message}: the pair is limited to {count_text(draft)}", "choose a longer draft", data)


@rule(
    "max-seq-len-too-long",
    "SILENT",
    "error",
    title="build.max_seq_len is more than both models have positions for",
    source="beyond its positions a model repeats itself or crashes; NVIDIA/TensorRT-LLM#1385",
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
    "little-room-for-drafts",
    "PERF",
    "warning",
    title="A round takes a large part of a sequence",
    source="a round writes draft length + 1 tokens behind the prompt; near the limit it is cut short",
)
def _room(facts: Facts) -> Iterator[Hit]:
    limit = facts.spec.build.max_seq_len or facts.pair.usable_length
    round_tokens = facts.spec.speculation.engine_draft_length + 1
    if limit is not None and round_tokens * 4 > limit:
        message = f"a round takes up to {round_tokens} tokens (max_draft_length {round_tokens - 1} + 1), "
        message += f"a sequence has {count_text(limit)}: little is left for prompts"
        fix = "lower speculation.max_draft_length, or raise build.max_seq_len"
        yield Hit("spec", message, fix, {"limit": limit, "round": round_tokens})
