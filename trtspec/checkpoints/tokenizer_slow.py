"""Facts of tokenizers that come without a tokenizer.json: sentencepiece, vocabulary + merges, tiktoken.

Read from the files themselves, so that ids can be compared without loading transformers; what splits text (merges,
normalizer) is then known only as far as the file says it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from trtspec.checkpoints.merges import merges_key
from trtspec.checkpoints.reading import read_bytes, read_document, read_text
from trtspec.checkpoints.tokenizer_facts import TokenizerFacts, collisions, is_id
from trtspec.errors import CheckpointError

__all__ = ["SLOW", "read_slow"]

_SENTENCEPIECE = ("tokenizer.model", "spiece.model", "sentencepiece.model")
_VOCAB, _MERGES = "vocab.json", "merges.txt"
_TIKTOKEN = ".tiktoken"
SLOW = (*_SENTENCEPIECE, _VOCAB, "vocab.txt", "sentencepiece.bpe.model")
_CONTROL, _USER_DEFINED = 3, 4  # sentencepiece_model.proto: ModelProto.SentencePiece.Type
_KINDS = {1: "Unigram", 2: "BPE", 3: "WordLevel", 4: "Char"}  # TrainerSpec.ModelType


def read_slow(
    folder: Path, present: Iterable[str], convert: Callable[[list[str]], TokenizerFacts]
) -> TokenizerFacts | None:
    """The tokenizer of a folder without tokenizer.json; None when it has none at all.

    `convert` is asked for the kinds that are not read here.
    """
    names = set(present)
    found = sorted(names.intersection(SLOW)) + sorted(name for name in names if name.endswith(_TIKTOKEN))
    if not found:
        return None
    model = next((name for name in _SENTENCEPIECE if name in names), None)
    if model is not None:
        return _model_file(folder / model)
    if _VOCAB in names and _MERGES in names:
        return _byte_pairs(folder)
    if found[0].endswith(_TIKTOKEN):
        return _tiktoken(folder / found[0], read_bytes(folder / found[0]))
    return convert(found)


def _model_file(path: Path) -> TokenizerFacts:
    """tokenizer.model is a sentencepiece model, or tiktoken's ranks under the same name (Llama 3)."""
    data = read_bytes(path)
    pieces = _sentencepiece(path, data)
    facts = pieces if pieces is not None else _tiktoken(path, data)
    if facts is None:
        message = f"only a slow tokenizer ({path.name}), which is neither a sentencepiece model nor a tiktoken file"
        raise CheckpointError(message, where=str(path.parent), fix=_convert_command(path.parent), code="malformed")
    return facts


def _convert_command(folder: Path) -> str:
    call = f"AutoTokenizer.from_pretrained('{folder}').save_pretrained('{folder}')"
    return f'write a tokenizer.json: python -c "from transformers import AutoTokenizer; {call}"'


def _sentencepiece(path: Path, data: bytes) -> TokenizerFacts | None:
    """The facts of a sentencepiece model; None when `data` is none."""
    from google.protobuf.message import DecodeError

    model = _model_message()()
    try:
        model.ParseFromString(data)
        pieces = [(piece.piece, piece.score, piece.type) for piece in model.pieces]
    except (DecodeError, UnicodeDecodeError):
        return None
    special = frozenset(index for index, (_, _, kind) in enumerate(pieces) if kind == _CONTROL)
    scores = "\0".join(f"{text}\1{score!r}" for text, score, _ in pieces)
    facts = TokenizerFacts(
        source=path.name,
        kind=_KINDS.get(model.trainer_spec.model_type, "Unigram"),
        tokens={index: text for index, (text, _, _) in enumerate(pieces)},
        special=special,
        added=special | {index for index, (_, _, kind) in enumerate(pieces) if kind == _USER_DEFINED},
        duplicates=(),
        merges=_hash("pieces", scores.encode("utf-8", "surrogatepass")),
        pre_tokenizer=None,
        normalizer=_hash("sentencepiece", model.normalizer_spec),
        bos_id=None,
        end_id=None,
        adds_bos=False,
    )
    return facts if pieces else None


def _hash(form: str, data: bytes) -> str:
    return f"{form}:{hashlib.sha256(data).hexdigest()}"


@lru_cache(maxsize=1)
def _model_message() -> Any:
    """The part of google/sentencepiece's sentencepiece_model.proto that is used here, as a message class."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="trtspec/sentencepiece.proto", package="trtspec", syntax="proto2")
    scalars: Mapping[str, tuple[tuple[str, int, int], ...]] = {
        "Piece": (("piece", 1, field.TYPE_STRING), ("score", 2, field.TYPE_FLOAT), ("type", 3, field.TYPE_INT32)),
        "Trainer": (("model_type", 3, field.TYPE_INT32),),
        "Model": (("normalizer_spec", 3, field.TYPE_BYTES),),
    }
    for name, fields in scalars.items():
        message = file.message_type.add(name=name)
        for label, number, kind in fields:
            message.field.add(name=label, number=number, type=kind, label=field.LABEL_OPTIONAL)
    model = file.message_type[-1]
    for label, number, kind_name, many in (("pieces", 1, "Piece", True), ("trainer_spec", 2, "Trainer", False)):
        count = field.LABEL_REPEATED if many else field.LABEL_OPTIONAL
        model.field.add(
            name=label, number=number, type=field.TYPE_MESSAGE, type_name=f".trtspec.{kind_name}", label=count
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("trtspec.Model"))


def _byte_pairs(folder: Path) -> TokenizerFacts:
    """vocab.json (token → id) and merges.txt (a pair a line), as GPT-2 brought them."""
    vocab = read_document(folder / _VOCAB)
    if not all(map(is_id, vocab.values())):
        raise CheckpointError("does not map each token to an id", where=str(folder / _VOCAB), code="malformed")
    pairs = [(index, text) for text, index in vocab.items()]
    lines = read_text(folder / _MERGES).split("\n")
    merges = [line for line in lines[1 if lines[0].startswith("#version") else 0 :] if line.strip()]
    return _plain(_VOCAB, dict(pairs), merges_key(merges), tuple(collisions(pairs)))


def _plain(
    source: str, tokens: dict[int, str], merges: str | None, duplicates: tuple[tuple[int, str, str], ...] = ()
) -> TokenizerFacts:
    """Byte-level BPE whose added tokens stand elsewhere (tokenizer_config.json, added_tokens.json)."""
    none: frozenset[int] = frozenset()
    return TokenizerFacts(
        source=source, kind="BPE", tokens=tokens, special=none, added=none, duplicates=duplicates, merges=merges,
        pre_tokenizer=None, normalizer=None, bos_id=None, end_id=None, adds_bos=False,
    )  # fmt: skip


def _tiktoken(path: Path, data: bytes) -> TokenizerFacts | None:
    """Lines of base64 token and rank; tokens written as byte-level BPE writes them, so that they can be compared."""
    letters = _byte_letters()
    tokens: dict[int, str] = {}
    try:
        for line in data.split(b"\n"):
            if line:
                token, rank = line.split()
                tokens[int(rank)] = base64.b64decode(token, validate=True).decode("latin-1").translate(letters)
    except (ValueError, binascii.Error):
        return None
    if not all(map(is_id, tokens)):
        return None
    # ranks are the order of merges: the same tokens with the same ids split alike
    return _plain(path.name, tokens, _hash("ranks", json.dumps(tokens).encode())) if tokens else None


@lru_cache(maxsize=1)
def _byte_letters() -> dict[int, str]:
    """Byte → the character that byte-level BPE shows it as (GPT-2: printable ones stay, others from U+0100 on)."""
    stay = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in set(stay)]
    return {byte: chr(byte) for byte in stay} | {byte: chr(0x100 + n) for n, byte in enumerate(moved)}
