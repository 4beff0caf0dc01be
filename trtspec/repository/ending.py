"""The token ids that end an answer, from every file of a checkpoint or engine that names one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trtspec.checkpoints.reading import child_names
from trtspec.checkpoints.weights import only_gguf
from trtspec.errors import CheckpointError
from trtspec.files import read_json

__all__ = ["end_ids"]


def end_ids(folders: Sequence[Path]) -> tuple[int, ...]:
    """Union of the end ids in generation_config.json, config.json and the tokenizer of `folders`, in that order.

    A folder whose configuration is that of a GGUF file gives what its metadata names (end of sequence, turn, message).

    The files often disagree (a chat model's generation config lists two or three, its config one); a model may emit
    any of them. Files that are not there are skipped; one that is no JSON is a CheckpointError.
    """
    found: dict[int, None] = {}
    for read in (_generation_ids, _config_ids, _tokenizer_ids):
        for folder in folders:
            found |= dict.fromkeys(read(folder))
    return tuple(found)


def _generation_ids(folder: Path) -> Iterator[int]:
    return _as_ids(_document(folder / "generation_config.json").get("eos_token_id"))


def _config_ids(folder: Path) -> Iterator[int]:
    config = _document(folder / "config.json")
    if not config and folder.is_dir() and (file := only_gguf(child_names(folder))):
        from trtspec.checkpoints.gguf_file import gguf_config, read_gguf

        yield from gguf_config(read_gguf(folder / file)).end_ids
    for part in (config, config.get("pretrained_config"), config.get("text_config")):
        if isinstance(part, Mapping):
            yield from _as_ids(part.get("eos_token_id"))


def _tokenizer_ids(folder: Path) -> Iterator[int]:
    eos = _document(folder / "tokenizer_config.json").get("eos_token")
    text = eos.get("content") if isinstance(eos, Mapping) else eos
    if text is None:
        return
    tokenizer = _document(folder / "tokenizer.json")
    for token in tokenizer.get("added_tokens", ()):
        if token["content"] == text:
            yield int(token["id"])
            return
    vocab = tokenizer.get("model", {}).get("vocab", {})
    if isinstance(vocab, Mapping) and text in vocab:
        yield int(vocab[text])


def _as_ids(value: Any) -> Iterator[int]:
    values = value if isinstance(value, list) else [value]
    yield from (item for item in values if isinstance(item, int) and not isinstance(item, bool) and item >= 0)


def _document(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = read_json(path)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"is not readable as JSON: {error}", where=str(path)) from None
    return data if isinstance(data, Mapping) else {}
