"""Facts of a tokenizer: which token each id means, base, added and special, and how text is split.

Read from tokenizer.json without loading it into a tokenizer library: a 128 000 token vocabulary takes about 0.2 s.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from trtspec.checkpoints.reading import REFETCH, parse_document, read_document, read_text
from trtspec.errors import CheckpointError, EnvironmentMissing

__all__ = ["TokenizerFacts", "content_key", "read_tokenizer", "special_token_texts"]

FAST = "tokenizer.json"
_SLOW = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model")
_CONFIG = "tokenizer_config.json"
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True)
class TokenizerFacts:
    """id → token over the whole range, the ids of special and added tokens, and keys of how text is split.

    `merges`, `pre_tokenizer` and `normalizer` are content hashes, None where the source does not carry that part.
    `duplicates` are (id, token, token) where one id stands for two tokens.
    """

    source: str
    kind: str
    tokens: Mapping[int, str] = field(repr=False)
    special: frozenset[int] = field(repr=False)
    added: frozenset[int] = field(repr=False)
    duplicates: tuple[tuple[int, str, str], ...]
    merges: str | None
    pre_tokenizer: str | None
    normalizer: str | None
    bos_id: int | None
    end_id: int | None
    adds_bos: bool

    @property
    def width(self) -> int:
        """Largest id + 1, added tokens included: the rows that an embedding needs at least."""
        return max(self.tokens, default=-1) + 1


def content_key(value: Any) -> str:
    """A hash of a JSON value; merges written as "a b" or as ["a", "b"] have the same."""
    if isinstance(value, list):
        value = [" ".join(item) if _is_pair(item) else item for item in value]
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_pair(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(part, str) for part in item)


def read_tokenizer(folder: Path, names: Iterable[str]) -> TokenizerFacts:
    """The tokenizer of a checkpoint folder whose files are `names`; CheckpointError when it cannot be read."""
    present = set(names)
    if FAST in present:
        base = _parse_fast(folder / FAST)
    elif present.intersection(_SLOW):
        base = _converted(folder, sorted(present.intersection(_SLOW)))
    else:
        fix = "copy tokenizer.json and tokenizer_config.json from the model's repository into the folder"
        raise CheckpointError(f"no tokenizer: neither {FAST} nor {_SLOW[0]}", where=str(folder), fix=fix)
    return _completed(base, folder, present)


def _parse_fast(path: Path) -> TokenizerFacts:
    text = read_text(path)
    try:
        return _facts(text)
    except CheckpointError as error:
        raise CheckpointError(error.message, where=str(path), fix=error.fix) from None


@lru_cache(maxsize=2)  # both models of a pair mostly carry the very same file
def _facts(text: str) -> TokenizerFacts:
    data = parse_document(Path(FAST), text)
    model = data.get("model")
    if not isinstance(model, dict):
        raise CheckpointError("has no model section: not a tokenizer of the tokenizers library", fix=REFETCH)
    tokens, duplicates = _base_tokens(model.get("vocab"))
    added = list(_added_tokens(data.get("added_tokens")))
    duplicates += _collisions((index, text) for index, text, _ in added)
    tokens.update((index, text) for index, text, _ in added)  # an added token stands before a base token
    ids = {text: index for index, text in tokens.items()}
    special = frozenset(index for index, _, is_special in added if is_special)
    merges = model.get("merges")
    return TokenizerFacts(
        source=FAST,
        kind=str(model.get("type") or "BPE"),
        tokens=tokens,
        special=special,
        added=frozenset(index for index, _, _ in added),
        duplicates=tuple(duplicates),
        merges=content_key(merges) if isinstance(merges, list) else _scores_key(model),
        pre_tokenizer=content_key(data.get("pre_tokenizer")),
        normalizer=content_key(data.get("normalizer")),
        bos_id=None,
        end_id=None,
        adds_bos=_first_inserted(data.get("post_processor"), ids) is not None,
    )


def _scores_key(model: Mapping[str, Any]) -> str | None:
    """Unigram models split by the scores in their vocabulary; others by nothing but the vocabulary."""
    vocab = model.get("vocab")
    return content_key(vocab) if isinstance(vocab, list) else None


def _base_tokens(vocab: Any) -> tuple[dict[int, str], list[tuple[int, str, str]]]:
    """id → token of the model's own vocabulary: an object of token → id, or a list of [token, score]."""
    if isinstance(vocab, dict) and all(type(index) is int and index >= 0 for index in vocab.values()):
        pairs = [(index, text) for text, index in vocab.items()]
    elif isinstance(vocab, list) and all(
        isinstance(item, list) and item and isinstance(item[0], str) for item in vocab
    ):
        pairs = [(index, item[0]) for index, item in enumerate(vocab)]
    else:
        raise CheckpointError("has no usable model.vocab (token to id)", fix=REFETCH)
    tokens = dict(pairs)
    return tokens, [] if len(tokens) == len(pairs) else _collisions(pairs)


def _added_tokens(section: Any) -> Iterator[tuple[int, str, bool]]:
    """(id, text, special) of each added token."""
    if section is None:
        return
    if not isinstance(section, list):
        raise CheckpointError("added_tokens is not a list", fix=REFETCH)
    for item in section:
        if not isinstance(item, dict) or type(item.get("id")) is not int or not isinstance(item.get("content"), str):
            raise CheckpointError(f"has an added token without id and content: {item!r:.80}", fix=REFETCH)
        yield item["id"], item["content"], bool(item.get("special"))


def _collisions(pairs: Iterable[tuple[int, str]]) -> list[tuple[int, str, str]]:
    seen: dict[int, str] = {}
    found = []
    for index, text in pairs:
        other = seen.setdefault(index, text)
        if other != text:
            found.append((index, other, text))
    return found


def _first_inserted(section: Any, ids: Mapping[str, int]) -> int | None:
    """Id of the special token that the post-processor puts in front of a text; None when it puts none."""
    if not isinstance(section, dict):
        return None
    if section.get("type") == "Sequence":
        parts = section.get("processors") or []
        return next((found for part in parts if (found := _first_inserted(part, ids)) is not None), None)
    if section.get("type") == "TemplateProcessing":
        single = section.get("single") or [{}]
        first = single[0].get("SpecialToken") if isinstance(single[0], dict) else None
        return ids.get(str(first["id"])) if first else None
    if section.get("type") in ("BertProcessing", "RobertaProcessing"):
        return ids.get(str((section.get("cls") or [""])[0]))
    return None


def _converted(folder: Path, found: list[str]) -> TokenizerFacts:
    """Facts of a folder with only a slow tokenizer, converted in memory by transformers."""
    where, fix = str(folder), _convert_command(folder)
    try:
        import logging

        from transformers import AutoTokenizer
    except ImportError:
        message = f"only a slow tokenizer ({', '.join(found)}); converting it needs transformers"
        raise EnvironmentMissing(message, where=where, fix="pip install 'trtspec[local]'") from None
    logging.getLogger("transformers").setLevel(logging.ERROR)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        text = backend.to_str() if backend is not None else None
    except Exception as error:  # noqa: BLE001 - transformers and its converters raise anything here
        message = f"only a slow tokenizer ({', '.join(found)}), which transformers cannot convert: {_one_line(error)}"
        raise CheckpointError(message, where=where, fix=fix) from None
    if text is None:
        raise CheckpointError(f"only a slow tokenizer ({', '.join(found)})", where=where, fix=fix)
    return replace(_facts(text), source=f"{found[0]} (converted)")


def _convert_command(folder: Path) -> str:
    call = f"AutoTokenizer.from_pretrained('{folder}').save_pretrained('{folder}')"
    return f'write a {FAST}: python -c "from transformers import AutoTokenizer; {call}"'


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def _completed(base: TokenizerFacts, folder: Path, present: set[str]) -> TokenizerFacts:
    """`base` with what tokenizer_config.json and added_tokens.json add: more tokens, BOS, end, template."""
    config = read_document(folder / _CONFIG) if _CONFIG in present else {}
    more = dict(_declared_tokens(config))
    if "added_tokens.json" in present:
        listed = read_document(folder / "added_tokens.json")
        more |= {index: (text, False) for text, index in listed.items() if type(index) is int and index not in more}
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
        if str(key).isdecimal() and isinstance(item, dict) and isinstance(item.get("content"), str):
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
