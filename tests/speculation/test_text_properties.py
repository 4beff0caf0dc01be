"""Streamed text = whole text = the target's alone, for any text, any chunking and any stop words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.speculation.test_detokenize import FAMILIES, pieces
from tests.speculation.test_stopping import character_by_character
from tests.speculation.toys import Next, ToyDraft, ToyTarget, run, text_of
from trtspec.speculation import Limits

PROMPT = [3, 4, 5]
# CJK, emoji with joiners, combining marks, right to left, control characters
PIECES = [
    "the ",
    "fox",
    "你好",
    "世界",
    "🎉",
    "👩‍👩‍👧",
    "e\u0301",
    "n\u0303",
    "नमस्ते",
    "שלום",
    "\n",
    " ",
    "\t",
    "é",
    "a",
    "ab",
]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """A text, and stop words most of which are parts of it, or begin in it and are not whole where it ends."""
    text = draw(TEXT)
    places = st.tuples(st.integers(0, max(0, len(text) - 1)), st.integers(1, 6))
    parts = [text[start : start + size] for start, size in draw(st.lists(places, max_size=3))]
    begun = [text[-size:] + "…" for size in draw(st.lists(st.integers(1, 6), max_size=2))]
    others = draw(st.lists(st.sampled_from(PIECES) | st.text(min_size=1, max_size=3), max_size=2))
    kept = draw(st.sets(st.sampled_from(["parts", "begun", "others"])))
    words = {"parts": parts, "begun": begun, "others": others}
    return text, tuple(word for name in sorted(kept) for word in words[name])


def following(output: Sequence[int], end: int, wrong: Sequence[int] = ()) -> Next:
    """Continues with `output` and `end`; wrongly at the positions in `wrong`."""

    def choose(ids: Sequence[int]) -> int:
        made = len(ids) - len(PROMPT)
        right = output[made] if made < len(output) else end
        return right if made not in wrong else (right + 1) % 300

    return choose


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=150)
@given(
    case=cases(),
    length=st.integers(1, 9),
    deltas=st.integers(1, 7),
    wrong=st.lists(st.integers(0, 60), max_size=10),
    omit_end=st.booleans(),
    most=st.none() | st.integers(1, 25),
)
def test_every_way_gives_the_same_text(
    family: Callable[[], Tokenizer],
    case: tuple[str, tuple[str, ...]],
    length: int,
    deltas: int,
    wrong: list[int],
    omit_end: bool,
    most: int | None,
) -> None:
    """`most`: the token limit, which may cut a character in two."""
    text, words = case
    tokenizer = family()
    end = tokenizer.token_to_id("</s>")
    assert end is not None
    ids = [token for token in tokenizer.encode(text, add_special_tokens=False).ids if token != end]

    def decode(part: Sequence[int]) -> str:
        return str(tokenizer.decode(list(part), skip_special_tokens=True))

    whole = "".join(pieces(tokenizer, ids[:most]))
    assert most is not None or whole == decode(ids)
    limits = Limits(most or len(ids) + 5, end_ids=(end,), stop_words=words)
    right = following(ids, end)
    plain = run(PROMPT, limits, ToyTarget(right, deltas=deltas, omit_end=omit_end), decode=decode)
    draft = ToyDraft(following(ids, end, wrong))
    rounds = run(PROMPT, limits, ToyTarget(right, omit_end=omit_end), draft, length, decode=decode)
    expected, found = character_by_character(list(dict.fromkeys(words)), whole)
    unstopped = "length" if len(ids) >= limits.max_tokens else "stop"
    for chunks in (plain, rounds):
        assert text_of(chunks) == expected
        assert chunks[-1].finish_reason == (unstopped if found is None else "stop_word")
        # what was shown is never taken back, and no chunk shows a part of a character that comes whole
        assert all(expected.startswith(text_of(chunks[:number])) for number in range(len(chunks)))
        assert "".join(token.text for chunk in chunks for token in chunk.tokens).startswith(expected)
    assert plain[-1].num_output_tokens == rounds[-1].num_output_tokens
