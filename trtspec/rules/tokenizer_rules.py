"""Rules about token ids: the two models exchange ids, never text, so an id must mean the same on both sides."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.checkpoints import TokenizerFacts, TokenizerMatch
from trtspec.checkpoints.pairing import DifferingId
from trtspec.rules.facts import OTHER, Facts, ModelRole, each_tokenizer
from trtspec.rules.registry import Hit, rule
from trtspec.units import count_text

__all__: list[str] = []


@rule(
    "tokenizer-differs",
    "SILENT",
    "error",
    title="An id means different tokens to target and draft",
    source="external drafts exchange ids; huggingface/transformers#33383, #46936, vllm-project/vllm#38174",
    explanation="Draft and target exchange token ids, never text. An id that means two things turns every draft into "
    "noise, and where both happen to agree on a length nothing fails. The overlap says how far apart the two are; it "
    "forecasts no acceptance.",
    fix="A draft of the target's family and release, with the same tokenizer files.",
    example="target Llama-3.1-8B, draft Qwen2.5-0.5B",
)
def _differs(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or match.exchanges:
        return
    agree = (
        f"{count_text(match.same_ids)} of {count_text(match.total_ids)} ids mean the same token ({match.overlap:.1%})"
    )
    message = f"different tokenizers: {agree}; first difference: {_shown(match.differing[0])}"
    fix = "choose a draft of the target's family and release, with the same tokenizer files"
    yield Hit("pair", message, fix, _data(match))


def _meanings(facts: Facts, index: int) -> DifferingId:
    """What an id is to both sides."""
    target, draft = (tokenizer.tokens.get(index) for _, tokenizer in each_tokenizer(facts))
    return DifferingId(index, target, draft)


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
    "special-tokens-renamed",
    "SILENT",
    "warning",
    title="Some special tokens have other names in the other tokenizer",
    source="Llama 3.1 named ids that Llama 3 had reserved",
    explanation="All ordinary tokens and the ends are the same, some special ids are called differently: mostly ones "
    "that one release reserved and the next took into use. The draft has not learned what they stand for.",
    fix="Checkpoints of the same release, or accept that these tokens are drafted badly.",
    example="target Llama-3.1-70B-Instruct, draft Llama-3-8B-Instruct: id 128008",
)
def _special(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is not None and match.renamed:
        first = _meanings(facts, match.renamed[0])
        message = f"{len(match.renamed)} special ids have two names, all other ids agree; first: {_shown(first)}"
        yield Hit("pair", message, "use checkpoints of the same release", _data(match))


@rule(
    "tokenizer-extended",
    "SILENT",
    "warning",
    title="One tokenizer has tokens that the other lacks",
    source="all common ids agree; the missing ones are never drafted, or were never trained",
    explanation="All ids that both have agree; one side has more (tool or vision tokens of a later release). Those "
    "are never drafted or never accepted.",
    fix="Checkpoints of the same release, or accept it.",
    example="target with an added <tool> token, draft without",
)
def _extended(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or match.relation != "extended":
        return
    for role, ids in (("target", match.only_target), ("draft", match.only_draft)):
        if ids:
            item = _meanings(facts, ids[0])
            first = f"first: id {item.id}, {(item.target if item.draft is None else item.draft)!r}"
            message = f"only the {role} knows {count_text(len(ids))} of {count_text(match.total_ids)} ids ({first})"
            fix = "use checkpoints of the same release, or accept that these tokens are never accepted from the draft"
            yield Hit("pair", message, fix, {**_data(match), "only": role, "count": len(ids)})


@rule(
    "id-beyond-embedding",
    "CRASH",
    "error",
    title="A token id is beyond the rows of a model's embedding",
    source="an index out of range in the embedding look-up; vllm-project/vllm#10913, ggml-org/llama.cpp#3812",
    explanation="Each id is a row of the embedding. A row that is not there is a device-side assertion, or memory of "
    "something else.",
    fix="The tokenizer files that belong to the weights, or a resized embedding.",
    example="128 257 ids over an embedding of 128 256 rows",
)
def _beyond(facts: Facts) -> Iterator[Hit]:
    for role in facts.roles:
        rows = facts.surveys[role].vocab_size
        if rows is None:
            continue
        own, other = facts.surveys[role].tokenizer, facts.surveys[OTHER[role]].tokenizer
        if own is not None and own.width > rows:
            yield _own_beyond(role, own, rows)
        elif other is not None and other.width > rows and not _placeholders_only(other, rows):
            largest = f"the {OTHER[role]}'s tokenizer has ids up to {other.width - 1}"
            message = f"{largest}, the {role} only {count_text(rows)} rows"
            fix = "choose a pair with the same tokenizer, or resize this model's embedding"
            yield Hit(role, message, fix, {"largest_id": other.width - 1, "rows": rows})


def _own_beyond(role: ModelRole, own: TokenizerFacts, rows: int) -> Hit:
    data = {"largest_id": own.width - 1, "rows": rows}
    if _placeholders_only(own, rows):
        message = (
            f"its tokenizer has the placeholder {own.tokens[own.width - 1]!r} (id {own.width - 1}), the model only "
        )
        message += f"{count_text(rows)} rows: a text that contains it would stop the engine"
        return Hit(role, message, "keep it out of prompts; the model never produces it", data, level="warning")
    message = f"its tokenizer has ids up to {own.width - 1}, the model only {count_text(rows)} rows"
    return Hit(role, message, "resize the embedding, or use the tokenizer files that belong to the weights", data)


def _placeholders_only(tokenizer: TokenizerFacts, rows: int) -> bool:
    """True when ids from `rows` on all stand for images or sounds (Gemma 3 1B has the larger models' tokenizer)."""
    beyond = [text for index, text in tokenizer.tokens.items() if index >= rows]
    return all(any(kind in text for kind in ("image", "vision", "audio", "video")) for text in beyond)


@rule(
    "vocabulary-padded",
    "INFO",
    "note",
    title="The model has more vocabulary rows than the tokenizer has ids",
    source="padding for speed; sizes come from the model, never from the tokenizer: "
    "triton-inference-server/tensorrtllm_backend#720",
    explanation="Models round their vocabulary up for speed; the rows beyond the tokenizer are never produced. Every "
    "vocabulary-sized tensor must take its size from the model.",
    fix="Nothing.",
    example="Qwen2.5-72B: 152 064 rows for 151 665 ids",
)
def _padded(facts: Facts) -> Iterator[Hit]:
    for role in facts.roles:
        side = facts.side(role)
        if side.rows and side.ids and side.padding and side.padding > 0:
            message = f"{count_text(side.rows)} vocabulary rows for {count_text(side.ids)} ids: "
            message += f"{count_text(side.padding)} rows are padding"
            yield Hit(role, message, None, {"rows": side.rows, "ids": side.ids, "padding": side.padding})


@rule(
    "vocabulary-sizes-differ",
    "CRASH",
    "error",
    title="Target and draft have different numbers of vocabulary rows",
    source="logits of different width cannot be compared: NVIDIA/TensorRT-LLM#3615, vllm-project/vllm#7252",
    explanation="Rejection sampling compares two rows of probabilities number by number; rows of different width "
    "stop the engine. Accepting by tokens compares ids and does not care about padding; the torch runtime gives the "
    "shorter row its padding.",
    fix="acceptance: tokens, or pad the smaller model's vocabulary.",
    example="Qwen2.5-72B (152 064 rows) with Qwen2.5-0.5B (151 936) and acceptance: logits",
)
def _sizes(facts: Facts) -> Iterator[Hit]:
    target, draft, exchange = facts.pair.target_vocab, facts.pair.draft_vocab, facts.pair.exchange
    if target is None or draft is None or exchange["tokens"] is False or exchange["logits"] is not False:
        return
    if any(tokenizer.width > min(target, draft) for _, tokenizer in each_tokenizer(facts)):
        return  # not padding: ids beyond the smaller model's rows, which `id-beyond-embedding` names
    rows = f"{count_text(target)} vocabulary rows in the target, {count_text(draft)} in the draft"
    data = {"target": target, "draft": draft}
    if facts.spec.speculation.acceptance == "logits" and facts.engines:
        message = f"{rows}: acceptance by logits compares rows of equal width"
        yield Hit("pair", message, "set speculation.acceptance: tokens, or pad the smaller model", data)
    else:
        logits = facts.spec.speculation.acceptance == "logits"
        why = "in the torch runtime (it pads)" if logits else "with acceptance by tokens"
        message = f"{rows}: padding only, harmless {why}"
        yield Hit("pair", message, None, data, level="note", severity="INFO")


@rule(
    "tokenizer-splits-differently",
    "PERF",
    "warning",
    title="Same ids, but text is split into tokens differently",
    source="the draft was trained on other token sequences than it will see: fewer drafts are accepted",
    explanation="The ids agree, but the rules that cut text into them do not. The server tokenizes with the target's "
    "files, so the draft sees sequences unlike those it was trained on.",
    fix="The target's tokenizer files in the draft's folder, or expect less acceptance.",
    example="the same vocabulary with other merges",
)
def _splits(facts: Facts) -> Iterator[Hit]:
    match = facts.pair.tokenizers
    if match is None or not match.exchanges:
        return
    unequal = [name.replace("_", "-") for name, equal in match.splitting.items() if equal is False]
    data = {"differ": unequal}
    if unequal == ["decoder"]:
        message = "ids agree, but the decoder differs: the same tokens make another text; the target's writes it"
        yield Hit("pair", message, None, data, level="note")
    elif unequal:
        message = f"ids agree, but {' and '.join(unequal)} differ: the same text gives other tokens in the draft's "
        fix = "use the target's tokenizer files in the draft, or expect less acceptance"
        yield Hit("pair", f"{message}training", fix, data)


@rule(
    "special-flags-differ",
    "PERF",
    "note",
    title="A token is special in one tokenizer and plain text in the other",
    source="`special` of added tokens in tokenizer.json; huggingface/transformers leaves special tokens out of text",
    explanation="The id means the same token, but one side treats it as a marker that is left out of the text and the "
    "other as text. The server goes by the target's files; the draft may have learned it in another place.",
    fix="Nothing; or the target's tokenizer files in the draft's folder.",
    example="<tool_call> with special: true in the target's tokenizer.json, false in the draft's",
)
def _flags(facts: Facts) -> Iterator[Hit]:
    match, tokenizer = facts.pair.tokenizers, facts.surveys["target"].tokenizer
    if match is None or tokenizer is None or not match.special_differs or not match.exchanges:
        return
    first = match.special_differs[0]
    where = "target" if first in tokenizer.special else "draft"
    message = f"id {first} ({tokenizer.tokens[first]!r}) is special in the {where}'s tokenizer only"
    more = len(match.special_differs) - 1
    message += f", and {more} more ids differ so" if more else ""
    yield Hit("pair", message, None, {"ids": list(match.special_differs)})


@rule(
    "tokenizer-duplicate-ids",
    "SILENT",
    "error",
    title="One id stands for two tokens",
    source="which of the two is decoded depends on the library",
    explanation="One library decodes one token, another the other.",
    fix="Fetch the tokenizer files again.",
    example='tokenizer.json with "a": 5 and "b": 5',
)
def _duplicates(facts: Facts) -> Iterator[Hit]:
    for role, tokenizer in each_tokenizer(facts):
        if tokenizer.duplicates:
            index, one, other = tokenizer.duplicates[0]
            message = f"{tokenizer.source} gives id {index} to {one!r} and to {other!r}"
            more = len(tokenizer.duplicates) - 1
            message += f", and {more} more such ids" if more else ""
            yield Hit(
                role, message, "fetch the tokenizer files again", {"ids": [d[0] for d in tokenizer.duplicates[:10]]}
            )
