from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtspec.planning.items import GpuMemory, Item
from trtspec.reports.plan_bars import Line, line_chart, memory_bar, segment_bytes

KINDS = st.sampled_from(["weights", "kv_cache", "activations", "decoder_buffers", "runtime"])
ITEMS = st.lists(
    st.builds(Item, st.sampled_from(["target", "draft", "server"]), KINDS, st.just("x"), st.integers(0, 10**12),
              st.just("")),
    max_size=8,
)  # fmt: skip


@given(ITEMS, st.integers(1, 10**12), st.integers(10, 80))
def test_a_bar_is_as_wide_as_asked(items: list[Item], total: int, width: int) -> None:
    assert len(memory_bar(GpuMemory(0, "gpu", total, tuple(items)), width)) == width


@given(ITEMS)
def test_every_item_is_in_one_segment(items: list[Item]) -> None:
    gpu = GpuMemory(0, "gpu", None, tuple(items))
    assert sum(segment_bytes(gpu)) == gpu.used


def test_a_bar_shows_shares_and_what_is_free() -> None:
    items = (Item("target", "weights", "", 50, ""), Item("draft", "weights", "", 10, ""),
             Item("draft", "kv_cache", "", 20, ""), Item("server", "runtime", "", 10, ""))  # fmt: skip
    assert memory_bar(GpuMemory(0, "gpu", 100, items), 10).plain == "█████▓▒▒░·"


def test_a_bar_that_is_too_full_marks_the_end_of_the_gpu() -> None:
    bar = memory_bar(GpuMemory(0, "gpu", 50, (Item("target", "weights", "", 100, ""),)), 10)
    assert bar.plain == "█████|████"


@pytest.mark.parametrize("width", [40, 76])
def test_a_chart_keeps_to_its_width_and_names_its_axis(width: int) -> None:
    points = [(math.log2(c), 2.0 - 0.05 * c) for c in (1, 2, 4, 8, 16, 32)]
    rows = line_chart([Line(points, "cyan")], (1, 2, 4, 8, 16, 32), width=width)
    assert all(len(row) <= width + 2 for row in rows)
    assert rows[-1].plain.split() == ["1", "2", "4", "8", "16", "32"]
    assert any(row.plain.startswith(" 1.0 ") for row in rows)


def test_lines_are_told_apart_at_their_right_end_without_colours() -> None:
    lines = [Line([(0.0, 2.0), (5.0, 1.99)], "cyan", "4"), Line([(0.0, 1.5), (5.0, 0.5)], "red", "16"),
             Line([(0.0, 1.8), (5.0, 1.98)], "blue", "5")]  # fmt: skip
    rows = [row.plain.rstrip() for row in line_chart(lines, (1, 32), width=60)]
    assert all(len(row) <= 60 for row in rows)
    assert rows[0].endswith(" 4 5")
    assert rows[-2].endswith(" 16")


def test_a_falling_line_falls() -> None:
    rows = line_chart([Line([(0.0, 3.0), (5.0, 1.8)], "cyan")], (1, 32), width=46, height=12)
    firsts = [row.plain[5:].rstrip().rfind(" ") for row in rows[:6]]
    lasts = [len(row.plain.rstrip()) for row in rows[:6]]
    assert lasts == sorted(set(lasts))
    assert firsts == sorted(firsts)


def test_a_single_point_and_a_flat_line_are_drawn() -> None:
    assert any(row.plain.strip() for row in line_chart([Line([(0.0, 1.0)], "cyan")], (1,), width=40))
    assert line_chart([Line([(0.0, 1.0), (1.0, 1.0)], "cyan")], (1, 2), width=40)
