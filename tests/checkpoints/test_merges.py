"""Merges hashed from the bytes of a tokenizer.json: the same as from its parsed lists, or left to the parser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import tiny_tokenizer_files
from trtspec.checkpoints.merges import cut_merges, merges_key
from trtspec.checkpoints.tokenizer_json import parse_fast, read_fast
from trtspec.errors import CheckpointError

pieces = st.text(st.sampled_from('ab"\\,[]{}: Ġ▁é中\n\t\x01/'), min_size=1, max_size=5)
pairs_of_pieces = st.lists(st.lists(pieces, min_size=2, max_size=2), min_size=1, max_size=6)


def document(merges: Any, *, last: bool = True, **style: Any) -> bytes:
    model = {"type": "BPE", "vocab": {"a": 0, "merges": 1}, "merges": merges}
    data = {"model": model} if last else {"model": model, "added_tokens": []}
    return json.dumps(data, **style).encode()


def test_merges_in_both_spellings_are_the_same_and_their_order_counts() -> None:
    pairs = [["a", "b"], ["ab", "c"]]
    assert merges_key(pairs) == merges_key(["a b", "ab c"])
    assert merges_key(pairs) != merges_key(pairs[::-1])
    assert merges_key([]) != merges_key(pairs)
    assert merges_key([[1, 2]]) == merges_key([[1, 2]])


@given(pairs_of_pieces, st.booleans(), st.booleans(), st.sampled_from([None, 2, 4]), st.booleans())
def test_whatever_the_style_the_key_is_that_of_the_lists(
    pairs: list[list[str]], joined: bool, escaped: bool, indent: int | None, last: bool
) -> None:
    merges = [" ".join(pair) for pair in pairs] if joined else pairs
    data = document(merges, last=last, indent=indent, ensure_ascii=escaped)
    cut = cut_merges(data)
    if cut is not None:
        assert cut.key == merges_key(merges)
        rest = json.loads(cut.rest)
        assert rest["model"].pop("merges") == []
        assert rest["model"] == {"type": "BPE", "vocab": {"a": 0, "merges": 1}}
    assert parse_fast(data.decode()).merges == merges_key(merges)


def test_a_file_of_the_tokenizers_library_is_cut(tmp_path: Path) -> None:
    tiny_tokenizer_files(tmp_path)
    path = tmp_path / "tokenizer.json"
    data = path.read_bytes()
    assert cut_merges(data) is not None
    assert read_fast(path) == parse_fast(data.decode())


@pytest.mark.parametrize(
    "data",
    [
        document(["a b"], indent=None),
        document(["a b"], last=False, indent=2),
        document(["Ġ b"], indent=2),  # escaped as \\u0120
        document([["a", "b"], "a b"], indent=2),
        document([1, 2], indent=2),
        document([], indent=2),
        document(["a b"], indent=2).replace(b"a b", b"a\xff b"),
        b"{}",
        b"]",
        b"",
    ],
)
def test_other_files_are_left_to_the_parser(data: bytes) -> None:
    assert cut_merges(data) is None


def test_a_fault_outside_the_merges_is_named_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(document(["a b"] * 9, indent=2).replace(b'"type"', b"type"))
    with pytest.raises(CheckpointError, match="line 3, column 5") as caught:
        read_fast(path)
    assert caught.value.where == str(path)
