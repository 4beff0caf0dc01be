"""The frontend's tokenizer: fast and slow way, BOS, special tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors

from tests.builders import tiny_tokenizer_files
from trtspec.triton_models.frontend_tokenizer import load_tokenizer

TEXTS = ["hello world", " leading", "naïve 世界 🎉", "<|im_start|>user\nhi<|im_end|>\n", "a\n\n  b"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_tokenizer_files(tmp_path)
    return tmp_path


@pytest.fixture
def with_bos(folder: Path) -> Path:
    """A tokenizer that puts BOS (<|endoftext|>, id 0) before every text."""
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.save(path)
    return folder


@pytest.mark.parametrize("text", TEXTS)
def test_the_fast_way_agrees_with_transformers(folder: Path, text: str) -> None:
    from transformers import AutoTokenizer

    fast, reference = load_tokenizer(folder), AutoTokenizer.from_pretrained(str(folder))
    ids = fast.encode_prompt(text)
    assert ids == reference.encode(text)
    assert fast.decode(ids) == reference.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_bos_once(with_bos: Path) -> None:
    tokenizer = load_tokenizer(with_bos)
    plain = tokenizer.encode_prompt("hello")
    assert plain[0] == 0
    assert tokenizer.encode_prompt("<|endoftext|>hello") == plain


def test_special_tokens_have_ids_and_no_text(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer.special_id("<|im_end|>") == 2
    assert tokenizer.special_id("hello") is None
    assert tokenizer.decode([2, *tokenizer.encode_prompt("hi"), 2]) == "hi"


def test_words_come_with_and_without_a_space(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert [tokenizer.decode(ids) for ids in tokenizer.word_variants("fox")] == ["fox", " fox"]


def test_a_folder_without_tokenizer_json_goes_through_transformers(folder: Path, tmp_path: Path) -> None:
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (slow / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    config = {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|im_end|>", "bos_token": "<|im_end|>"}
    (slow / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer, fast = load_tokenizer(slow), load_tokenizer(folder)
    text = "the quick brown fox: café"
    ids = tokenizer.encode_prompt(text)
    assert ids == fast.encode_prompt(text)
    assert tokenizer.decode([*ids, 2]) == text
    assert tokenizer.special_id("<|im_end|>") == 2
