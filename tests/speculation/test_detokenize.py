"""Incremental text is the decode of all ids, for real tokenizers of both families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from trtspec.speculation import IncrementalDecoder

CORPUS = (
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "Привет, мир! 你好,世界 🎉👩‍👩‍👧 naïve café",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
)


@cache
def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[AddedToken("<s>", special=True), AddedToken("</s>", special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


@cache
def metaspace() -> Tokenizer:
    """As Llama 2's: a marker for spaces, byte tokens for everything else, one leading space stripped."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    letters = sorted({"▁", *"".join(CORPUS[::2]).replace(" ", ""), *"HWdelorw"})
    words = ["▁t", "▁the", "he", "▁w", "▁a", "an", "nd", "▁and", "ox"]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "w"), ("▁", "a"), ("a", "n"), ("n", "d"), ("▁a", "nd")]
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys([*pieces, *letters, *words]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")])
    return tokenizer


FAMILIES = [pytest.param(byte_level, id="byte-level"), pytest.param(metaspace, id="metaspace")]
TEXTS = st.text(max_size=40) | st.text("the andox \n🎉é世", max_size=60)


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    decoder = IncrementalDecoder(lambda part: str(tokenizer.decode(list(part), skip_special_tokens=True)))
    return [*(decoder.push(token) for token in ids), decoder.flush()]


def without_broken_ends(parts: Sequence[str]) -> bool:
    """No piece shows a character that a later piece replaces: replacement characters come at the end or not at all."""
    return all("\ufffd" not in part for part in parts)


@pytest.mark.parametrize("family", FAMILIES)
@given(text=TEXTS, specials=st.lists(st.integers(0, 60), max_size=4))
def test_the_text_of_any_encoding_comes_back(family: Callable[[], Tokenizer], text: str, specials: list[int]) -> None:
    tokenizer = family()
    ids = list(tokenizer.encode(text, add_special_tokens=False).ids)
    end = tokenizer.token_to_id("</s>")
    assert end is not None
    for place in specials:
        ids.insert(min(place, len(ids)), end)
    parts = pieces(tokenizer, ids)
    assert "".join(parts) == tokenizer.decode(ids, skip_special_tokens=True)
    assert "\ufffd" in text or without_broken_ends(parts)


@settings(max_examples=300)
@given(ids=st.lists(st.integers(0, 329), max_size=60))
def test_any_ids_of_a_byte_level_tokenizer(ids: list[int]) -> None:
    """Also bytes that are no text at all."""
    tokenizer = byte_level()
    known = [token for token in ids if token < tokenizer.get_vocab_size()]
    assert "".join(pieces(tokenizer, known)) == tokenizer.decode(known, skip_special_tokens=True)


@given(ids=st.lists(st.integers(259, 310) | st.sampled_from([1, 2]), max_size=60))
def test_any_ids_of_a_metaspace_tokenizer_but_its_bytes(ids: list[int]) -> None:
    tokenizer = metaspace()
    known = [token for token in ids if token < tokenizer.get_vocab_size()]
    assert "".join(pieces(tokenizer, known)) == tokenizer.decode(known, skip_special_tokens=True)


def test_words_that_come_one_by_one_keep_their_spaces() -> None:
    """Each id decoded alone gives "Helloworld"."""
    tokenizer = metaspace()
    hello = tokenizer.encode("Hello world", add_special_tokens=False).ids
    assert "".join(pieces(tokenizer, hello)) == "Hello world"
    vocab = {"▁Hello": 0, "▁world": 1}

    def decode(ids: Sequence[int]) -> str:
        words = [next(word for word, number in vocab.items() if number == token) for token in ids]
        return "".join(words).replace("▁", " ").removeprefix(" ")

    decoder = IncrementalDecoder(decode)
    assert [decoder.push(0), decoder.push(1)] == ["Hello", " world"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_character_of_several_tokens_comes_whole(family: Callable[[], Tokenizer]) -> None:
    tokenizer = family()
    ids = tokenizer.encode("a🀄b", add_special_tokens=False).ids
    assert [part for part in pieces(tokenizer, ids) if part][-2:] == ["🀄", "b"]


def test_an_unfinished_character_shows_as_replacement_at_the_end() -> None:
    tokenizer = byte_level()
    ids = tokenizer.encode("ok🀄", add_special_tokens=False).ids[:-1]
    parts = pieces(tokenizer, ids)
    assert without_broken_ends(parts[:-1])
    assert "".join(parts) == tokenizer.decode(ids) == "ok\ufffd"


def test_a_cut_character_takes_nothing_back_of_the_one_before() -> None:
    """Byte fallback decodes the bytes of both at once, to replacements only."""
    tokenizer = metaspace()
    ids = tokenizer.encode("你好 the", add_special_tokens=False).ids
    assert tokenizer.decode(ids[:5]) == "\ufffd" * 4
    assert "".join(pieces(tokenizer, ids[:5])) == "你\ufffd"
    assert "".join(pieces(tokenizer, [*ids[:5], ids[-1]])) == "你\ufffd the"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["the quick fox ", "世界你好", "🎉", "\n", " "], ids=repr)
def test_the_cost_of_a_token_does_not_grow_with_the_text(family: Callable[[], Tokenizer], text: str) -> None:
    tokenizer = family()
    ids = tokenizer.encode(text * 300, add_special_tokens=False).ids
    lengths: list[int] = []

    def decode(part: Sequence[int]) -> str:
        lengths.append(len(part))
        return str(tokenizer.decode(list(part), skip_special_tokens=True))

    decoder = IncrementalDecoder(decode)
    assert "".join([*(decoder.push(token) for token in ids), decoder.flush()]) == tokenizer.decode(ids)
    assert max(lengths) <= 40
    assert sum(lengths) <= 40 * len(ids)


def test_endless_garbage_bytes_stay_cheap_and_come_out() -> None:
    tokenizer = byte_level()
    byte = next(number for number in range(2, 258) if tokenizer.decode([number]) == "\ufffd")
    ids = [byte] * 500
    longest = 0

    def decode(part: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(part))
        return str(tokenizer.decode(list(part)))

    decoder = IncrementalDecoder(decode)
    assert "".join([*(decoder.push(token) for token in ids), decoder.flush()]) == tokenizer.decode(ids)
    assert longest <= 40
