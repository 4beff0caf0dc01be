"""Rules about where a text begins and ends, and how a conversation is written: end ids, BOS, chat templates."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.checkpoints import Survey
from trtspec.rules.facts import Facts, ModelRole, each_config
from trtspec.rules.registry import Hit, rule
from trtspec.units import count_text

__all__: list[str] = []

_ENDS = "NVIDIA/TensorRT-LLM#250, #2120, #5670; triton-inference-server/tensorrtllm_backend#82"


@rule(
    "end-ids-missing",
    "SILENT",
    "warning",
    title="No end id: generation runs to the length limit",
    source=_ENDS,
    explanation="A model says that it is done with a token. If nobody knows which, every answer runs to max_tokens.",
    fix='Write {"eos_token_id": [ID]} to generation_config.json.',
    example="no eos_token_id in generation_config.json and config.json, no eos_token in tokenizer_config.json",
)
def _no_end(facts: Facts) -> Iterator[Hit]:
    for role, _ in each_config(facts):
        if not facts.side(role).end_ids:
            file = facts.surveys[role].folder / "generation_config.json"
            message = "no eos_token_id in generation_config.json or config.json, no eos_token in tokenizer_config.json"
            yield Hit(role, message, f'write {{"eos_token_id": [ID]}} to {file}')


@rule(
    "end-ids-differ",
    "SILENT",
    "error",
    title="Target and draft end at different tokens",
    source=_ENDS,
    explanation="Near the end of an answer the draft proposes its own end, which the target does not accept, or runs "
    "past the target's. With no end in common the two were made for different conversations.",
    fix="The target's eos_token_id in the draft's generation_config.json.",
    example="target ends at 128001, 128008, 128009, draft at 128001",
)
def _ends(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.pair.target.end_ids, facts.pair.draft.end_ids
    if not target or not draft or set(target) == set(draft):
        return
    message = f"the target ends at {_ids(facts, 'target')}, the draft at {_ids(facts, 'draft')}"
    ends = ", ".join(str(index) for index in target)
    fix = f'write {{"eos_token_id": [{ends}]}} to {facts.surveys["draft"].folder / "generation_config.json"}'
    data = {"target": list(target), "draft": list(draft)}
    if facts.pair.shared_ends:
        yield Hit(
            "pair", f"{message}: drafts near the end of an answer are lost", fix, data, level="warning", severity="PERF"
        )
    else:
        yield Hit("pair", f"{message}: they have no end in common", fix, data)


def _ids(facts: Facts, role: ModelRole) -> str:
    tokenizer = facts.surveys[role].tokenizer
    tokens = tokenizer.tokens if tokenizer else {}
    return ", ".join(
        f"{index} ({tokens[index]!r})" if index in tokens else str(index) for index in facts.side(role).end_ids
    )


@rule(
    "end-id-out-of-range",
    "SILENT",
    "error",
    title="An end id is beyond the vocabulary",
    source="it can never be generated: generation runs to the length limit",
    explanation="The file belongs to another model, or a digit is wrong.",
    fix="Correct eos_token_id.",
    example='{"eos_token_id": 1280019} with 128 256 rows',
)
def _end_range(facts: Facts) -> Iterator[Hit]:
    for role in facts.roles:
        side = facts.side(role)
        for index in side.end_ids if side.rows is not None else ():
            if side.rows is not None and not 0 <= index < side.rows:
                message = f"end id {index} is beyond its {count_text(side.rows)} vocabulary rows"
                yield Hit(role, message, "correct eos_token_id", {"id": index, "rows": side.rows})


def _template_readable(survey: Survey) -> bool:
    return not any(failure.part in ("folder", "tokenizer", "chat_template") for failure in survey.failures)


@rule(
    "chat-template",
    "INFO",
    "note",
    title="No chat template: prompts are sent as plain text",
    source="instruct models answer plain text badly",
    explanation="A base model continues text and needs none. An instruct model does, and its template is missing.",
    fix="Nothing for a base model; else copy tokenizer_config.json or chat_template.jinja from the model's repository.",
    example="tokenizer_config.json without chat_template",
)
def _no_template(facts: Facts) -> Iterator[Hit]:
    survey = facts.surveys["target"]
    if survey.chat_template is None and survey.tokenizer is not None and _template_readable(survey):
        yield Hit("target", "no chat template: prompts are sent as plain text", None)


@rule(
    "draft-not-instructed",
    "PERF",
    "warning",
    title="The target is an instruct model, the draft has no chat template",
    source="vllm-project/vllm#21278, meta-pytorch/gpt-fast#198: a draft weak on the served content gains nothing",
    explanation="Prompts carry the target's conversation markers. A base draft has rarely seen them and continues "
    "differently from an instructed target.",
    fix="The instruct release of the draft.",
    example="target Llama-3.1-70B-Instruct, draft Llama-3.2-1B",
)
def _base_draft(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.surveys["target"], facts.surveys["draft"]
    if target.chat_template is None or draft.tokenizer is None or not _template_readable(draft):
        return
    if draft.chat_template is None:
        message = "the target has a chat template, the draft has none: a base model drafts for an instruct model"
        yield Hit("draft", message, "choose the instruct release of the draft")


@rule(
    "chat-templates-differ",
    "PERF",
    "note",
    title="Target and draft have different chat templates",
    source="prompts are written with the target's template",
    explanation="The draft was tuned on conversations in another form. Small differences (dates, tool sections) cost "
    "little, other markers a lot.",
    fix="Look at both templates; checkpoints of the same release have the same.",
    example="target Llama-3.3-70B-Instruct, draft a fine-tune with ChatML markers",
)
def _templates(facts: Facts) -> Iterator[Hit]:
    if facts.pair.same_template is False:
        lengths: dict[str, int] = {role: len(facts.side(role).chat_template or "") for role in facts.roles}
        yield Hit("pair", "the chat templates differ; prompts are written with the target's", None, lengths)


@rule(
    "double-bos",
    "SILENT",
    "note",
    title="The chat template writes the begin-of-text token and the tokenizer adds another",
    source="vllm-project/vllm#16976, #27515, #55288",
    explanation="Two of them at the front change the first answer token and make temperature-0 comparisons fail. "
    "trtspec's server adds it once; clients that tokenise themselves must take care.",
    fix="Tokenise rendered prompts with add_special_tokens=False.",
    example="a template that begins with {{ bos_token }} and a tokenizer that prepends <s>",
)
def _double_bos(facts: Facts) -> Iterator[Hit]:
    side, tokenizer = facts.pair.target, facts.surveys["target"].tokenizer
    if side.doubles_bos and side.bos_id is not None and tokenizer is not None:
        message = f"template and tokenizer both begin with {tokenizer.tokens.get(side.bos_id, '')!r}; "
        fix = "other clients: tokenise rendered prompts with add_special_tokens=False"
        yield Hit("target", f"{message}trtspec's server adds it once", fix, {"bos_id": side.bos_id})
