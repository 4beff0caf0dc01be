"""The engine: greedy equality, verification, prefix reuse, batching, cancellation, refusals."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch_runtime.engines import Collected, collect, engine_folder, open_engine, reference, reference_greedy
from trtspec.torch_runtime import sequence
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import EngineConfig
from trtspec.torch_runtime.engine import Engine
from trtspec.torch_runtime.errors import RequestRefused
from trtspec.torch_runtime.kv import KVShape, SequenceKV, Slot
from trtspec.torch_runtime.request import GenerationRequest, Sampling
from trtspec.torch_runtime.sampling import best_chances, choose_tokens

PROMPT = tuple((37 * index + 11) % 300 for index in range(40))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_folder(tmp_path_factory.mktemp("engine"), hidden=64, heads=4, kv_heads=2, seed=1)


@pytest.fixture(scope="module")
def greedy(folder: Path) -> list[int]:
    """Twenty tokens that plain transformers generates after PROMPT."""
    return reference_greedy(reference(folder), list(PROMPT), 20)


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    engine = open_engine(folder)
    yield engine
    engine.close()


def test_greedy_equals_plain_transformers(engine: Engine, greedy: list[int]) -> None:
    answer = collect(engine, GenerationRequest(PROMPT, 20))
    assert answer.tokens == greedy
    assert [update.tokens for update in answer.updates] == [(token,) for token in greedy]
    assert answer.last.finish == "length"
    assert engine.counters.rows == len(PROMPT) + 19


@pytest.mark.parametrize("right", range(6))
def test_a_draft_is_accepted_as_far_as_it_is_right(engine: Engine, greedy: list[int], right: int) -> None:
    draft = [*greedy[:right], *((token + 1) % 320 for token in greedy[right:5])]
    answer = collect(engine, GenerationRequest(PROMPT, 6, draft=tuple(draft)))
    assert answer.tokens == greedy[: right + 1]
    assert len(answer.updates) == 1
    assert (answer.last.stats.drafted, answer.last.stats.accepted) == (5, right)
    assert engine.counters.passes == 1


@pytest.mark.parametrize("quality", ["right", "wrong", "mixed"])
def test_rounds_give_the_greedy_answer_and_cost_only_their_new_tokens(
    engine: Engine, greedy: list[int], quality: str
) -> None:
    known = list(PROMPT)
    collect(engine, GenerationRequest(PROMPT, 1))
    known.append(greedy[0])
    turn = 0
    while len(known) < len(PROMPT) + 15:
        start = len(known) - len(PROMPT)
        draft = greedy[start : start + 3]
        if quality == "wrong" or (quality == "mixed" and turn % 2):
            draft = [(token + 1) % 320 for token in draft]
        before = engine.counters
        answer = collect(engine, GenerationRequest(tuple(known), 4, draft=tuple(draft)))
        assert engine.counters.passes == before.passes + 1
        # the last known token, and the draft; after a fully accepted draft also its last token
        assert engine.counters.rows - before.rows <= 1 + len(draft) + 1
        known += answer.tokens
        turn += 1
    assert known[len(PROMPT) :] == greedy[: len(known) - len(PROMPT)]
    assert turn >= {"right": 4, "wrong": 14, "mixed": 5}[quality]


def test_drafting_rounds_reuse_the_drafts_own_tokens(engine: Engine, greedy: list[int]) -> None:
    collect(engine, GenerationRequest(PROMPT, 4))
    before = engine.counters
    # all four accepted and one more token from the target, which the draft has not seen
    collect(engine, GenerationRequest((*PROMPT, *greedy[:4], 5), 4))
    assert engine.counters.rows - before.rows == 2 + 3
    before = engine.counters
    # only one accepted: the rest of the cached sequence is cut off
    collect(engine, GenerationRequest((*PROMPT, *greedy[:4], 5, 9, 10), 1))
    assert engine.counters.rows - before.rows <= 3


def test_a_shared_prefix_is_copied_and_the_older_sequence_stays(engine: Engine, greedy: list[int]) -> None:
    collect(engine, GenerationRequest((*PROMPT, *range(20)), 1))
    branch = collect(engine, GenerationRequest(PROMPT, 20))
    assert branch.tokens == greedy
    assert branch.last.stats.reused == len(PROMPT) - 1
    again = collect(engine, GenerationRequest((*PROMPT, *range(20)), 1))
    assert again.last.stats.computed == 1


def test_the_end_id_inside_an_accepted_block_ends_the_answer(engine: Engine, greedy: list[int]) -> None:
    end = greedy[1]
    answer = collect(engine, GenerationRequest(PROMPT, 5, draft=tuple(greedy[:4]), end_id=end))
    assert answer.tokens == greedy[:2]
    assert answer.last.finish == "end_id"
    assert answer.last.stats.accepted == 2
    follow = collect(engine, GenerationRequest((*PROMPT, *greedy[:2]), 3))
    assert follow.tokens == greedy[2:5]


def test_an_answer_is_never_longer_than_asked(engine: Engine, greedy: list[int]) -> None:
    answer = collect(engine, GenerationRequest(PROMPT, 2, draft=tuple(greedy[:4])))
    assert answer.tokens == greedy[:2]
    assert answer.last.finish == "length"


def test_an_answer_ends_behind_a_token_that_the_model_is_unsure_of(engine: Engine, greedy: list[int]) -> None:
    chances = [float(chance) for row in _rows(engine, greedy) for chance in best_chances(row[None])]
    threshold = sorted(chances)[10]  # half of the places are below
    first = next(place for place, chance in enumerate(chances) if chance < threshold)
    answer = collect(engine, GenerationRequest(PROMPT, 20, confidence_threshold=threshold))
    assert answer.tokens == greedy[: first + 1]
    assert answer.last.finish == ("unsure" if first < 19 else "length")
    assert collect(engine, GenerationRequest(PROMPT, 20, confidence_threshold=min(chances))).tokens == greedy
    drafted = GenerationRequest(PROMPT, 6, draft=tuple(greedy[:5]), confidence_threshold=0.999)
    assert collect(engine, drafted).tokens == greedy[:6]  # a verification is never cut short


def test_where_a_sampled_draft_ends_does_not_hang_on_the_tokens_drawn(engine: Engine) -> None:
    """The first row is the same for every seed: all end behind their first token, or none does."""
    chance = float(best_chances(_rows(engine, [0])[0][None])[0])
    for threshold, lengths in ((chance * 1.001, {1}), (chance * 0.999, set(range(2, 9)))):
        requests = [
            GenerationRequest(PROMPT, 8, sampling=Sampling(1.5, seed=seed), confidence_threshold=threshold)
            for seed in range(12)
        ]
        assert {len(collect(engine, request).tokens) for request in requests} <= lengths


def _rows(engine: Engine, tokens: list[int]) -> list[torch.Tensor]:
    """Logits [vocab] at the places of `tokens` behind PROMPT."""
    request = GenerationRequest(PROMPT, len(tokens), return_logits=True)
    return [update.logits[0] for update in collect(engine, request).updates if update.logits is not None]


def test_stop_words(engine: Engine, greedy: list[int]) -> None:
    stop = (tuple(greedy[5:7]), (319, 318))
    answer = collect(engine, GenerationRequest(PROMPT, 20, stop_words=stop))
    assert answer.tokens == greedy[:7]
    assert answer.last.finish == "stop_words"


def test_bad_words_and_min_tokens_change_the_choice(engine: Engine, greedy: list[int]) -> None:
    banned = collect(engine, GenerationRequest(PROMPT, 3, bad_words=((greedy[0],),)))
    assert banned.tokens[0] != greedy[0]
    pair = collect(engine, GenerationRequest(PROMPT, 3, bad_words=((greedy[0], greedy[1]),)))
    assert (pair.tokens[0], pair.tokens[1] == greedy[1]) == (greedy[0], False)
    longer = collect(engine, GenerationRequest(PROMPT, 5, end_id=greedy[0], min_tokens=3))
    assert len(longer.tokens) >= 3
    assert greedy[0] not in longer.tokens[:2]


def test_logits_are_those_of_the_new_tokens(engine: Engine, greedy: list[int]) -> None:
    answer = collect(engine, GenerationRequest(PROMPT, 5, draft=tuple(greedy[:4]), return_logits=True))
    assert answer.last.logits is not None
    assert answer.last.logits.argmax(-1).tolist() == greedy[:5]
    assert collect(engine, GenerationRequest(PROMPT, 1)).last.logits is None


def sampled_in_rounds(engine: Engine, sampling: Sampling, draft_length: int, count: int) -> list[int]:
    """Sample `count` tokens, drafting greedily with the same engine."""
    known = list(PROMPT)
    while len(known) < len(PROMPT) + count:
        left = len(PROMPT) + count - len(known)
        length = min(draft_length, left - 1)
        draft = collect(engine, GenerationRequest(tuple(known), length)).tokens if length else []
        known += collect(
            engine, GenerationRequest(tuple(known), len(draft) + 1, draft=tuple(draft), sampling=sampling)
        ).tokens
    return known[len(PROMPT) :]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.9, seed=7),
        Sampling(temperature=1.3, top_k=5, seed=8),
        Sampling(temperature=1.0, top_p=0.8, seed=9, repetition_penalty=1.2),
        Sampling(temperature=1.0, seed=2**63 + 5, presence_penalty=0.4, frequency_penalty=0.3),
    ],
)
def test_a_sampled_answer_does_not_depend_on_the_draft_length(engine: Engine, sampling: Sampling) -> None:
    plain = collect(engine, GenerationRequest(PROMPT, 16, sampling=sampling)).tokens
    assert len(set(plain)) > 3
    for draft_length in (1, 2, 5):
        assert sampled_in_rounds(engine, sampling, draft_length, 16) == plain


def test_requests_run_together_and_get_the_answers_they_get_alone(folder: Path, engine: Engine) -> None:
    prompts = [tuple((index * step + 3) % 300 for index in range(5 + 9 * step)) for step in range(1, 13)]
    alone = [collect(engine, GenerationRequest(prompt, 8)).tokens for prompt in prompts]
    other = open_engine(folder)
    together = [Collected() for _ in prompts]
    for prompt, answer in zip(prompts, together, strict=True):
        other.submit(GenerationRequest(prompt, 8), answer)
    assert [answer.wait().tokens for answer in together] == alone
    assert other.counters.passes < 12 * 8 / 2
    other.close()


def test_a_prompt_longer_than_a_pass_is_split(tmp_path: Path) -> None:
    folder = engine_folder(tmp_path, hidden=64, heads=4, kv_heads=2, build={"max_num_tokens": 16, "max_batch_size": 1})
    engine = open_engine(folder)
    answer = collect(engine, GenerationRequest(PROMPT, 4, draft=(1, 2, 3)))
    assert answer.tokens == reference_greedy(reference(folder), list(PROMPT), len(answer.tokens))
    assert engine.counters.passes == 3
    engine.close()


class SlowModel:
    """Takes `seconds` for a pass; always says token 1. Fails when it sees token 66."""

    vocab_size = 100
    kv_shape = KVShape(layers=1, kv_heads=1, head_dim=2)

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        time.sleep(self.seconds)
        if 66 in batch.tokens.tolist():
            raise RuntimeError("out of memory\nwith a second line")
        batch.commit()
        logits = torch.zeros(batch.logit_rows.shape[0], self.vocab_size)
        logits[:, 1] = 1.0
        return logits


LIMITS = EngineConfig(max_batch_size=2, max_seq_len=500, max_num_tokens=16, max_draft_len=4)


@pytest.fixture
def slow() -> Iterator[Engine]:
    engine = Engine(SlowModel(), LIMITS)
    yield engine
    engine.close()


def test_cancelling_frees_the_place_at_once(slow: Engine) -> None:
    stop = threading.Event()
    running = [Collected(), Collected()]
    for answer in running:
        slow.submit(GenerationRequest((2, 3), 400), answer, stop.is_set)
    waiting = Collected()
    slow.submit(GenerationRequest((4,), 1), waiting)
    while not running[1].updates:
        time.sleep(0.01)
    assert not waiting.updates
    stop.set()
    waiting.wait()
    for answer in running:
        error = answer.wait().last.error
        assert error is not None
        assert error.code == "cancelled"
        assert len(answer.tokens) < 100


def test_a_failing_pass_ends_its_requests_and_nothing_else(slow: Engine) -> None:
    failed = collect(slow, GenerationRequest((66,), 2))
    assert failed.last.error is not None
    assert failed.last.error.code == "engine_failed"
    assert collect(slow, GenerationRequest((5,), 2)).tokens == [1, 1]


def test_a_listener_that_raises_ends_its_request_only(slow: Engine) -> None:
    calls: list[Any] = []

    def gone(update: Any) -> None:
        calls.append(update)
        raise ConnectionError

    slow.submit(GenerationRequest((5,), 50), gone)
    assert collect(slow, GenerationRequest((6,), 3)).tokens == [1, 1, 1]
    assert len(calls) == 1


def test_an_end_id_outside_the_vocabulary_never_comes(slow: Engine) -> None:
    assert collect(slow, GenerationRequest((5,), 3, end_id=4711, min_tokens=2)).tokens == [1, 1, 1]


def test_a_request_whose_choice_fails_ends_alone(slow: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(logits: torch.Tensor, request: GenerationRequest, context: list[int], generated: int) -> list[int]:
        if request.prompt == (5,):
            raise IndexError("index out of range")
        return choose_tokens(logits, request, context, generated)

    monkeypatch.setattr(sequence, "choose_tokens", choose)
    sampling = Sampling(temperature=0.01)
    failed = collect(slow, GenerationRequest((5,), 2, sampling=sampling))
    assert failed.last.error is not None
    assert failed.last.error.code == "engine_failed"
    assert collect(slow, GenerationRequest((6,), 2, sampling=sampling)).tokens == [1, 1]


def test_no_memory_for_one_request_ends_it_alone(slow: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_kv: SequenceKV, _capacity: int, _slot: Slot | None) -> torch.Tensor:
        raise RuntimeError("not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(SequenceKV, "_room", full)
        failed = collect(slow, GenerationRequest((5,), 2))
    assert failed.last.error is not None
    assert "not enough memory" in failed.last.error.message
    assert collect(slow, GenerationRequest((6,), 2)).tokens == [1, 1]


def test_a_client_that_cannot_be_asked_is_gone(slow: Engine) -> None:
    def gone() -> bool:
        raise ConnectionError

    error = collect(slow, GenerationRequest((5,), 50), gone).last.error
    assert error is not None
    assert error.code == "cancelled"
    assert collect(slow, GenerationRequest((6,), 2)).tokens == [1, 1]


def test_a_long_prompt_does_not_hold_up_an_answer(slow: Engine) -> None:
    long, short = Collected(), Collected()
    slow.submit(GenerationRequest(tuple([7] * 320), 1), long)
    slow.submit(GenerationRequest((8,), 5), short)
    short.wait()
    assert not long.updates
    long.wait()


def test_closing_ends_what_runs_and_waits() -> None:
    engine = Engine(SlowModel(), LIMITS)
    answers = [Collected() for _ in range(4)]
    for answer in answers:
        engine.submit(GenerationRequest((2,), 400), answer)
    engine.close()
    for answer in answers:
        error = answer.wait().last.error
        assert error is not None
        assert error.code == "unavailable"
    with pytest.raises(RequestRefused, match="shutting down"):
        engine.submit(GenerationRequest((2,), 1), Collected())


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GenerationRequest((), 1), "input_ids is empty"),
        (GenerationRequest((1,), 0), "request_output_len is 0"),
        (GenerationRequest((1,), 6, draft=(1,) * 5), "5 draft tokens, but this engine was built for at most 4"),
        (GenerationRequest((1,) * 300, 201), "prompt of 300 plus 201 tokens is more than max_seq_len 500"),
        (GenerationRequest((1, 100), 1), r"token id 100 is not in the vocabulary \(0 to 99\)"),
        (GenerationRequest((1, -1), 1), "token id -1 is not in the vocabulary"),
        (GenerationRequest((1,), 2, draft=(100,)), "token id 100"),
    ],
)
def test_refusals(slow: Engine, request_: GenerationRequest, message: str) -> None:
    with pytest.raises(RequestRefused, match=message):
        slow.submit(request_, Collected())
