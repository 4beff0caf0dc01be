"""Sampling end to end on the real Triton: answers of a seed, the target's distribution, and what is accepted.

Seeds are fixed, so each test always sees the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chi2_contingency

from tests.serving.toy import ToyDeployment
from tests.triton_models.toys import built_toy, post, served
from trtspec.serving import RunningServer

pytestmark = pytest.mark.triton

BODY = {"text_input": "hello world", "end_id": -1, "temperature": 0.7, "top_k": 4}
SEEDS = range(1, 401)


@pytest.fixture(scope="module")
def logits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Acceptance by logits; where a request wants it by tokens, the draft takes the likeliest ones."""
    spec_file = built_toy(tmp_path_factory.mktemp("logits"), speculation={"acceptance": "logits"})
    _set(spec_file.repository("speculative") / "tensorrt_llm_bls/config.pbtxt", "draft_sampling", "shared", "greedy")
    with served(spec_file) as server:
        yield server


def _set(config: Path, key: str, old: str, new: str) -> None:
    head, mark, rest = config.read_text().partition(f'key: "{key}"')
    assert old in rest
    config.write_text(head + mark + rest.replace(f'"{old}"', f'"{new}"', 1))


def answers(server: RunningServer, seeds: Sequence[int], **more: Any) -> list[dict[str, Any]]:
    """An answer for each seed, several at a time."""

    def one(seed: int) -> dict[str, Any]:
        return post(server, {**BODY, "return_token_details": True, "seed": seed, **more})

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, seeds))


def rate(found: Sequence[dict[str, Any]]) -> float:
    accepted, drafted = (sum(int(a[f"total_{what}draft_tokens"]) for a in found) for what in ("accepted_", ""))
    return accepted / drafted


def test_by_tokens_a_seed_gives_the_baselines_answer_whatever_the_draft_length(toy_deployment: ToyDeployment) -> None:
    seeds = SEEDS[:12]
    expected = [answer["token_ids"] for answer in answers(toy_deployment.server("baseline"), seeds, max_tokens=24)]
    assert len({tuple(ids) for ids in expected}) == len(seeds)
    for length in (1, 2, 5, 8):
        found = answers(toy_deployment.server("speculative"), seeds, max_tokens=24, num_draft_tokens=length)
        assert [answer["token_ids"] for answer in found] == expected


def test_shared_random_numbers_raise_acceptance(toy_deployment: ToyDeployment, logits: RunningServer) -> None:
    """Of a draft that draws with the target's numbers more is accepted than of one that takes the likeliest."""
    seeds, more = SEEDS[:40], {"max_tokens": 20, "num_draft_tokens": 3}
    shared = answers(toy_deployment.server("speculative"), seeds, **more)
    plain = answers(logits, seeds, use_draft_logits=False, **more)
    assert [answer["token_ids"] for answer in shared] == [answer["token_ids"] for answer in plain]
    assert rate(shared) > 1.2 * rate(plain)


def first_tokens(found: Sequence[dict[str, Any]]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(answer["token_ids"][:2]) for answer in found)


def test_by_logits_the_first_tokens_have_the_baselines_distribution(
    toy_deployment: ToyDeployment, logits: RunningServer
) -> None:
    cold = {"temperature": 0.3}
    plain = answers(toy_deployment.server("baseline"), SEEDS, max_tokens=2, **cold)
    drafted = answers(logits, SEEDS, max_tokens=4, num_draft_tokens=2, **cold)
    assert drafted != plain
    assert 0.05 < rate(drafted) < 0.95
    assert p_value(first_tokens(plain), first_tokens(drafted)) > 1e-3
    # as many answers tell the distribution from one that is not far
    other = answers(toy_deployment.server("baseline"), SEEDS, max_tokens=2, temperature=0.6)
    assert p_value(first_tokens(other), first_tokens(drafted)) < 1e-3


def p_value(one: Counter[tuple[int, ...]], two: Counter[tuple[int, ...]]) -> float:
    """That both are samples of one distribution; what is rare counts together."""
    cells = [cell for cell in one.keys() | two.keys() if one[cell] + two[cell] >= 10]
    table = [[found[cell] for cell in cells] for found in (one, two)]
    rest = [found.total() - sum(row) for found, row in zip((one, two), table, strict=True)]
    if sum(rest):
        table = [[*row, left] for row, left in zip(table, rest, strict=True)]
    return float(chi2_contingency(table).pvalue)


def test_by_logits_greedy_answers_are_the_baselines(toy_deployment: ToyDeployment, logits: RunningServer) -> None:
    for more in ({"temperature": 0.0}, {"top_k": 1}):
        body = {"text_input": "def add(a", "max_tokens": 40, "end_id": -1, **more}
        expected = post(toy_deployment.server("baseline"), body)["text_output"]
        for length in (1, 4, 8):
            answer = post(logits, {**body, "num_draft_tokens": length})
            assert answer["text_output"] == expected
            assert answer["num_draft_fallbacks"] == 0
