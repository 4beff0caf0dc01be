from __future__ import annotations

from collections import Counter

import pytest

from trtspec.loadtest.plan import Shape, make_plan, total_requests
from trtspec.loadtest.prompts import draw, load_prompts

BUILTIN = load_prompts("builtin-60").prompts


def test_the_same_seed_gives_the_same_plan_and_another_does_not() -> None:
    shape = Shape((1, 4), 30, 4, 1)
    assert make_plan(BUILTIN, shape) == make_plan(BUILTIN, shape)
    assert make_plan(BUILTIN, shape) != make_plan(BUILTIN, Shape((1, 4), 30, 4, 2))


def test_arms_alternate_so_that_drift_favours_neither() -> None:
    (level,) = make_plan(BUILTIN, Shape((1,), 60, 0, 1))
    order = "".join(arm[0] for block in level.blocks for arm in block.order)
    quads = [order[at : at + 4] for at in range(0, len(order), 4)]
    # every two blocks have each arm first once; which of the two comes first is drawn, so that nothing beats in step
    assert set(quads) == {"sbbs", "bssb"}
    assert 5 < quads.count("sbbs") < 25
    assert all(len(block.jobs) == 1 for block in level.blocks)


@pytest.mark.parametrize(("concurrency", "requests"), [(1, 7), (2, 60), (4, 60), (16, 60), (16, 200), (64, 10), (4, 1)])
def test_every_request_is_planned_once(concurrency: int, requests: int) -> None:
    (level,) = make_plan(BUILTIN, Shape((concurrency,), requests, 3, 1))
    jobs = [job for block in level.blocks for job in block.jobs]
    assert level.requests == len(jobs) == requests
    assert len({job.pair_id for job in jobs}) == requests
    if requests <= len(BUILTIN):
        assert len({job.prompt.id for job in jobs}) == requests
    if concurrency > 1 and requests > 1:
        assert len(level.blocks) % 2 == 0
    assert all(block.jobs for block in level.blocks)


def test_prompts_wrap_only_when_there_are_too_few() -> None:
    (level,) = make_plan(BUILTIN[:5], Shape((1,), 12, 0, 1))
    times = Counter(job.prompt.id for block in level.blocks for job in block.jobs)
    assert sorted(times.values()) == [2, 2, 2, 3, 3]


def test_categories_are_even_at_any_point() -> None:
    import random

    categories = {prompt.category for prompt in BUILTIN}
    drawn = draw(BUILTIN, 27, random.Random(1))
    for count in range(1, 28):
        seen = Counter(prompt.category for prompt in drawn[:count])
        assert max(seen.values()) - min(seen.get(c, 0) for c in categories) <= 1


def test_measured_prompts_are_not_sent_before_their_turn() -> None:
    """Lead-in and fill must not warm a prefix cache for what is still to be measured."""
    (level,) = make_plan(BUILTIN, Shape((4,), 60, 4, 1))
    measured: set[str] = set()
    for block in level.blocks:
        padding = {job.prompt.id for job in (*block.lead_in, *block.fill)}
        coming = {job.prompt.id for later in level.blocks[block.index :] for job in later.jobs}
        assert not padding & coming
        measured |= {job.prompt.id for job in block.jobs}
    assert len(measured) == 60


def test_warm_up_once_and_a_ramp_at_every_block_of_several_connections() -> None:
    one, four = make_plan(BUILTIN, Shape((1, 4), 32, 6, 1))
    assert [len(block.lead_in) for block in one.blocks[:3]] == [6, 0, 0]
    assert {len(block.lead_in) for block in four.blocks} == {4}
    assert all(job.excluded == "warm-up" for job in four.blocks[0].lead_in)
    limits = [job.max_tokens for job in four.blocks[0].lead_in]
    assert limits[0] < limits[-1]


def test_servers_started_anew_are_warmed_up_again() -> None:
    """A run that goes on warms up before its first block; where one server runs at a time, before every turn."""
    shape = Shape((1, 4), 32, 6, 1)
    done = {("concurrency 1", index) for index in range(9)}
    one, four = make_plan(BUILTIN, shape, done)
    assert [len(block.lead_in) for block in one.blocks[8:12]] == [0, 6, 0, 0]
    assert {len(block.lead_in) for block in four.blocks} == {4}
    one, four = make_plan(BUILTIN, shape, {("concurrency 1", index) for index in range(32)})
    assert [len(block.lead_in) for block in four.blocks[:3]] == [6, 4, 4]
    plain = make_plan(BUILTIN, shape)
    assert [block.jobs for block in four.blocks] == [block.jobs for block in plain[1].blocks]
    (few,) = make_plan(BUILTIN, Shape((1,), 60, 2, 1, few_turns=True))
    assert {len(block.lead_in) for block in few.blocks} == {2}


def test_total_counts_both_arms() -> None:
    assert total_requests(make_plan(BUILTIN, Shape((1, 4), 10, 2, 1))) == 40


def test_max_tokens_replaces_the_prompts_own() -> None:
    (level,) = make_plan(BUILTIN, Shape((1,), 3, 0, 1, max_tokens=17))
    assert {job.max_tokens for block in level.blocks for job in block.jobs} == {17}
