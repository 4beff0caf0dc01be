"""What is sent in which order: rounds, open loops, sessions, clients that leave, unique beginnings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from trtspec.loadtest.arrivals import Traffic, open_loop, parse_profile
from trtspec.loadtest.jobs import Job, Shape, chains, measured_jobs
from trtspec.loadtest.plan import BLOCKS, few_blocks, make_plan, next_round
from trtspec.loadtest.prompts import Prompt, load_prompts

BUILTIN = load_prompts("builtin-60").prompts
SHAPE = Shape((), 40, 4, 1)


def level_jobs(shape: Shape) -> list[Job]:
    (level,) = make_plan(BUILTIN, shape)
    return [job for block in level.blocks for job in block.jobs]


def talk(sessions: int, turns: int) -> list[Prompt]:
    return [
        Prompt(f"s{s}t{t}", "chat", f"question {t} of {s}", 20, session=f"s{s}", turn=t)
        for t in range(turns)
        for s in range(sessions)
    ]


@pytest.mark.parametrize("concurrency", [1, 2, 4, 16])
def test_levels_above_one_connection_have_eight_blocks_where_the_requests_suffice(concurrency: int) -> None:
    (level,) = make_plan(BUILTIN, Shape((concurrency,), 8 * concurrency, 0, 1))
    assert len(level.blocks) >= BLOCKS
    assert few_blocks(level) is None
    (few,) = make_plan(BUILTIN, Shape((concurrency,), 8 * concurrency - 1, 0, 1))
    told = few_blocks(few)
    assert (told is None) == (concurrency == 1)
    assert told is None or f"concurrency {concurrency}: {few.requests} requests make {len(few.blocks)} blocks" in told


def test_an_open_loop_has_blocks_too_whose_times_continue_the_schedule() -> None:
    (level,) = make_plan(BUILTIN, replace(SHAPE, traffic=(open_loop(5, "constant"),)))
    assert len(level.blocks) == BLOCKS
    first, second = level.blocks[:2]
    assert [job.at for job in first.jobs] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert [job.at for job in second.jobs] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert all(rate == pytest.approx(5) for rate in second.rates)
    assert all(block.lead_in and block.fill for block in level.blocks)


def test_another_round_goes_on_where_the_last_one_ended() -> None:
    shape = Shape((1,), 40, 0, 1)
    (first,) = make_plan(BUILTIN, shape)
    second = next_round(BUILTIN, shape, (0, 1), len(first.blocks))
    assert second.blocks[0].index == 40
    ids = [job.pair_id for level in (first, second) for block in level.blocks for job in block.jobs]
    assert len(set(ids)) == 80
    # all 60 prompts came once before any came twice
    assert not any("~" in pair for pair in ids[:60])
    assert all("~2" in pair for pair in ids[60:])
    starts = ["bs"["s" in block.order[0][0]] for level in (first, second) for block in level.blocks]
    assert all(one != other for one, other in zip(starts[::2], starts[1::2], strict=True))


def test_another_round_of_an_open_loop_continues_its_schedule_and_a_profile_has_none() -> None:
    shape = replace(SHAPE, traffic=(open_loop(5, "poisson"), Traffic("steps", 2, segments=parse_profile("2:10"))))
    one, two = (measured_jobs(BUILTIN, shape, 0, number) for number in (0, 1))
    times = [job.at for job in (*one, *two) if job.at is not None]
    assert len(times) == 80
    assert times == sorted(times)
    block = next_round(BUILTIN, shape, (0, 1), 8).blocks[0]
    assert block.jobs[0].at is not None
    assert block.jobs[0].at < 5
    assert measured_jobs(BUILTIN, shape, 1, 0)
    assert next_round(BUILTIN, shape, (1, 1), 8).blocks == ()


def test_duration_and_limit_cut_an_open_loop() -> None:
    profile = Traffic("steps", 2, "constant", segments=parse_profile("2:30"))
    assert len(level_jobs(replace(SHAPE, traffic=(profile,)))) == 61
    assert len(level_jobs(replace(SHAPE, traffic=(profile,), limit=10))) == 10
    assert len(level_jobs(replace(SHAPE, traffic=(profile,), duration=5.0))) == 11
    assert len(level_jobs(replace(SHAPE, traffic=(open_loop(2, "constant"),), duration=5.0))) == 11


def test_a_trace_asks_its_own_prompts_in_order() -> None:
    asked = tuple(Prompt(f"trace-{i}", "trace", str(i), i + 1) for i in range(5))
    jobs = level_jobs(replace(SHAPE, traffic=(Traffic("trace", 1.0, times=(0.0, 1.0, 2.0, 3.0, 9.0), prompts=asked),)))
    assert [(job.prompt.text, job.max_tokens) for job in jobs] == [(str(i), i + 1) for i in range(5)]


@pytest.mark.parametrize("traffic", [None, open_loop(3, "poisson")])
def test_sessions_stay_whole_and_in_order(traffic: Traffic | None) -> None:
    shape = Shape(() if traffic else (2,), 30, 0, 1, traffic=(traffic,) if traffic else ())
    (level,) = make_plan(talk(20, 3), shape)
    assert level.requests >= 30
    for block in level.blocks:
        for chain in chains(block.jobs):
            assert [job.turn for job in chain] == [0, 1, 2]
            assert len({job.session for job in chain}) == 1
            assert len({job.at for job in chain}) == 1
        assert all(job.prompt.turn in {None, 0} for job in (*block.lead_in, *block.fill))


def test_a_session_that_comes_again_is_another_session() -> None:
    jobs = measured_jobs(talk(2, 2), Shape((1,), 8, 0, 1), 0, 0)
    assert len({job.session for job in jobs}) == 4
    assert len({job.pair_id for job in jobs}) == 8


def test_a_share_of_clients_leaves_and_the_seed_says_who() -> None:
    shape = Shape((4,), 400, 0, 1, disconnect=0.25)
    leaving = [job.disconnect_after for job in level_jobs(shape)]
    count = sum(after is not None for after in leaving)
    assert 60 < count < 140
    assert leaving == [job.disconnect_after for job in level_jobs(shape)]
    assert leaving != [job.disconnect_after for job in level_jobs(replace(shape, seed=2))]
    assert all(1 <= job.disconnect_after <= job.max_tokens for job in level_jobs(shape) if job.disconnect_after)


def test_unique_beginnings_differ_everywhere() -> None:
    levels = make_plan(BUILTIN, Shape((1, 4), 60, 4, 1, unique_prefixes=True))
    marks = [
        job.nonce for level in levels for block in level.blocks for job in (*block.lead_in, *block.jobs, *block.fill)
    ]
    assert None not in marks
    assert len(set(marks)) == len(marks)
    assert all(job.nonce is None for job in level_jobs(Shape((1,), 10, 0, 1)))


def test_arms_that_change_slowly_change_seldom() -> None:
    (level,) = make_plan(BUILTIN, Shape((1,), 60, 2, 1, few_turns=True))
    assert len(level.blocks) == BLOCKS
    assert level.requests == 60


def test_neighbouring_levels_send_in_another_order() -> None:
    one, two = make_plan(BUILTIN, Shape((1, 2), 60, 0, 1))
    orders = [[job.prompt.id for block in level.blocks for job in block.jobs] for level in (one, two)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert all(later.index == earlier.index + 1 for earlier, later in pairwise(two.blocks))
