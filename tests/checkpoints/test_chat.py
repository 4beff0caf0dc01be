"""Chat templates: the same text as transformers' apply_chat_template, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints import chat_template, leading_bos, render_messages, render_user
from trtspec.errors import CheckpointError

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' }}"
    "{% if loop.index0 == 0 and system is defined %}{{ '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' }}{% endif %}"
    "{{ message['content'].strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
TRIMMING = """
{% if system is not defined %}
    {%- set ns = namespace(n=0) -%}
{% endif %}
{% for message in messages %}
    {% if message.role == 'skip' %}
        {% continue %}
    {% endif %}
    {% set ns.n = ns.n + 1 %}
  {{ ns.n }}: {{ message | tojson }} {{ message.content | tojson(indent=2) }}
{% endfor %}
{% generation %}
answer
{% endgeneration %}
{% if add_generation_prompt %}
>>> {{ strftime_now('%Y') }} {{ eos_token }} {{ unknown_variable }}
{%- endif %}
"""
TEMPLATES: dict[str, Any] = {
    "chatml": None,
    "llama 2": LLAMA2,
    "trimming, loop controls, tojson, generation": TRIMMING,
    "named": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "{{ messages[0].content }}!"}],
}
TEXTS = ["hi", "  spaces \n kept ", "<b> & \"quotes\" 'single' é 日本語 {{ not a template }}", ""]


def folder_with(folder: Path, template: Any, **config: Any) -> Path:
    tiny_tokenizer_files(folder)
    path = folder / "tokenizer_config.json"
    given = json.loads(path.read_text()) | config
    if template is not None:
        given["chat_template"] = template
    path.write_text(json.dumps(given))
    return folder


def by_transformers(folder: Path, messages: list[dict[str, str]]) -> str:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


@pytest.mark.parametrize("case", TEMPLATES)
def test_the_text_is_that_of_transformers(tmp_path: Path, case: str) -> None:
    folder = folder_with(tmp_path, TEMPLATES[case])
    for text in TEXTS:
        assert render_user(folder, text) == by_transformers(folder, [{"role": "user", "content": text}])
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "why?"}]
    assert render_user(folder, "why?", system="Be brief.") == by_transformers(folder, messages)


def test_several_turns_and_the_file_stands_before_the_configuration(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "from the configuration")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert render_messages(folder, messages) == "[user] a\n[assistant] b\n[user] c\n"
    assert render_messages(folder, messages) == by_transformers(folder, messages)


@pytest.mark.smollm2
def test_the_real_smollm2_renders_as_transformers_renders_it(smollm2: Callable[[], Path]) -> None:
    folder = smollm2()
    for text in TEXTS:
        assert render_user(folder, text) == by_transformers(folder, [{"role": "user", "content": text}])


@pytest.fixture
def smollm2() -> Callable[[], Path]:
    """The folder of SmolLM2, fetched when it is not there yet (never skipped)."""
    from trtspec.demo.models import fetch_target

    return fetch_target


def test_without_a_template_the_text_is_unchanged(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, None)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"eos_token": "<|im_end|>"}))
    assert chat_template(folder) is None
    assert render_user(folder, "as it is") == "as it is"
    with pytest.raises(CheckpointError, match="has no chat template"):
        render_messages(folder, [{"role": "user", "content": "x"}])


def test_a_template_that_refuses_says_so(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, LLAMA2)
    with pytest.raises(CheckpointError, match="roles must alternate") as caught:
        render_messages(folder, [{"role": "assistant", "content": "x"}])
    assert caught.value.where == str(folder)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% for m in %}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ 1 / 0 }}",
        "{{ messages[99].content }}",
    ],
)
def test_templates_that_break_or_break_out_are_errors(tmp_path: Path, template: str) -> None:
    folder = folder_with(tmp_path, template)
    with pytest.raises(CheckpointError, match="its chat template refuses"):
        render_user(folder, "x")


def test_a_list_without_a_default_is_an_error(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, [{"name": "tool_use", "template": "x"}])
    with pytest.raises(CheckpointError, match="named 'default'"):
        render_user(folder, "x")


def test_two_leading_bos_are_counted(tmp_path: Path) -> None:
    """vllm-project/vllm#16976: the template writes <s>, the tokenizer adds another."""
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "hi": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    template = "{{ bos_token }}[INST] {{ messages[0].content }}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "chat_template": template}))
    rendered = render_user(tmp_path, "hi")
    assert rendered == "<s>[INST] hi"
    assert leading_bos(tmp_path, rendered) == 2
    assert leading_bos(tmp_path, "hi") == 1
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert leading_bos(tmp_path, rendered) == 0, "no begin-of-text token is named"
