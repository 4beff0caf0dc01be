"""The facts in a tokenizer.json, read without a tokenizer library: 128 000 tokens take about 0.2 s."""

from __future__ import annotations

import contextlib
import gc
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtspec.checkpoints.merges import cut_merges, merges_key
from trtspec.checkpoints.reading import REFETCH, decode_text, parse_document, read_bytes
from trtspec.checkpoints.tokenizer_facts import MOST_IDS, TokenizerFacts, collisions, content_key, is_id
from trtspec.errors import CheckpointError

__all__ = ["FAST", "parse_fast", "read_fast"]

FAST = "tokenizer.json"
_LISTS = ("normalizers", "pretokenizers", "decoders", "processors")
_IDLE = {"trim_offsets": None, "use_regex": True}  # change no token, or are written by newer libraries only
_KEPT = 2  # both models of a pair mostly carry the very same file
_known: dict[str, TokenizerFacts] = {}


def read_fast(path: Path) -> TokenizerFacts:
    """The facts in a tokenizer.json; CheckpointError names the file and what is wrong with it."""
    data = read_bytes(path)
    key = hashlib.sha256(data).hexdigest()
    if key not in _known:
        facts = _without_merges(path, data) or _whole(path, data)
        while len(_known) >= _KEPT:
            del _known[next(iter(_known))]
        _known[key] = facts
    return _known[key]


def _without_merges(path: Path, data: bytes) -> TokenizerFacts | None:
    """The facts without parsing the merges; None when the file has to be parsed as a whole, if only for its faults."""
    cut = cut_merges(data)
    if cut is None:
        return None
    try:
        return replace(parse_fast(decode_text(path, cut.rest)), merges=cut.key)
    except (CheckpointError, RecursionError):
        return None


def _whole(path: Path, data: bytes) -> TokenizerFacts:
    """`parse_fast`, its errors with the file's name."""
    text = decode_text(path, data)
    try:
        return parse_fast(text)
    except RecursionError:
        message = "is nested too deeply to be read"
        raise CheckpointError(message, where=str(path), fix=REFETCH, code="too-deep") from None
    except CheckpointError as error:
        raise CheckpointError(error.message, where=str(path), fix=error.fix, code=error.code) from None


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Hundreds of thousands of small lists that all stay: looking for rubbish among them doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse_fast(text: str) -> TokenizerFacts:
    """The facts in the text of a tokenizer.json; CheckpointError without a place when it is none."""
    with _collector_paused():
        return _facts(parse_document(Path(FAST), text))


def _facts(data: Mapping[str, Any]) -> TokenizerFacts:
    model = data.get("model")
    if not isinstance(model, dict):
        raise _malformed("has no model section: not a tokenizer of the tokenizers library")
    vocab = model.get("vocab")
    tokens, duplicates = _base_tokens(vocab)
    added = list(_added_tokens(data.get("added_tokens")))
    duplicates += collisions((index, text) for index, text, _ in added)
    tokens.update((index, text) for index, text, _ in added)  # an added token stands before a base token
    merges = model.get("merges")
    return TokenizerFacts(
        source=FAST,
        kind=str(model.get("type") or "BPE"),
        tokens=tokens,
        special=frozenset(index for index, _, is_special in added if is_special),
        added=frozenset(index for index, _, _ in added),
        duplicates=tuple(duplicates),
        # Unigram models split by the scores in their vocabulary; others by nothing but the vocabulary
        merges=merges_key(merges) if isinstance(merges, list) else _scores_key(vocab),
        pre_tokenizer=content_key(_canonical(data.get("pre_tokenizer"))),
        normalizer=content_key(_canonical(data.get("normalizer"))),
        decoder=content_key(_canonical(data.get("decoder"))),
        bos_id=None,
        end_id=None,
        adds_bos=_inserts_first(data.get("post_processor"), {text for _, text, _ in added}, vocab),
    )


def _malformed(message: str) -> CheckpointError:
    return CheckpointError(message, fix=REFETCH, code="malformed")


def _scores_key(vocab: Any) -> str | None:
    return content_key(vocab, "scores") if isinstance(vocab, list) else None


def _canonical(section: Any) -> Any:
    """A section of the pipeline without what makes no difference: sequences of one or none, and idle switches."""
    if not isinstance(section, dict):
        return section
    inner = next((section[name] for name in _LISTS if isinstance(section.get(name), list)), None)
    if section.get("type") == "Sequence" and inner is not None:
        parts = [part for part in map(_canonical, inner) if part is not None]
        return parts[0] if len(parts) == 1 else parts or None
    return {key: value for key, value in section.items() if key not in _IDLE or _IDLE[key] not in (None, value)}


def _base_tokens(vocab: Any) -> tuple[dict[int, str], list[tuple[int, str, str]]]:
    """id → token of the model's own vocabulary: an object of token → id, or a list of [token, score]."""
    if isinstance(vocab, dict) and _are_ids(vocab):
        tokens = dict(zip(vocab.values(), vocab, strict=True))
        if len(tokens) == len(vocab):
            return tokens, []
        pairs = [(index, text) for text, index in vocab.items()]
        return dict(pairs), collisions(pairs)
    if isinstance(vocab, list) and all(isinstance(item, list) and item and isinstance(item[0], str) for item in vocab):
        return {index: item[0] for index, item in enumerate(vocab)}, []
    raise _malformed("has no usable model.vocab (token to id)")


def _are_ids(vocab: Mapping[str, Any]) -> bool:
    """True when every token has an id; each type and both ends are looked at, as vocabularies are large."""
    ids = vocab.values()
    return set(map(type, ids)) <= {int} and min(ids, default=0) >= 0 and max(ids, default=0) < MOST_IDS


def _added_tokens(section: Any) -> Iterator[tuple[int, str, bool]]:
    """(id, text, special) of each added token."""
    if section is None:
        return
    if not isinstance(section, list):
        raise _malformed("added_tokens is not a list")
    for item in section:
        if not isinstance(item, dict) or not is_id(item.get("id")) or not isinstance(item.get("content"), str):
            raise _malformed(f"has an added token without id and content: {item!r:.80}")
        yield item["id"], item["content"], bool(item.get("special"))


def _inserts_first(section: Any, added: set[str], vocab: Any) -> bool:
    """True when the post-processor puts a special token that exists in front of a text."""
    text = _first_inserted(section)
    if text is None:
        return False
    return text in added or (text in vocab if isinstance(vocab, dict) else any(item[0] == text for item in vocab))


def _first_inserted(section: Any) -> str | None:
    """Text of the special token that a post-processor puts in front; None when it puts none."""
    if not isinstance(section, dict):
        return None
    kind = section.get("type")
    if kind == "Sequence":
        parts = map(_first_inserted, _items(section.get("processors")))
        return next((found for found in parts if found is not None), None)
    if kind == "TemplateProcessing":
        first = next(iter(_items(section.get("single"))), None)
        token = first.get("SpecialToken") if isinstance(first, dict) else None
        return str(token.get("id")) if isinstance(token, dict) else None
    if kind in ("BertProcessing", "RobertaProcessing"):
        return next((str(item) for item in _items(section.get("cls"))), None)
    return None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
