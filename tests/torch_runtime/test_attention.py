"""Sequences attended together give what each gives alone, and share a call only where that is cheaper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.torch_runtime.engines import engine_folder
from trtspec.torch_runtime import grouping
from trtspec.torch_runtime.attention import PackedAttention, PackedBatch
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.grouping import Segment, side_by_side
from trtspec.torch_runtime.kv import KVShape, SequenceKV, steady
from trtspec.torch_runtime.loading import load_model
from trtspec.torch_runtime.pool import KVPool

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
LAYERS, SIZE = 2, 16


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can share a call does, whatever it costs."""
    monkeypatch.setattr(grouping, "_CALL", 1e9)


def pooled(shape: KVShape, lengths: Sequence[int], slots: Sequence[int] | None = None) -> list[SequenceKV]:
    """Sequences of random content in the slots named (else the first ones) of one pool."""
    wanted = list(range(len(lengths)) if slots is None else slots)
    pool = KVPool(shape, max(wanted) + 1, 1024)
    held = [pool.new(64, 0) for _ in range(max(wanted) + 1)]
    for kv in held:  # what is left in idle slots must not matter
        kv.data.fill_(1e4)
    generator = torch.Generator().manual_seed(1)
    for index, length in zip(wanted, lengths, strict=True):
        kv = held[index]
        kv.reserve(length)
        kv.data.normal_(generator=generator)
        kv.length = length
    return [held[index] for index in wanted]


def alone(kvs: Sequence[SequenceKV]) -> list[SequenceKV]:
    return [kv.copy_to(SequenceKV(kv.shape, kv.length), kv.length) for kv in kvs]


class Rows:
    """Random queries, keys and values of a pass with `counts` rows of each sequence, and the attention over them."""

    def __init__(self, shape: KVShape, heads: int, counts: Sequence[int]) -> None:
        generator = torch.Generator().manual_seed(2)
        total = sum(counts)
        self.counts, self.shape, self.heads = list(counts), shape, heads
        self.query = torch.randn(total, heads, shape.head_dim, generator=generator)
        self.key, self.value = (
            torch.randn(total, shape.kv_heads, shape.head_dim, generator=generator) for _ in range(2)
        )

    def attend(
        self, kvs: Sequence[SequenceKV], chosen: Sequence[int] | None = None, *, window: int | None, exact: bool = False
    ) -> tuple[Tensor, int]:
        """[rows, heads * head_dim] of the chosen sequences (else all), and how many groups they were attended in."""
        places = list(range(len(kvs)) if chosen is None else chosen)
        offsets = [sum(self.counts[:place]) for place in places]
        own = torch.cat([torch.arange(at, at + self.counts[place]) for at, place in zip(offsets, places, strict=True)])
        parts = [(kvs[place], [0] * self.counts[place]) for place in places]
        batch = PackedBatch.build(parts, [0] * len(parts), CPU)
        attention = PackedAttention(batch, self.shape, self.heads, exact=exact)
        for layer in range(LAYERS):  # other keys and values in each layer
            rows = (self.key[own] + layer, self.value[own] - layer)
            result = attention.attend(layer, self.query[own], rows, 0.3, window)
        return result, len(side_by_side(batch.segments, self.heads // self.shape.kv_heads, exact=exact))


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (5, 1)])
@pytest.mark.parametrize(
    ("lengths", "counts", "slots"),
    [
        ((70, 70, 70), (1, 1, 1), None),
        ((3, 100, 64, 127), (1, 5, 17, 2), None),
        ((3, 20, 40), (1, 9, 1), (0, 2, 3)),  # an idle slot between
        ((90, 20, 40, 0), (4, 4, 4, 4), (3, 0, 1, 2)),  # the pass's order is not that of the slots
        ((90, 700, 40, 30), (1, 1, 1, 1), None),  # a long one among short ones
        ((30, 10, 20), (2, 40, 2), None),  # a piece of a prompt beside answers
    ],
)
def test_together_is_what_each_is_alone(
    lengths: tuple[int, ...],
    counts: tuple[int, ...],
    slots: tuple[int, ...] | None,
    heads: int,
    kv_heads: int,
    window: int | None,
) -> None:
    shape = KVShape(LAYERS, kv_heads, SIZE)
    kvs = pooled(shape, lengths, slots)
    rows = Rows(shape, heads, counts)
    copies = alone(kvs)
    together, groups = rows.attend(kvs, window=window)
    apart, single = rows.attend(copies, window=window)
    assert groups < single == len(kvs)
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-5)
    for kv, copy, length, count in zip(kvs, copies, lengths, counts, strict=True):
        assert torch.equal(kv.data[:, :, :, : length + count], copy.data[:, :, :, : length + count])


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize("window", [None, 30])
def test_exact_rows_have_the_same_bits_in_any_company(window: int | None) -> None:
    shape = KVShape(LAYERS, 2, SIZE)
    lengths, counts = (70, 100, 64, 60, 700, 90), (1, 5, 17, 3, 1, 1)
    kvs = pooled(shape, lengths)
    rows = Rows(shape, 6, counts)
    expected = [rows.attend(alone(kvs), [place], window=window, exact=True)[0] for place in range(len(kvs))]
    for company in ((0, 1, 2, 3, 4, 5), (0, 1), (1, 5), (5, 3, 0), (2, 4)):
        result, _ = rows.attend(kvs, company, window=window, exact=True)
        assert torch.equal(result, torch.cat([expected[place] for place in company]))
    assert rows.attend(kvs, (0, 1, 2), window=window, exact=True)[1] == 1


def amd() -> bool:
    file = Path("/proc/cpuinfo")
    return file.exists() and "AuthenticAMD" in file.read_text()


def test_steady_lengths() -> None:
    assert [steady(length) for length in (1, 192, 193, 257, 384, 385, 512, 640, 768, 833)] == [
        *(64, 192, 384, 384, 384, 448, 512, 640, 896, 896)
    ]


@pytest.mark.skipif(not amd(), reason="found for MKL's kernels on AMD")
@pytest.mark.parametrize("start", [186, 250, 314, 380, 760])
def test_exact_rows_have_the_same_bits_wherever_a_block_ends(start: int) -> None:
    shape = KVShape(LAYERS, 2, SIZE)
    block, [steps] = pooled(shape, (start,)), alone(pooled(shape, (start,)))
    rows = Rows(shape, 6, (9,))
    expected, _ = rows.attend(block, window=None, exact=True)
    single = Rows(shape, 6, [1] * 9)
    single.query, single.key, single.value = rows.query, rows.key, rows.value
    results = []
    for place in range(9):
        results.append(single.attend([steps] * 9, [place], window=None, exact=True)[0])
        steps.length += 1
    assert torch.equal(torch.cat(results), expected)


def segments(slots: Sequence[int], lengths: Sequence[int], rows: Sequence[int] | None = None) -> list[Segment]:
    kvs = pooled(KVShape(1, 1, 16), lengths, slots)
    counts = rows or [1] * len(kvs)
    return [Segment(kv, kv.length, 0, count) for kv, count in zip(kvs, counts, strict=True)]


def groups_of(given: list[Segment], *, exact: bool = False) -> list[list[int]]:
    """The groups, as indices of slots."""
    return [
        [segment.kv.slot.index for segment in group if segment.kv.slot] for group in side_by_side(given, 3, exact=exact)
    ]


def test_who_shares_a_call() -> None:
    assert groups_of(segments([0, 1, 2, 3], [200, 250, 180, 210])) == [[0, 1, 2, 3]]
    # a short one does not read as far as a long one, and nobody reads through many idle slots
    assert sorted(groups_of(segments([0, 1, 2, 3], [60, 60, 700, 60]))) == [[0, 1], [2], [3]]
    assert sorted(groups_of(segments([0, 1, 7, 8], [200] * 4))) == [[0, 1], [7, 8]]
    assert groups_of(segments([0, 2], [20, 20])) == [[0, 2]]
    # pieces of prompts go alone, and so do sequences outside a pool
    assert sorted(groups_of(segments([0, 1, 2], [60] * 3, [1, 64, 1]))) in ([[0, 2], [1]], [[0], [1], [2]])
    own = SequenceKV(KVShape(1, 1, 16))
    assert groups_of([Segment(own, 0, 0, 1), *segments([0, 1], [60, 60])]) == [[], [0, 1]]
    assert max(len(group) for group in groups_of(segments(range(40), [60] * 40))) <= 16
    assert sorted(groups_of(segments([0, 1, 2], [100, 150, 100]), exact=True)) == [[0], [1], [2]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_model_gives_a_row_the_same_bits_beside_other_answers(tmp_path: Path, dtype: str) -> None:
    folder = engine_folder(tmp_path, hidden=64, heads=4, kv_heads=2, dtype=dtype)
    model = load_model(folder, RuntimeOptions(device="cpu", exact_rows=True))
    pool = KVPool(model.kv_shape, 4, 256)

    def logits(*parts: tuple[SequenceKV, list[int]]) -> Tensor:
        return model.forward(PackedBatch.build(parts, [len(tokens) for _, tokens in parts], CPU))

    prompts = [[(7 * start + index) % 300 for index in range(9 + 5 * start)] for start in range(4)]
    kvs = [pool.new(64, 0) for _ in prompts]
    apart = [SequenceKV(model.kv_shape) for _ in prompts]
    for kv, other, prompt in zip(kvs, apart, prompts, strict=True):
        logits((kv, prompt))
        logits((other, prompt))
    blocks = [[5], [6, 7, 8, 9, 10], [11], [12, 13]]
    together = logits(*zip(kvs, blocks, strict=True))
    expected = torch.cat([logits(part) for part in zip(apart, blocks, strict=True)])
    assert torch.equal(together, expected)
