"""Stop words on text: no part of one is shown, whatever the pieces."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from trtspec.speculation import StopWords

ALPHABET = st.text("ab", max_size=25)
WORDS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)


def shown(words: list[str], pieces: list[str]) -> tuple[str, str | None]:
    stop = StopWords(words)
    text = "".join(stop.push(piece) for piece in pieces)
    return text + stop.flush(), stop.found


def character_by_character(words: list[str], text: str) -> tuple[str, str | None]:
    """The definition, slow and plain: the first prefix of the text that ends with a word."""
    for end in range(1, len(text) + 1):
        found = [word for word in words if text[:end].endswith(word)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(WORDS, st.lists(ALPHABET, max_size=8))
def test_the_pieces_do_not_matter(words: list[str], pieces: list[str]) -> None:
    assert shown(words, pieces) == character_by_character(words, "".join(pieces))


def test_every_short_word_in_every_short_text() -> None:
    """Words that overlap themselves (aab in aaab), which random ones seldom show."""
    words = ["".join(letters) for size in (2, 3, 4, 5) for letters in product("ab", repeat=size)]
    for text in ("".join(letters) for letters in product("ab", repeat=8)):
        for word in words:
            assert shown([word], [text[:5], text[5:]]) == character_by_character([word], text)


@given(WORDS, st.lists(ALPHABET, max_size=8))
def test_nothing_shown_is_ever_taken_back(words: list[str], pieces: list[str]) -> None:
    final = character_by_character(words, "".join(pieces))[0]
    stop = StopWords(words)
    so_far = ""
    for piece in pieces:
        so_far += stop.push(piece)
        assert final.startswith(so_far)


@given(WORDS, st.lists(ALPHABET, max_size=8))
def test_no_more_is_held_than_may_become_a_word(words: list[str], pieces: list[str]) -> None:
    stop = StopWords(words)
    for piece in pieces:
        stop.push(piece)
        assert stop.held == "" or any(word.startswith(stop.held) for word in words)


def test_empty_words_are_ignored() -> None:
    assert shown(["", ""], ["text"]) == ("text", None)


def test_refuted_beginnings_are_released() -> None:
    stop = StopWords(["\n\nUser:"])
    assert stop.push("Hello\n") == "Hello"
    assert stop.push("\nUs") == ""
    assert stop.push("ual") == "\n\nUsual"
