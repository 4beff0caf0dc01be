"""Chat messages (JSON, OpenAI's form) to a prompt, by the tokenizer's own template in jinja's sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.chat_template import compile_template
    from trtspec.triton_models.frontend_inputs import RequestError
else:
    from chat_template import compile_template
    from frontend_inputs import RequestError

__all__ = ["ChatTemplate", "read_messages"]

# OpenAI's newer name for a system message; templates know the old one.
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KEYS = {"role", "content", "name"}
_MOST_MESSAGES = 1024


class ChatTemplate:
    """The chat template in a tokenizer folder, compiled at first use."""

    def __init__(self, folder: Path) -> None:
        self._config = _read_config(folder)
        self._text = _template_text(folder, self._config)
        self._compiled: Any = None

    def render(self, messages_json: str) -> str:
        """The prompt for the messages, generation prompt included; RequestError when they or the template are odd."""
        if self._text is None:
            raise RequestError("no_chat_template", "this deployment's tokenizer has no chat template; send text_input")
        messages = read_messages(messages_json)
        self._compiled = self._compiled or _compile(self._text)
        tokens = {key: _content(value) for key, value in self._config.items() if key.endswith("_token")}
        try:
            prompt: str = self._compiled.render(
                messages=messages, tools=None, documents=None, add_generation_prompt=True, **tokens
            )
        except Exception as error:  # noqa: BLE001 - a template is a program: whatever it raises is about this request
            raise RequestError("invalid_request", f"the chat template refuses the messages: {error}") from None
        return prompt


def read_messages(text: str) -> list[dict[str, str]]:
    """The messages in a JSON text, as role and content; RequestError names what is wrong with which."""
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError("invalid_request", f"messages is not JSON: {error}") from None
    if not isinstance(messages, list) or not messages:
        raise RequestError("invalid_request", "messages must be a JSON list with at least one message")
    if len(messages) > _MOST_MESSAGES:
        raise RequestError("invalid_request", f"messages has {len(messages)} entries; the limit is {_MOST_MESSAGES}")
    return [_message(number, message) for number, message in enumerate(messages)]


def _message(number: int, message: Any) -> dict[str, str]:
    place = f"messages[{number}]"
    if not isinstance(message, Mapping):
        raise RequestError("invalid_request", f"{place} must be an object with role and content")
    extra = sorted(str(key) for key in message.keys() - _KEYS)
    if extra:
        raise RequestError("invalid_request", f"{place} has {extra[0]}, which is not supported; role and content are")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise RequestError("invalid_request", f"{place} has the role {role!r}; known are {', '.join(_ROLES)}")
    content = _text(place, message.get("content"))
    try:
        content.encode()
    except UnicodeEncodeError:
        raise RequestError("invalid_request", f"{place} has half a surrogate pair, which is no character") from None
    return {"role": _ROLES[role], "content": content}


def _text(place: str, content: Any) -> str:
    """A message's text; a list of text parts is joined."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        parts = [
            part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in content
        ]
        if all(isinstance(part, str) for part in parts):
            return "".join(str(part) for part in parts)
        raise RequestError("invalid_request", f"{place} has content that is no text; only text is supported")
    raise RequestError("invalid_request", f"{place} needs content: a text, or a list of text parts")


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return config


def _template_text(folder: Path, config: Mapping[str, Any]) -> str | None:
    """chat_template.jinja stands before tokenizer_config.json; of a list of named templates, `default` is taken."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    value = config.get("chat_template")
    if isinstance(value, list):
        value = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}.get("default")
    return value if isinstance(value, str) else None


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token


def _compile(text: str) -> Any:
    """The template, compiled; RequestError when it is broken or jinja2 is not there."""
    try:
        import jinja2
    except ImportError:
        raise RequestError(
            "no_chat_template", "chat needs the package jinja2 beside the server; send text_input"
        ) from None
    try:
        return compile_template(text)
    except jinja2.TemplateError as error:
        raise RequestError("no_chat_template", f"this deployment's chat template is broken: {error}") from None
