import pytest

from trtspec.units import bounds_text, bytes_text, count_text, duration_text, ms_text, plain_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (538_000_000, "513 MiB"),
        (1010 << 20, "1010 MiB"),  # between a thousand and 1024 of a unit: no power of ten
        (1 << 45, "32 TiB"),
        (1500 << 40, "1500 TiB"),
    ],
)
def test_bytes(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.85, "850 ms"), (12.34, "12.3 s"), (59.96, "1 min 00 s"), (245, "4 min 05 s"), (7380, "2 h 03 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_bounds() -> None:
    assert bounds_text(1.214, 1.44) == "1.21–1.44"
    assert bounds_text(0.02, 18.39, " to ") == "0.02 to 18.4"
    assert bounds_text(0.0002, 3161.38) == "<0.01–>100"


def test_milliseconds_and_counts() -> None:
    assert ms_text(0.0533) == "53.3 ms"
    assert ms_text(0.9996) == "1000 ms"
    assert ms_text(2.5) == "2500 ms"
    assert count_text(134_515_008) == "134 515 008"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b2Jclean", "clean"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("\x1b]never closed\nnext", "\nnext"),
        ("bell\x07 back\x08 null\x00 delete\x7f", "bell back null delete"),
        ("naïve 日本", "naïve 日本"),
    ],
)
def test_plain_text_moves_no_cursor(text: str, plain: str) -> None:
    assert plain_text(text) == plain
