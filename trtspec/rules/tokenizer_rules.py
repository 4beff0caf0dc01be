"""Rules about token ids: the two models exchange ids, never text, so an id must mean the same on both sides."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.checkpoints import Survey, TokenizerMatch
from trtspec.checkpoints.pairing import DifferingId
from trtspec.rules.facts import MODEL_ROLES, Facts, ModelRole
from trtspec.rules.registry import Hit, rule
from trtspec.units import count_text

__all__: list[str] = []

_OTHER: dict[ModelRole, ModelRole] = {"target": "draft", "draft": "target"}


@rule(
    "tokenizer-differs",
    "SILENT",
    "error",
    title="An id means different tokens to target and draft",
    source="external drafts exchange ids; huggingface/transformers#33383, #46936, vllm-project/vllm#38174",
)
def _differs(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or match.relation != "different":
        return
    agree = (
        f"{count_text(match.same_ids)} of {count_text(match.total_ids)} ids mean the same token ({match.overlap:.1%})"
    )
    message = f"different tokenizers: {agree}; first difference: {_shown(match.differing[0])}"
    fix = "choose a draft of the target's family and release, with the same tokenizer files"
    yield Hit("pair", message, fix, _data(match))


def _shown(item: DifferingId) -> str:
    def text(token: str | None) -> str:
        return "no token" if token is None else repr(token)

    return f"id {item.id} is {text(item.target)} to the target and {text(item.draft)} to the draft"


def _data(match: TokenizerMatch) -> dict[str, object]:
    return {
        "same_ids": match.same_ids,
        "total_ids": match.total_ids,
        "token_overlap": match.overlap,
        "shared_tokens": match.shared_tokens,
        "first_differing_ids": [item.id for item in match.differing],
    }


@rule(
    "tokenizer-extended",
    "SILENT",
    "warning",
    title="One tokenizer has tokens that the other lacks",
    source="all common ids agree; the missing ones are never drafted, or were never trained",
)
def _extended(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or match.relation != "extended":
        return
    for role, ids in (("target", match.only_target), ("draft", match.only_draft)):
        if ids:
            facts_of = facts.surveys["target" if role == "target" else "draft"].tokenizer
            assert facts_of is not None
            first = f"first: id {ids[0]}, {facts_of.tokens[ids[0]]!r}"
            message = f"only the {role} knows {count_text(len(ids))} of {count_text(match.total_ids)} ids ({first})"
            fix = "use checkpoints of the same release, or accept that these tokens are never accepted from the draft"
            yield Hit("pair", message, fix, {**_data(match), "only": role, "count": len(ids)})


@rule(
    "id-beyond-embedding",
    "CRASH",
    "error",
    title="A token id is beyond the rows of a model's embedding",
    source="an index out of range in the embedding look-up; vllm-project/vllm#10913, ggml-org/llama.cpp#3812",
)
def _beyond(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        rows = facts.surveys[role].vocab_size
        if rows is None:
            continue
        own, other = facts.surveys[role].tokenizer, facts.surveys[_OTHER[role]].tokenizer
        if own is not None and own.width > rows:
            message = f"its tokenizer has ids up to {own.width - 1}, the model only {count_text(rows)} rows"
            fix = "resize the embedding, or use the tokenizer files that belong to the weights"
            yield Hit(role, message, fix, {"largest_id": own.width - 1, "rows": rows})
        elif other is not None and other.width > rows:
            largest = f"the {_OTHER[role]}'s tokenizer has ids up to {other.width - 1}"
            message = f"{largest}, the {role} only {count_text(rows)} rows"
            fix = "choose a pair with the same tokenizer, or resize this model's embedding"
            yield Hit(role, message, fix, {"largest_id": other.width - 1, "rows": rows})


@rule(
    "vocabulary-padded",
    "INFO",
    "note",
    title="The model has more vocabulary rows than the tokenizer has ids",
    source="padding for speed; sizes come from the model, never from the tokenizer: "
    "triton-inference-server/tensorrtllm_backend#720",
)
def _padded(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        rows, tokenizer = facts.surveys[role].vocab_size, facts.surveys[role].tokenizer
        if rows is not None and tokenizer is not None and 0 < tokenizer.width < rows:
            spare = rows - tokenizer.width
            message = (
                f"{count_text(rows)} vocabulary rows for {count_text(tokenizer.width)} ids: {spare} rows are padding"
            )
            yield Hit(role, message, None, {"rows": rows, "ids": tokenizer.width, "padding": spare})


@rule(
    "vocabulary-sizes-differ",
    "CRASH",
    "error",
    title="Target and draft have different numbers of vocabulary rows",
    source="logits of different width cannot be compared: NVIDIA/TensorRT-LLM#3615, vllm-project/vllm#7252",
)
def _sizes(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.pair.target_vocab, facts.pair.draft_vocab
    match = facts.pair.tokenizers
    if target is None or draft is None or target == draft or (match and match.relation == "different"):
        return
    rows = f"{count_text(target)} vocabulary rows in the target, {count_text(draft)} in the draft"
    data = {"target": target, "draft": draft}
    if facts.spec.speculation.acceptance == "logits":
        message = f"{rows}: acceptance by logits compares rows of equal width"
        yield Hit("pair", message, "set speculation.acceptance: tokens, or pad the smaller model", data)
    else:
        message = f"{rows}: padding only, harmless with acceptance by tokens"
        yield Hit("pair", message, None, data, level="note")


@rule(
    "tokenizer-splits-differently",
    "PERF",
    "warning",
    title="Same ids, but text is split into tokens differently",
    source="the draft was trained on other token sequences than it will see: fewer drafts are accepted",
)
def _splits(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or match.relation == "different":
        return
    checked = {"merges": match.merges, "pre-tokenizer": match.pre_tokenizer, "normalizer": match.normalizer}
    unequal = [name for name, equal in checked.items() if equal is False]
    if unequal:
        message = (
            f"ids agree, but {' and '.join(unequal)} differ: the same text gives other tokens in the draft's training"
        )
        yield Hit("pair", message, "use the target's tokenizer files in the draft, or expect less acceptance",
                  {"differ": unequal})  # fmt: skip


@rule(
    "tokenizer-duplicate-ids",
    "SILENT",
    "error",
    title="One id stands for two tokens",
    source="which of the two is decoded depends on the library",
)
def _duplicates(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        tokenizer = facts.surveys[role].tokenizer
        if tokenizer is not None and tokenizer.duplicates:
            index, one, other = tokenizer.duplicates[0]
            message = f"{tokenizer.source} gives id {index} to {one!r} and to {other!r}"
            more = len(tokenizer.duplicates) - 1
            message += f", and {more} more such ids" if more else ""
            yield Hit(
                role, message, "fetch the tokenizer files again", {"ids": [d[0] for d in tokenizer.duplicates[:10]]}
            )


@rule(
    "end-ids-missing",
    "SILENT",
    "warning",
    title="No end id: generation runs to the length limit",
    source="NVIDIA/TensorRT-LLM#250, triton-inference-server/tensorrtllm_backend#82",
)
def _no_end(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        survey = facts.surveys[role]
        if survey.config is not None and not survey.end_ids:
            message = "no eos_token_id in generation_config.json or config.json, no eos_token in tokenizer_config.json"
            yield Hit(role, message, f'write {{"eos_token_id": [ID]}} to {survey.folder / "generation_config.json"}')


@rule(
    "end-ids-differ",
    "SILENT",
    "error",
    title="Target and draft end at different tokens",
    source="NVIDIA/TensorRT-LLM#250, #2120, #5670",
)
def _ends(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.surveys["target"], facts.surveys["draft"]
    ours, theirs = set(target.end_ids), set(draft.end_ids)
    if not ours or not theirs or ours == theirs:
        return
    message = f"the target ends at {_ids(target)}, the draft at {_ids(draft)}"
    ends = ", ".join(str(index) for index in target.end_ids)
    fix = f'write {{"eos_token_id": [{ends}]}} to {draft.folder / "generation_config.json"}'
    data = {"target": list(target.end_ids), "draft": list(draft.end_ids)}
    if ours & theirs:
        yield Hit("pair", f"{message}: drafts near the end of an answer are lost", fix, data, level="warning")
    else:
        yield Hit("pair", f"{message}: they have no end in common", fix, data)


def _ids(survey: Survey) -> str:
    tokens = survey.tokenizer.tokens if survey.tokenizer else {}
    return ", ".join(f"{index} ({tokens[index]!r})" if index in tokens else str(index) for index in survey.end_ids)


@rule(
    "end-id-out-of-range",
    "SILENT",
    "error",
    title="An end id is beyond the vocabulary",
    source="it can never be generated: generation runs to the length limit",
)
def _end_range(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        survey = facts.surveys[role]
        rows = survey.vocab_size
        for index in survey.end_ids if rows is not None else ():
            if rows is not None and not 0 <= index < rows:
                message = f"end id {index} is beyond its {count_text(rows)} vocabulary rows"
                yield Hit(role, message, "correct eos_token_id", {"id": index, "rows": rows})


@rule(
    "chat-template",
    "INFO",
    "note",
    title="No chat template: prompts are sent as plain text",
    source="instruct models answer plain text badly",
)
def _no_template(facts: Facts) -> Iterator[Hit]:
    survey = facts.surveys["target"]
    unreadable = any(failure.part in ("folder", "tokenizer", "chat_template") for failure in survey.failures)
    if survey.chat_template is None and not unreadable:
        yield Hit("target", "no chat template: prompts are sent as plain text", None)


@rule(
    "double-bos",
    "SILENT",
    "note",
    title="The chat template writes the begin-of-text token and the tokenizer adds another",
    source="vllm-project/vllm#16976, #27515, #55288",
)
def _double_bos(facts: Facts) -> Iterator[Hit]:
    tokenizer, template = facts.surveys["target"].tokenizer, facts.surveys["target"].chat_template
    if tokenizer is None or template is None or not tokenizer.adds_bos or tokenizer.bos_id is None:
        return
    bos = tokenizer.tokens.get(tokenizer.bos_id, "")
    if (bos and bos in template) or "bos_token" in template:
        message = f"template and tokenizer both begin with {bos!r}; trtspec's server adds it once"
        fix = "other clients: tokenise rendered prompts with add_special_tokens=False"
        yield Hit("target", message, fix, {"bos_id": tokenizer.bos_id})
