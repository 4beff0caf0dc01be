"""The tokenizer of a checkpoint folder: which token each id means, base, added and special, and how text is split."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtspec.checkpoints.reading import read_document
from trtspec.checkpoints.tokenizer_facts import TokenizerFacts, content_key, is_id
from trtspec.checkpoints.tokenizer_json import FAST, parse_fast, read_fast
from trtspec.checkpoints.tokenizer_slow import SLOW, read_slow
from trtspec.errors import CheckpointError, EnvironmentMissing

__all__ = ["TokenizerFacts", "content_key", "read_tokenizer", "special_token_texts"]

_CONFIG = "tokenizer_config.json"
_ID = re.compile(r"[0-9]{1,9}")
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# classes that put a begin-of-text token in front unless their configuration says otherwise
_ADD_BOS = ("LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer")
# classes whose ids are not the sentencepiece model's: they are moved to make room for others
_MOVED = ("XLMRobertaTokenizer", "XGLMTokenizer", "CamembertTokenizer", "MBartTokenizer", "NllbTokenizer")


def read_tokenizer(folder: Path, names: Iterable[str]) -> TokenizerFacts:
    """The tokenizer of a checkpoint folder whose files are `names`; CheckpointError when it cannot be read."""
    present = set(names)
    config = read_document(folder / _CONFIG) if _CONFIG in present else {}
    return _completed(_base(folder, present, config), config, folder, present)


def _base(folder: Path, present: set[str], config: Mapping[str, Any]) -> TokenizerFacts:
    if FAST in present:
        return read_fast(folder / FAST)
    if _class_name(config) in _MOVED and present.intersection(SLOW):
        return _converted(folder, sorted(present.intersection(SLOW)))
    found = read_slow(folder, present, lambda files: _converted(folder, files))
    if found is None:
        fix = "copy tokenizer.json and tokenizer_config.json from the model's repository into the folder"
        message = f"no tokenizer: neither {FAST} nor {SLOW[0]}"
        raise CheckpointError(message, where=str(folder), fix=fix, code="no-tokenizer")
    usual = _class_name(config) in _ADD_BOS and config.get("add_bos_token") is not False
    return replace(found, adds_bos=found.adds_bos or usual)


def _class_name(config: Mapping[str, Any]) -> str:
    return str(config.get("tokenizer_class") or "").removesuffix("Fast")


def _converted(folder: Path, found: list[str]) -> TokenizerFacts:
    """Facts of a folder with only a slow tokenizer, converted in memory by transformers."""
    where, fix = str(folder), _convert_command(folder)
    listed = f"only a slow tokenizer ({', '.join(found)})"
    try:
        import logging

        from transformers import AutoTokenizer
    except ImportError:
        message = f"{listed}; converting it needs transformers"
        raise EnvironmentMissing(message, where=where, fix="pip install 'trtspec[local]'") from None
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        text = backend.to_str() if backend is not None else None
    except Exception as error:  # noqa: BLE001 - transformers and its converters raise anything here
        message = f"{listed}, which transformers cannot convert: {_one_line(error)}"
        raise CheckpointError(message, where=where, fix=fix) from None
    if text is None:
        raise CheckpointError(listed, where=where, fix=fix)
    return replace(parse_fast(text), source=f"{found[0]} (converted)")


def _convert_command(folder: Path) -> str:
    call = f"AutoTokenizer.from_pretrained('{folder}').save_pretrained('{folder}')"
    return f'write a {FAST}: python -c "from transformers import AutoTokenizer; {call}"'


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def _completed(base: TokenizerFacts, config: Mapping[str, Any], folder: Path, present: set[str]) -> TokenizerFacts:
    """`base` with what tokenizer_config.json and added_tokens.json add: more tokens, BOS, end."""
    more = dict(_declared_tokens(config))
    if "added_tokens.json" in present:
        listed = read_document(folder / "added_tokens.json")
        more |= {index: (text, False) for text, index in listed.items() if is_id(index) and index not in more}
    facts = _with_tokens(base, more)
    named = special_token_texts(config, folder, present)
    ids = _ids_of(facts, named.values())
    bos = ids.get(named.get("bos_token", ""))
    return replace(
        facts,
        bos_id=bos,
        end_id=ids.get(named.get("eos_token", "")),
        adds_bos=facts.adds_bos or (config.get("add_bos_token") is True and bos is not None),
    )


def _declared_tokens(config: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, bool]]]:
    """(id, (text, special)) from `added_tokens_decoder` of tokenizer_config.json."""
    section = config.get("added_tokens_decoder")
    for key, item in (section if isinstance(section, dict) else {}).items():
        if _ID.fullmatch(key) and isinstance(item, dict) and isinstance(item.get("content"), str):
            yield int(key), (item["content"], bool(item.get("special")))


def _with_tokens(base: TokenizerFacts, more: Mapping[int, tuple[str, bool]]) -> TokenizerFacts:
    """`base` plus those tokens whose id it does not have (tokenizer.json decides where both speak)."""
    known = set(base.tokens.values()) if any(index not in base.tokens for index in more) else set()
    new = {index: item for index, item in more.items() if index not in base.tokens and item[0] not in known}
    if not new:
        return base
    return replace(
        base,
        tokens={**base.tokens, **{index: text for index, (text, _) in new.items()}},
        added=base.added | new.keys(),
        special=base.special | {index for index, (_, special) in new.items() if special},
    )


def _ids_of(facts: TokenizerFacts, texts: Iterable[str]) -> dict[str, int]:
    wanted = set(texts)
    found = {text: index for index, text in facts.tokens.items() if text in wanted}
    return found | {facts.tokens[index]: index for index in facts.added if facts.tokens[index] in wanted}


def special_token_texts(config: Mapping[str, Any], folder: Path, present: Iterable[str]) -> dict[str, str]:
    """`bos_token`, `eos_token`, … → text, from tokenizer_config.json, else from special_tokens_map.json."""
    older = "special_tokens_map.json"
    fallback = read_document(folder / older) if older in present else {}
    found = {}
    for name in _NAMED:
        text = _token_text(config[name] if name in config else fallback.get(name))
        if text is not None:
            found[name] = text
    return found


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
