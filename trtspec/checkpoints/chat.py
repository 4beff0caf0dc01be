"""Chat templates rendered as transformers renders them, without importing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from trtspec.chat_template import compile_template
from trtspec.checkpoints.reading import child_names, read_document, read_text
from trtspec.checkpoints.tokenizer import special_token_texts
from trtspec.checkpoints.weights import only_gguf
from trtspec.errors import CheckpointError, EnvironmentMissing

__all__ = ["chat_template", "leading_bos", "render_messages", "render_user"]

_CONFIG = "tokenizer_config.json"
_FILE = "chat_template.jinja"
_compile = lru_cache(maxsize=8)(compile_template)


def render_user(checkpoint: Path, text: str, *, system: str | None = None) -> str:
    """The prompt that a chat model expects for one user message, generation prompt included.

    `text` unchanged when the checkpoint has no template (`chat_template(checkpoint) is None` tells). The template
    mostly writes the begin-of-text token itself: tokenise the result without adding another (`leading_bos`).
    """
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return render_messages(checkpoint, messages) if chat_template(checkpoint) is not None else text


def chat_template(checkpoint: Path) -> str | None:
    """The checkpoint's chat template, None when it has none; CheckpointError when it cannot be read.

    chat_template.jinja stands before tokenizer_config.json; of a list of named templates, `default` is taken.
    """
    names = child_names(checkpoint)
    if _FILE in names:
        return read_text(checkpoint / _FILE)
    if _CONFIG in names:
        path = checkpoint / _CONFIG
        found = _default_template(read_document(path).get("chat_template"), path)
        if found is not None:
            return found
    return _gguf_template(checkpoint, names)


def _default_template(value: Any, path: Path) -> str | None:
    if value is None or isinstance(value, str):
        return value
    listed = value if isinstance(value, list) else []
    named = {item.get("name"): item.get("template") for item in listed if isinstance(item, dict)}
    template = named.get("default")
    if not isinstance(template, str):
        message = "chat_template is neither text nor a list with one named 'default'"
        raise CheckpointError(message, where=str(path), fix=f"write the template to {path.with_name(_FILE)}")
    return template


def _gguf_template(checkpoint: Path, names: list[str]) -> str | None:
    file = only_gguf(names)
    if file is None:
        return None
    from trtspec.checkpoints.gguf_file import read_gguf

    template = read_gguf(checkpoint / file).metadata.get("tokenizer.chat_template")
    return template if isinstance(template, str) else None


def render_messages(checkpoint: Path, messages: Sequence[Mapping[str, Any]]) -> str:
    """The prompt for `messages` ({role, content}) with the generation prompt; CheckpointError without a template."""
    template = chat_template(checkpoint)
    if template is None:
        raise CheckpointError("has no chat template", where=str(checkpoint), fix="send the prompt as plain text")
    import jinja2

    variables = _special_tokens(checkpoint)
    try:
        return _compile(template).render(
            messages=list(messages), tools=None, documents=None, add_generation_prompt=True, **variables
        )
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        message = f"its chat template refuses the conversation: {error}"
        raise CheckpointError(
            message, where=str(checkpoint), fix="leave out the system text, or fix the template"
        ) from None


def _special_tokens(checkpoint: Path) -> dict[str, str]:
    names = child_names(checkpoint)
    config = read_document(checkpoint / _CONFIG) if _CONFIG in names else {}
    found = special_token_texts(config, checkpoint, names)
    return found or dict(_gguf_special_tokens(checkpoint, names))


def _gguf_special_tokens(checkpoint: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    file = only_gguf(names)
    if file is None:
        return
    from trtspec.checkpoints.gguf_file import gguf_tokenizer, read_gguf

    facts = gguf_tokenizer(read_gguf(checkpoint / file))
    for name, index in (("bos_token", facts.bos_id), ("eos_token", facts.end_id)):
        if index is not None and index in facts.tokens:
            yield name, facts.tokens[index]


def leading_bos(checkpoint: Path, text: str) -> int:
    """How many begin-of-text tokens `text` starts with when a server tokenises it with special tokens.

    2 means that the chat template wrote one and the tokenizer added another: send it with `add_special_tokens` off.
    """
    path = checkpoint / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError("no tokenizer.json", where=str(checkpoint), fix="trtspec check names the way to make one")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise EnvironmentMissing("tokenising needs the package tokenizers", fix="pip install tokenizers") from None
    bos = _special_tokens(checkpoint).get("bos_token")
    tokenizer = Tokenizer.from_file(str(path))
    bos_id = tokenizer.token_to_id(bos) if bos is not None else None
    ids = tokenizer.encode(text, add_special_tokens=True).ids
    return next((n for n, index in enumerate(ids) if index != bos_id), len(ids)) if bos_id is not None else 0
