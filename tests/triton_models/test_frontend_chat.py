"""Messages to a prompt, and what is said about messages that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints import render_messages
from trtspec.triton_models.frontend_chat import ChatTemplate, read_messages
from trtspec.triton_models.frontend_inputs import RequestError

USER = {"role": "user", "content": "hi"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_tokenizer_files(tmp_path)
    return tmp_path


def with_template(folder: Path, template: Any) -> ChatTemplate:
    path = folder / "tokenizer_config.json"
    config = {**json.loads(path.read_text()), "chat_template": template}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return ChatTemplate(folder)


def test_the_prompt_is_the_one_that_the_load_test_sends(folder: Path) -> None:
    messages = [{"role": "system", "content": "short"}, USER, {"role": "assistant", "content": "yes"}, USER]
    prompt = ChatTemplate(folder).render(json.dumps(messages))
    assert prompt == render_messages(folder, messages)
    assert prompt.endswith("<|im_start|>assistant\n")


def test_text_parts_are_joined_and_developer_is_system(folder: Path) -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": parts}, {**USER, "name": "anna"}]
    assert read_messages(json.dumps(messages)) == [{"role": "system", "content": "a b"}, USER]


def test_a_template_file_stands_before_the_configuration(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content|tojson }}")
    assert ChatTemplate(folder).render(json.dumps([USER])) == '<|endoftext|>"hi"'


def test_of_named_templates_the_default_is_taken(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    assert with_template(folder, named).render(json.dumps([USER])) == "yes"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "messages is not JSON: .*"),
        ("[" * 100000, "messages is not JSON: .*"),
        ("{}", "messages must be a JSON list with at least one message"),
        ("[]", "messages must be a JSON list with at least one message"),
        ('["hi"]', r"messages\[0\] must be an object with role and content"),
        ('[{"content": "hi"}]', r"messages\[0\] has the role None; known are system, developer, user, assistant"),
        ('[{"role": "robot", "content": "hi"}]', r"messages\[0\] has the role 'robot'; known are .*"),
        ('[{"role": ["user"], "content": "hi"}]', r"messages\[0\] has the role \['user'\]; known are .*"),
        ('[{"role": "tool", "content": "hi"}]', r"messages\[0\] has the role 'tool'; known are .*"),
        ('[{"role": "user"}]', r"messages\[0\] needs content: a text, or a list of text parts"),
        ('[{"role": "assistant", "content": null}]', r"messages\[0\] needs content: .*"),
        ('[{"role": "assistant", "content": "", "tool_calls": []}]', r"messages\[0\] has tool_calls, which is not .*"),
        ('[{"role": "user", "content": [{"type": "image_url"}]}]', r"messages\[0\] has content that is no text; .*"),
        (
            r'[{"role": "user", "content": "a\ud800"}]',
            r"messages\[0\] has half a surrogate pair, which is no character",
        ),
        (json.dumps([USER] * 1025), "messages has 1025 entries; the limit is 1024"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=f"^invalid_request: {message}$"):
        read_messages(text)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "no_chat_template: this deployment's tokenizer has no chat template; send text_input"),
        ("{% if %}", "no_chat_template: this deployment's chat template is broken: .*"),
        ("{{ raise_exception('no system text') }}", "invalid_request: the chat template refuses .*: no system text"),
        ("{{ messages[7].content }}", "invalid_request: the chat template refuses the messages: .*"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "invalid_request: .* refuses .* unsafe.*"),
        ("{{ 1 / 0 }}", "invalid_request: the chat template refuses the messages: division by zero"),
    ],
)
def test_templates_that_refuse(folder: Path, template: str | None, message: str) -> None:
    with pytest.raises(RequestError, match=f"^{message}$"):
        with_template(folder, template).render(json.dumps([USER]))


def test_what_a_client_writes_is_no_template(folder: Path) -> None:
    prompt = ChatTemplate(folder).render(json.dumps([{"role": "user", "content": "{{ 7 * 6 }}"}]))
    assert "{{ 7 * 6 }}" in prompt
