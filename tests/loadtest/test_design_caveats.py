"""Each trap of a load test's design gives its warning, and a sound run gives none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.loadtest.fakes import MS, make_pairs_of_records, record
from trtspec.loadtest.records import Record
from trtspec.loadtest.summary import summarise

GOOD = make_pairs_of_records(40)


def warnings(records: Sequence[Record], **options: Any) -> list[str]:
    found: list[str] = summarise(list(records), {"options": options})["comparison"]["warnings"]
    return found


def later(one: Record, ms: float) -> Record:
    """The same request at another time."""
    shift = round(ms * MS)
    chunks = tuple(replace(chunk, t_ns=chunk.t_ns + shift) for chunk in one.chunks)
    return replace(
        one, start_ns=one.start_ns + shift, end_ns=one.end_ns + shift, scheduled_ns=one.start_ns + shift, chunks=chunks
    )


def test_a_sound_run_has_no_warning() -> None:
    assert warnings(GOOD, temperature=0) == []


def test_what_fills_a_load_up_is_cancelled_by_design() -> None:
    fill = record(prompt="x", start_ms=1e6, cancelled=True, cancel_reason="stop", excluded="fill")
    assert warnings([*GOOD, fill], temperature=0) == []


def one_arm_then_the_other() -> list[Record]:
    return [later(one, 60_000) if one.arm == "speculative" else one for one in GOOD]


def both_at_once() -> list[Record]:
    starts = {(one.arm, one.prompt_id): one.start_ns for one in GOOD}
    return [later(one, (starts["baseline", one.prompt_id] - one.start_ns) / MS) for one in GOOD]


def warm_up_of_one_arm() -> list[Record]:
    return [*GOOD, record(prompt="w", arm="baseline", start_ms=-100, excluded="warm-up")]


def partners_missing() -> list[Record]:
    return [one for one in GOOD if one.arm == "baseline" or int(one.prompt_id[1:]) > 1]


def counted_by_others() -> list[Record]:
    return [replace(one, tokens_source="tokenizer") if one.arm == "baseline" else one for one in GOOD]


def two_draft_lengths() -> list[Record]:
    return [replace(one, draft_length=4 + int(one.prompt_id[1:]) % 2) for one in GOOD]


def late_sends() -> list[Record]:
    """Every request 100 ms after its time."""
    return [replace(one, scheduled_ns=one.start_ns - 100 * MS, load="poisson 5/s", block=1) for one in GOOD]


def cut_off() -> list[Record]:
    return [replace(one, max_tokens=11) for one in GOOD]


def other_texts() -> list[Record]:
    return [replace(one, chunks=(replace(one.chunks[0], text="!"), *one.chunks[1:])) if one.arm == "baseline" else one
            for one in GOOD]  # fmt: skip


def talks_that_part() -> list[Record]:
    """Ten sessions of four turns; in three of them the second turn's answers differ."""
    found = []
    for one in GOOD:
        session, turn = divmod(int(one.prompt_id[1:]), 4)
        made = replace(one, session=f"s{session}", turn=turn)
        if session < 3 and turn == 1 and one.arm == "baseline":
            made = replace(made, chunks=(replace(one.chunks[0], text="!"), *one.chunks[1:]))
        found.append(made)
    return found


def cancelled() -> list[Record]:
    return [*GOOD, record(prompt="x", start_ms=1e6, cancelled=True, cancel_reason="disconnect")]


def burst() -> list[Record]:
    """Four requests at once, then 12 one after the other on 4 connections; nothing says what is warm-up."""
    shared: dict[str, Any] = {"concurrency": 4, "marked": False}
    first = [record([(900, 1), (950, 1)], prompt=f"b{i}", **shared) for i in range(4)]
    return [
        *first,
        *(record([(100, 1), (150, 1)], prompt=f"r{i}", start_ms=951 + 160 * i, **shared) for i in range(12)),
    ]


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        (one_arm_then_the_other(), {}, "at concurrency 1 one arm ran wholly before the other"),
        (both_at_once(), {}, "at concurrency 1 both arms ran at once"),
        (warm_up_of_one_arm(), {}, "only one arm was warmed up: the speculative arm's"),
        (partners_missing(), {}, "2 baseline answers have no partner in the other arm"),
        (counted_by_others(), {}, "tokens are counted differently in the arms: server (speculative) and tokenizer"),
        (two_draft_lengths(), {}, "draft lengths differ between requests (4, 5)"),
        (
            late_sends(),
            {},
            "the schedule of poisson 5/s could not be kept (baseline): one request was 100 ms late",
        ),
        (cut_off(), {}, "every answer was cut off at its token limit"),
        (GOOD, {"ignore_eos": True}, "ignore_eos: text past its natural end"),
        (other_texts(), {"temperature": 0}, "40 of 40 answers differ at temperature 0"),
        (talks_that_part(), {}, "6 later turns came after answers that differ"),
        (cancelled(), {}, "1 requests were cancelled by the load generator"),
        (burst(), {}, "4 requests opened a load level all at once"),
    ],
)
def test_each_trap_is_told(records: list[Record], options: dict[str, Any], words: str) -> None:
    found = warnings(records, **options)
    assert any(text.startswith(words) for text in found), found


def open_loop(growing: float) -> list[Record]:
    """Five blocks of nine requests that are due every 100 ms; each is later than the one before by so many ms."""
    found = []
    for one in make_pairs_of_records(45, spread=0.0):
        block, place = divmod(int(one.prompt_id[1:]), 9)
        due = 20_000.0 * block + 100 * place + (10_000 if one.arm == "speculative" else 0)
        slow = place * growing if one.arm == "baseline" else 0.0
        made = later(one, due - one.start_ns / MS)
        chunks = tuple(replace(chunk, t_ns=chunk.t_ns + round(slow * MS)) for chunk in made.chunks)
        found.append(replace(made, chunks=chunks, end_ns=chunks[-1].t_ns, block=block, load="poisson 10/s"))
    return found


def test_a_queue_that_grows_is_told_although_the_block_ends() -> None:
    words = "at poisson 10/s the baseline arm's answers take"
    assert any(text.startswith(words) for text in warnings(open_loop(60.0)))
    assert not any(text.startswith(words) for text in warnings(open_loop(0.0)))
    closed = [replace(one, load="concurrency 4", concurrency=4) for one in open_loop(60.0)]
    assert not any(words in text for text in warnings(closed)), "a closed loop has no queue that grows"


def test_hardware_of_their_own_is_part_of_the_difference() -> None:
    words = "each arm has hardware of its own, which is part of the difference"

    def told(shared: bool | None, *, aa: bool = False) -> bool:
        measurement = {"placement": {"shared": shared}}
        found = summarise(list(GOOD), {"options": {"aa": aa}}, measurement)["comparison"]["warnings"]
        return any(text.startswith(words) for text in found)

    assert told(shared=False)
    assert not told(shared=True)
    assert not told(shared=None)
    assert not told(shared=False, aa=True)


def test_a_slow_start_inside_the_window_is_told() -> None:
    """The first 16 of 80 pairs three times slower in both arms."""
    slow = [
        replace(one, chunks=tuple(replace(c, t_ns=one.start_ns + 3 * (c.t_ns - one.start_ns)) for c in one.chunks))
        if int(one.prompt_id[1:]) < 16
        else one
        for one in make_pairs_of_records(80, spread=0.0)
    ]
    words = "the baseline arm's first 16 measured requests at concurrency 1 were 200% slower than the rest"
    found = warnings(slow)
    assert any(words in text for text in found), found


def test_rounded_weights_are_told() -> None:
    words = "both arms ran with weights rounded to int8: their answers are not exactly the checkpoint's"

    def told(**section: Any) -> bool:
        found = summarise(list(GOOD), {"spec": {"torch": section}})["comparison"]["warnings"]
        return words in found

    assert told(weights="int8")
    assert not told(weights="exact")
    assert not told()
