"""From one JSON object of a prompt file to the prompts in it; which form it has is seen from its keys.

Sources of the field names: FastChat's llm_judge (question_id, category, turns), hemingkx/Spec-Bench
(data/spec_bench/question.jsonl, the same), the dataset card of nvidia/SPEED-Bench (turns, sub_category, multiturn) and
what its preparation writes (messages; AIPerf's dataset/loader/speed_bench.py), ShareGPT_Vicuna_unfiltered
(conversations of from and value), openai/human-eval (task_id, prompt, entry_point), AIPerf's dataset/loader/models.py
and inputs_json.py (text, texts, text_input, turns, messages, payload, payloads, output_length), OpenAI's API reference
(request bodies; custom_id and body of a batch file).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trtspec.loadtest.fields import FieldError, Fields, is_unicode
from trtspec.loadtest.prompts.prompt import DEFAULT_MAX_TOKENS, Entropy, Prompt

__all__ = ["Row", "read_row"]

UNCATEGORISED = "uncategorised"
# what stands in nvidia/SPEED-Bench's public copy where a prompt must be fetched from its source
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
_LIMITS = ("max_tokens", "max_completion_tokens", "output_length", "output_tokens")
_NAMES = ("id", "question_id", "custom_id", "task_id")
_ENTROPIES: tuple[Entropy, ...] = ("low", "medium", "high")
# categories of SPEED-Bench's throughput sets
_TIERS: Mapping[str, Entropy] = {"low_entropy": "low", "mixed": "medium", "high_entropy": "high"}
_HUMANS, _MODELS = {"human", "user"}, {"gpt", "assistant", "chatgpt", "bing", "bard", "claude", "model"}

Message = Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """The prompts of one object, the name of its form, and whether it named itself."""

    form: str
    prompts: list[Prompt]
    named: bool


def read_row(fields: Fields, number: int) -> Row:
    """What is asked in one object, `number` being its line; FieldError when that cannot be told.

    A conversation without a question gives no prompts.
    """
    return _read(fields, _Around(f"line-{number}"))


def _read(fields: Fields, around: _Around) -> Row:
    base = _Base(fields, around)
    form, read = next(((form, read) for key, form, read in _FORMS if key in fields), ("", None))
    if read is None:
        raise FieldError(f"no prompt in it: one of {', '.join(key for key, _, _ in _FORMS)} is needed")
    prompts = read(base)
    return Row(_form(form, fields), [prompt for prompt in prompts if _asks(prompt)], base.name is not None)


def _asks(prompt: Prompt) -> bool:
    if _PLACEHOLDER in prompt.text:
        raise FieldError("is a placeholder: prepare SPEED-Bench first (specdec_bench's prepare_data.py fills it in)")
    return True


def _form(form: str, fields: Fields) -> str:
    if form == "messages":
        return "SPEED-Bench" if "question_id" in fields else "OpenAI messages"
    if form == "turns" and "question_id" in fields:
        return "SPEED-Bench" if "multiturn" in fields else "Spec-Bench or MT-Bench"
    if form == "prompt":
        return "HumanEval" if "entry_point" in fields else "trtspec"
    return "AIPerf turns" if form == "turns" else form


@dataclass(frozen=True)
class _Around:
    """What an object is called, and of which category it is, where it does not say so itself."""

    id: str
    category: str = UNCATEGORISED


class _Base:
    """What an object says besides its texts."""

    def __init__(self, fields: Fields, around: _Around) -> None:
        self.fields = fields
        self.name = next((str(fields.scalar(key)) for key in _NAMES if key in fields), None)
        self.id = self.name or around.id
        default = "code" if "entry_point" in fields else around.category
        self.category = fields.text("category", default)
        limits = (fields.optional_count(key) for key in _LIMITS)
        self.max_tokens = next((limit for limit in limits if limit), DEFAULT_MAX_TOKENS)
        self.language = fields.optional_text("language")
        self.entropy = fields.optional_choice("entropy", _ENTROPIES) or _TIERS.get(self.category)

    def prompt(self, text: str, messages: tuple[Message, ...] | None = None) -> Prompt:
        """A prompt on its own."""
        return Prompt(
            self.id, self.category, text, self.max_tokens, messages, language=self.language, entropy=self.entropy
        )

    def conversation(self, texts: list[str], system: tuple[Message, ...] = (), session: str = "") -> list[Prompt]:
        """User messages that are sent one after the other, each with the answers before it."""
        made = [self.prompt(text) for text in texts]
        if made and system:
            made[0] = replace(made[0], messages=(*system, {"role": "user", "content": texts[0]}))
        if len(made) < 2:
            return made
        name = session or self.id
        return [replace(one, id=f"{self.id}/{turn}", session=name, turn=turn) for turn, one in enumerate(made)]


def _own(base: _Base) -> list[Prompt]:
    """trtspec's own form, HumanEval's, and the body of a completions request (there `prompt` may be a list of one)."""
    prompt = base.prompt(_content(base.fields.one_text("prompt"), "prompt"))
    session, turn = base.fields.optional_text("session"), base.fields.optional_count("turn")
    if (session is None) != (turn is None):
        raise FieldError("'session' and 'turn' belong together")
    return [replace(prompt, session=session, turn=turn)]


def _text_of(key: str) -> Callable[[_Base], list[Prompt]]:
    return lambda base: [base.prompt(_content(base.fields.one_text(key), key))]


def _turns(base: _Base) -> list[Prompt]:
    return base.conversation([_turn(turn, f"turns[{index}]") for index, turn in enumerate(base.fields.items("turns"))])


def _turn(turn: Any, where: str) -> str:
    """A turn's text: itself, or what is below `text` or `texts` (AIPerf's multi-turn form)."""
    if not isinstance(turn, Mapping):
        return _content(turn, where)
    fields = Fields(turn, f"{where}.")
    return _content(fields.one_text("text" if "text" in fields else "texts"), where)


def _share_gpt(base: _Base) -> list[Prompt]:
    """The human's messages; what the model once answered is left to the model under test."""
    texts: list[str] = []
    system: tuple[Message, ...] = ()
    for index, fields in enumerate(base.fields.objects("conversations")):
        speaker, text = fields.text("from"), fields.text("value", "")
        if speaker == "system" and not texts:
            system = ({"role": "system", "content": text},) if text.strip() else ()
        elif speaker in _HUMANS:
            if text.strip():
                texts.append(text)
        elif speaker not in _MODELS:
            raise FieldError(f"'conversations[{index}].from' is {speaker!r}, neither human nor gpt nor system")
    return base.conversation(texts, system)


def _messages(base: _Base) -> list[Prompt]:
    """A request's conversation as it is; without any answer in it, its user messages are turns one after the other."""
    messages = _read_messages(base.fields)
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages or messages[-1]["role"] != "user":
        raise FieldError("'messages' has no question: the last one must be the user's")
    texts = [one["content"] for one in messages if one["role"] == "user"]
    delta = base.fields.optional_text("message_mode") == "delta"
    if len(messages) == 1:
        prompts = [base.prompt(texts[0])]
    elif len(texts) > 1 and all(one["role"] == "user" for one in messages[1:]) and not delta:
        system = () if messages[0]["role"] == "user" else (messages[0],)
        return base.conversation(texts, system)
    else:
        prompts = [base.prompt(texts[-1], tuple(messages))]
    # AIPerf's deltas: every line adds to the conversation of its session; turns are numbered by their order
    session = base.fields.optional_text("session_id") if delta else None
    return [replace(one, session=session) for one in prompts]


def _read_messages(fields: Fields) -> list[Message]:
    read: list[Message] = []
    for index, one in enumerate(fields.objects("messages")):
        where = f"messages[{index}].content"
        role = one.text("role")
        content = _content(_joined(one.value("content"), where), where)
        read.append({"role": "system" if role == "developer" else role, "content": content})
    return read


def _joined(value: Any, where: str) -> Any:
    """The text of a content that is a list of text parts."""
    if not isinstance(value, list):
        return value
    parts = [part.get("text") if isinstance(part, Mapping) else None for part in value]
    if not all(isinstance(part, str) for part in parts):
        raise FieldError(f"'{where}' has parts that are no text")
    return "".join(str(part) for part in parts)


def _nested(key: str) -> Callable[[_Base], list[Prompt]]:
    """The request below `key`, with the name and category of the object around it."""

    def read(base: _Base) -> list[Prompt]:
        inner = base.fields.optional_object(key)
        if inner is None:
            raise FieldError(f"'{key}' is empty")
        return _read(inner, _Around(base.id, base.category)).prompts

    return read


def _payloads(base: _Base) -> list[Prompt]:
    """A session of AIPerf's inputs.json: every payload is a whole request."""
    listed = base.fields.objects("payloads" if "payloads" in base.fields else "payload")
    session = base.fields.optional_text("session_id") or base.id
    names = [session if len(listed) == 1 else f"{session}/{index}" for index in range(len(listed))]
    read = [_read(one, _Around(name, base.category)) for one, name in zip(listed, names, strict=True)]
    return [prompt for row in read for prompt in row.prompts]


def _payload(base: _Base) -> list[Prompt]:
    listed = isinstance(base.fields.value("payload"), list)
    return _payloads(base) if listed else _nested("payload")(base)


def _content(value: Any, where: str) -> str:
    if not isinstance(value, str) or not is_unicode(value):
        raise FieldError(f"'{where}' must be text")
    if not value.strip():
        raise FieldError(f"'{where}' is empty")
    return value


# key that tells the form → its name and how it is read
_FORMS: tuple[tuple[str, str, Callable[[_Base], list[Prompt]]], ...] = (
    ("conversations", "ShareGPT", _share_gpt),
    ("payloads", "AIPerf inputs", _payloads),
    ("payload", "AIPerf payloads", _payload),
    ("body", "OpenAI batch", _nested("body")),
    ("turns", "turns", _turns),
    ("messages", "messages", _messages),
    ("prompt", "prompt", _own),
    ("text_input", "text_input", _text_of("text_input")),
    ("text", "AIPerf single turn", _text_of("text")),
    ("texts", "AIPerf single turn", _text_of("texts")),
)
