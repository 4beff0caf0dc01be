import pytest

from trtspec.units import bytes_text, count_text, duration_text, ms_text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (538_000_000, "513 MiB"), (1 << 45, "32 TiB")]
)
def test_bytes(size: int, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.85, "850 ms"), (12.34, "12.3 s"), (59.96, "1 min 00 s"), (245, "4 min 05 s"), (7380, "2 h 03 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_milliseconds_and_counts() -> None:
    assert ms_text(0.0533) == "53.3 ms"
    assert ms_text(2.5) == "2500 ms"
    assert count_text(134_515_008) == "134 515 008"
