"""Slots that sequences share a tensor in: who gets which, who moves out, and what becomes of the memory."""

from __future__ import annotations

import gc
import mmap
import weakref

import pytest
import torch

from tests.torch_runtime.engines import collect
from tests.torch_runtime.test_scheduling import LIMITS, SteppedModel
from trtspec.torch_runtime import pool as pool_module
from trtspec.torch_runtime.engine import Engine
from trtspec.torch_runtime.kv import KVShape, SequenceKV
from trtspec.torch_runtime.memory import KvMemory
from trtspec.torch_runtime.pool import KVPool
from trtspec.torch_runtime.request import GenerationRequest

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = KVShape(layers=2, kv_heads=2, head_dim=16)
LATER = 100  # passes after which a kept sequence is not recent any more


def make_pool(slots: int = 4, positions: int = 256) -> KVPool:
    pool = KVPool.create(SHAPE, slots, positions)
    assert pool is not None
    return pool


def filled(kv: SequenceKV, value: float, length: int = 70) -> SequenceKV:
    kv.reserve(length)
    kv.data[:, :, :, :length] = value
    kv.length = length
    return kv


def index_of(kv: SequenceKV) -> int:
    assert kv.slot is not None
    return kv.slot.index


def values(kv: SequenceKV) -> set[float]:
    return set(kv.data[:, :, :, : kv.length].flatten().tolist())


def test_the_first_free_slot_is_taken() -> None:
    pool = make_pool()
    held = [pool.new(64, 0) for _ in range(3)]
    assert [index_of(kv) for kv in held] == [0, 1, 2]
    del held[1]
    assert index_of(pool.new(64, 0)) == 1


def test_growing_and_copying_keep_the_content() -> None:
    pool = make_pool()
    first = filled(pool.new(64, 0), 3.0)
    second = filled(pool.new(64, 0), 4.0, 200)
    copy = first.copy_to(pool.new(64, 0), 65)
    assert (first.capacity, second.capacity) == (128, 256)
    assert (values(first), values(second), values(copy)) == ({3.0}, {4.0}, {3.0})
    assert copy.length == 65
    filled(second, 5.0, 400)  # longer than a slot
    assert second.slot is None
    assert (values(first), values(second)) == ({3.0}, {5.0})


def test_a_sequence_that_ended_a_while_ago_makes_place_and_keeps_its_content() -> None:
    pool = make_pool()
    old, recent, running = (filled(pool.new(64, 0), value) for value in (1.0, 2.0, 3.0))
    old.idle_since, recent.idle_since = 0, LATER - 1
    new = filled(pool.new(64, LATER), 4.0)
    assert index_of(new) == 0
    assert old.slot is None
    assert [index_of(kv) for kv in (recent, running)] == [1, 2]
    assert [values(kv) for kv in (old, recent, running, new)] == [{1.0}, {2.0}, {3.0}, {4.0}]
    pool.bring_in(old, 2 * LATER)  # one that comes back does not make others move while there is room
    assert index_of(old) == 3
    assert recent.slot is not None
    assert values(old) == {1.0}


def test_without_a_free_slot_the_one_that_ended_first_moves_out() -> None:
    pool = make_pool(slots=3)
    held = [filled(pool.new(64, 0), float(value)) for value in range(3)]
    held[1].idle_since, held[2].idle_since = 8, 7
    assert index_of(pool.new(64, 9)) == 2
    assert [kv.slot is None for kv in held] == [False, False, True]
    assert [values(kv) for kv in held] == [{0.0}, {1.0}, {2.0}]


def test_where_all_slots_run_a_sequence_gets_a_tensor_of_its_own() -> None:
    pool = make_pool(slots=1)
    running = filled(pool.new(64, 0), 1.0)
    other = filled(pool.new(64, LATER), 2.0)
    assert other.slot is None
    assert (values(running), values(other)) == ({1.0}, {2.0})


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="memory is kept on this system")
def test_the_memory_of_a_slot_that_is_left_goes_back_and_its_neighbours_stay() -> None:
    pool = make_pool()
    held = [filled(pool.new(64, 0), float(value), 256) for value in (1, 2, 3)]
    left = held[1].slot
    assert left is not None
    del held[1]
    assert not left.view(256).any()
    assert [values(kv) for kv in held] == [{1.0}, {3.0}]


def test_a_slot_that_was_outgrown_is_free() -> None:
    pool = make_pool(slots=1)
    long = filled(pool.new(64, 0), 1.0, 400)
    new = filled(pool.new(64, 0), 2.0)
    assert index_of(new) == 0
    assert (values(long), values(new)) == ({1.0}, {2.0})
    del long
    assert values(new) == {2.0}


def test_late_news_of_a_sequence_leave_the_next_one_in_its_slot() -> None:
    """Of one in a reference cycle others may hear first."""
    pool, taken = make_pool(), []
    gone = filled(pool.new(64, 0), 1.0)
    setattr(gone, "itself", gone)  # noqa: B010 - it has no such attribute
    heard = weakref.ref(gone, lambda _: taken.append(filled(pool.new(64, 0), 2.0)))
    del gone
    gc.collect()
    assert heard() is None
    assert [(index_of(kv), values(kv)) for kv in taken] == [(0, {2.0})]
    assert index_of(pool.new(64, 0)) == 1


@pytest.mark.skipif(not hasattr(mmap, "MADV_NOHUGEPAGE"), reason="no such advice on this system")
def test_a_kernel_that_does_not_know_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_NOHUGEPAGE", 12345)
    assert index_of(make_pool().new(64, 0)) == 0


def test_a_copy_takes_no_more_than_its_request_has_room_for() -> None:
    memory = KvMemory(SHAPE, 256, slack=2, share=128)
    memory.give_back(filled(memory.lend([1] * 100, 110), 1.0, 100), [1] * 100)
    running = memory.lend([2] * 100, 110)
    assert memory.fits(75)
    copy = memory.lend([1] * 70 + [3], 75)
    assert (copy.length, values(copy)) == (70, {1.0})
    assert memory.use.running + memory.use.kept <= memory.use.limit
    assert running.length == 0


def test_a_lent_sequence_lies_in_the_pool_again_when_it_is_continued() -> None:
    memory = KvMemory(SHAPE, 1024, slack=2, share=256, pool=make_pool(slots=2))
    first = filled(memory.lend([1] * 70, 80), 1.0)
    memory.give_back(first, [1] * 70)
    others = [memory.lend([token] * 70, 80) for token in (2, 3)]
    assert first.slot is None
    memory.give_back(filled(others[0], 2.0), [2] * 70)
    again = memory.lend([1] * 71, 80)
    assert again is first
    assert again.slot is not None
    assert values(again) == {1.0}
    assert memory.use.running + memory.use.kept <= memory.use.limit


def test_without_address_space_or_on_another_device_there_is_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KVPool.create(KVShape(1, 1, 2, device=torch.device("meta")), 2, 64) is None

    def refused(_size: int) -> mmap.mmap:
        raise OSError("cannot allocate memory")

    monkeypatch.setattr(pool_module, "_address_space", refused)
    assert KVPool.create(SHAPE, 2, 64) is None
    model = SteppedModel()
    model.run()
    engine = Engine(model, LIMITS)
    assert collect(engine, GenerationRequest((5,), 2)).tokens == [1, 1]
    engine.close()
