from __future__ import annotations

from collections import Counter

from trtspec.loadtest import RunOptions
from trtspec.loadtest.prompts import Prompt, load_prompts
from trtspec.tuning.options import TuneOptions
from trtspec.tuning.plan import CONFIRM, LevelPlan, order_of, split_prompts

PROMPTS = load_prompts("builtin").prompts


def plan(concurrency: int = 1, base: int = 0) -> LevelPlan:
    return LevelPlan(concurrency, tuple(PROMPTS), TuneOptions(RunOptions(warmup=2)), base)


def test_the_race_never_sees_what_the_winners_are_measured_on() -> None:
    search, held_out = split_prompts(PROMPTS, 1)
    assert not {prompt.id for prompt in search} & {prompt.id for prompt in held_out}
    assert 0.3 < len(held_out) / (len(search) + len(held_out)) < 0.37
    assert split_prompts(PROMPTS, 2)[1] != held_out


def test_every_category_is_in_both_parts() -> None:
    prompts = [Prompt(f"{category}-{n}", category, "x", 8) for category in "abcd" for n in range(6)]
    search, held_out = split_prompts(prompts, 1)
    assert set(Counter(prompt.category for prompt in held_out).values()) == {2}
    assert set(Counter(prompt.category for prompt in search).values()) == {4}


def test_too_few_prompts_are_used_twice() -> None:
    search, held_out = split_prompts(PROMPTS[:2], 1)
    assert search == held_out


def test_rounds_bring_new_prompts_and_blocks_are_numbered_on() -> None:
    rounds = [plan().round(number) for number in range(3)]
    ids = [job.prompt.id for blocks in rounds for block in blocks for job in block.jobs]
    assert len(set(ids)) == len(ids) == 24
    assert [block.index for blocks in rounds for block in blocks] == list(range(24))
    assert plan().round(1) == rounds[1]
    assert plan(base=CONFIRM).round(0)[0].index == CONFIRM


def test_a_round_above_concurrency_one_has_blocks_enough_for_an_interval() -> None:
    blocks = plan(8).round(0)
    assert len(blocks) == 4
    assert all(len(block.jobs) >= 8 for block in blocks)


def test_candidates_find_nothing_in_the_servers_cache() -> None:
    one = plan(4)
    block = one.round(0)[0]
    made = [one.for_candidate(block, candidate) for candidate in ("baseline", "1", "2")]
    nonces = [job.nonce for own in made for job in (*own.jobs, *own.lead_in, *own.fill)]
    assert None not in nonces
    assert len(set(nonces)) == len(nonces)


def test_the_order_is_by_lot_and_every_second_one_reversed() -> None:
    orders = [order_of(("1", "2", "4"), block, 1, at_end=False) for block in range(40)]
    assert all(sorted(order) == ["1", "2", "4", "baseline"] for order in orders)
    assert all(orders[at] == orders[at + 1][::-1] for at in range(0, 40, 2))
    assert {order[0] for order in orders} == {"1", "2", "4", "baseline"}


def test_where_changing_servers_takes_long_the_baseline_is_at_an_end() -> None:
    places = [order_of(("1", "2", "4"), block, 1, at_end=True).index("baseline") for block in range(6)]
    assert places == [0, 3] * 3
