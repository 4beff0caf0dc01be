"""Tokenizers without tokenizer.json: sentencepiece models, tiktoken ranks, vocabulary and merges."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints.pairing import compare_tokenizers
from trtspec.checkpoints.tokenizer import TokenizerFacts, read_tokenizer
from trtspec.errors import CheckpointError

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
PIECES = (("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("▁the", -1.0, NORMAL),
          ("é", -2.0, NORMAL), ("<tool>", 0.0, USER))  # fmt: skip


def field(number: int, wire: int, payload: bytes) -> bytes:
    return bytes([number << 3 | wire]) + (bytes([len(payload)]) if wire == 2 else b"") + payload


def sentencepiece(pieces: tuple[tuple[str, float, int], ...], normalizer: bytes = b"nfkc") -> bytes:
    """A sentencepiece model in protobuf's wire format: pieces, trainer_spec (BPE), normalizer_spec."""
    rows = [
        field(1, 2, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind]))
        for text, score, kind in pieces
    ]
    model = b"".join(field(1, 2, row) for row in rows)
    return model + field(2, 2, field(3, 0, b"\x02")) + field(3, 2, field(1, 2, normalizer))


def facts_of(folder: Path) -> TokenizerFacts:
    return read_tokenizer(folder, [entry.name for entry in folder.iterdir()])


def folder_with(folder: Path, config: dict[str, Any] | None = None, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_sentencepiece_model_is_read_without_a_library(tmp_path: Path) -> None:
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    facts = facts_of(folder_with(tmp_path, config, tokenizer__model=sentencepiece(PIECES)))
    assert dict(facts.tokens) == {index: text for index, (text, _, _) in enumerate(PIECES)}
    assert (facts.source, facts.kind, facts.bos_id, facts.end_id) == ("tokenizer.model", "BPE", 1, 2)
    assert set(facts.special) == {1, 2}
    assert set(facts.added) == {1, 2, 5}
    assert facts.adds_bos, "LlamaTokenizer adds one unless told otherwise"


def test_a_class_that_is_told_not_to_add_bos(tmp_path: Path) -> None:
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "add_bos_token": False}
    assert not facts_of(folder_with(tmp_path, config, tokenizer__model=sentencepiece(PIECES))).adds_bos


def test_added_tokens_of_the_configuration_come_on_top(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"6": {"content": "<|im_end|>", "special": True}}}
    facts = facts_of(folder_with(tmp_path, config, tokenizer__model=sentencepiece(PIECES)))
    assert facts.tokens[6] == "<|im_end|>"
    assert 6 in facts.special


def test_two_models_that_split_alike_and_two_that_do_not(tmp_path: Path) -> None:
    one = facts_of(folder_with(tmp_path / "one", tokenizer__model=sentencepiece(PIECES)))
    same = facts_of(folder_with(tmp_path / "same", tokenizer__model=sentencepiece(PIECES)))
    other = (*PIECES[:3], ("▁the", -7.0, NORMAL), *PIECES[4:])
    scored = facts_of(folder_with(tmp_path / "scored", tokenizer__model=sentencepiece(other, b"identity")))
    assert compare_tokenizers(one, same).splitting["merges"] is True
    match = compare_tokenizers(one, scored)
    assert (match.relation, match.merges, match.normalizer, match.decoder) == ("same", False, False, None)


def test_the_same_tokens_in_both_forms_are_the_same_tokenizer(tmp_path: Path) -> None:
    """One model with tokenizer.json, its draft with tokenizer.model only: ids compare, merges are not known."""
    fast = folder_with(tmp_path / "fast")
    vocab = {text: index for index, (text, _, _) in enumerate(PIECES)}
    Tokenizer(models.BPE(vocab=vocab, merges=[])).save(str(fast / "tokenizer.json"))
    slow = facts_of(folder_with(tmp_path / "slow", tokenizer__model=sentencepiece(PIECES)))
    match = compare_tokenizers(facts_of(fast), slow)
    assert match.relation == "same"
    assert match.merges is None


def test_tiktoken_ranks_compare_with_byte_level_bpe(tmp_path: Path) -> None:
    ranks = [b" ", b"the", b" the", "é".encode(), b"\n", b"\x00"]
    lines = b"".join(base64.b64encode(token) + f" {rank}\n".encode() for rank, token in enumerate(ranks))
    facts = facts_of(folder_with(tmp_path / "tiktoken", tokenizer__model=lines))
    assert [facts.tokens[index] for index in range(6)] == ["Ġ", "the", "Ġthe", "Ã©", "Ċ", "Ā"]
    assert facts_of(folder_with(tmp_path / "qwen", qwen__tiktoken=lines)).tokens == facts.tokens


def test_vocabulary_and_merges_with_ids_that_are_none(tmp_path: Path) -> None:
    tiny_tokenizer_files(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    (tmp_path / "vocab.json").write_text(json.dumps({"a": "0"}))
    with pytest.raises(CheckpointError, match="does not map each token to an id"):
        facts_of(tmp_path)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"bm90 a rank\n", b"!!! 1\n", b"\x00", b"text\n" * 50])
def test_a_model_file_that_is_neither(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CheckpointError, match="neither a sentencepiece model nor a tiktoken file") as caught:
        facts_of(folder_with(tmp_path, tokenizer__model=data))
    assert caught.value.code == "malformed"
