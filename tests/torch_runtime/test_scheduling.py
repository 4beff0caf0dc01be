"""Who shares a pass, who waits, who is refused, and the memory for keys and values meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.torch_runtime.engines import CPU, Collected, collect, engine_folder, open_engine
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import Admission, EngineConfig, RuntimeOptions
from trtspec.torch_runtime.engine import Engine
from trtspec.torch_runtime.errors import EngineUnsupported, RequestRefused
from trtspec.torch_runtime.kv import KVShape
from trtspec.torch_runtime.request import GenerationRequest, Sampling

LIMITS = EngineConfig(max_batch_size=4, max_seq_len=512, max_num_tokens=512, max_draft_len=8)


class SteppedModel:
    """Says token 1; a pass waits until the test lets it through, and its rows by sequence are written down."""

    vocab_size = 100
    kv_shape = KVShape(layers=1, kv_heads=1, head_dim=2)

    def __init__(self) -> None:
        self.passes: list[list[int]] = []
        self._go = threading.Semaphore(0)
        self._begun = threading.Semaphore(0)

    def forward(self, batch: PackedBatch) -> torch.Tensor:
        self.passes.append([segment.rows for segment in batch.segments])
        self._begun.release()
        assert self._go.acquire(timeout=60)
        batch.commit()
        logits = torch.zeros(batch.logit_rows.shape[0], self.vocab_size)
        logits[:, 1] = 1.0
        return logits

    def wait_for_a_pass(self) -> None:
        """Returns when a pass stands still in the middle."""
        assert self._begun.acquire(timeout=60)

    def go(self, passes: int = 1) -> None:
        """Let the pass that stands still through, and as many as that makes in all; then the next one stands still."""
        for _ in range(passes):
            self._go.release()
            self.wait_for_a_pass()

    def run(self) -> None:
        """Stand still no more."""
        for _ in range(10_000):
            self._go.release()


Open = Callable[..., tuple[Engine, SteppedModel]]


@pytest.fixture
def stepped(request: pytest.FixtureRequest) -> Open:
    def make(limits: Admission | None = None, config: EngineConfig = LIMITS) -> tuple[Engine, SteppedModel]:
        model = SteppedModel()
        engine = Engine(model, config, limits)

        def end() -> None:
            model.run()
            engine.close()

        request.addfinalizer(end)
        return engine, model

    return make


def submit(engine: Engine, request: GenerationRequest, *, continues: bool = False) -> Collected:
    answer = Collected()
    engine.submit(request, answer, continues=continues)
    return answer


def error_code(answer: Collected) -> str:
    error = answer.wait().last.error
    assert error is not None
    return error.code


def test_prompts_rounds_and_plain_answers_share_passes(stepped: Open) -> None:
    engine, model = stepped()
    submit(engine, GenerationRequest((2,) * 5, 50))
    model.wait_for_a_pass()
    submit(engine, GenerationRequest((3,) * 7, 4, draft=(1, 1, 1)))
    submit(engine, GenerationRequest((4,) * 9, 2, draft=(1,)))
    submit(engine, GenerationRequest((5,) * 11, 50))
    model.go(2)
    assert model.passes[0] == [5]
    # the plain answer's next token beside two rounds with drafts of 3 and 1 and a new prompt, in one pass
    assert sorted(model.passes[1]) == [1, 9 + 1, 7 + 3, 11]
    assert sorted(model.passes[2]) == [1, 1]


def test_a_long_prompt_is_cut_while_answers_wait_and_not_otherwise(stepped: Open) -> None:
    engine, model = stepped()
    submit(engine, GenerationRequest((2,) * 300, 1))
    model.wait_for_a_pass()
    submit(engine, GenerationRequest((3,), 50))
    model.go(2)
    submit(engine, GenerationRequest((4,) * 200, 1))
    submit(engine, GenerationRequest((5,) * 200, 1))
    model.go(6)
    assert model.passes[0] == [256]
    assert sorted(model.passes[1]) == [1, 44]
    # two prompts take turns, so neither holds up the other, and both together take no more than one did
    assert [sorted(rows) for rows in model.passes[3:7]] == [[1, 64]] * 4


def test_the_chunk_of_prompts_can_be_chosen(stepped: Open) -> None:
    engine, model = stepped(Admission(prompt_chunk=20))
    answer = submit(engine, GenerationRequest((2,) * 60, 1, draft=()))
    model.wait_for_a_pass()
    model.run()
    assert answer.wait().tokens == [1]
    assert model.passes == [[20], [20], [20]]


def test_a_draft_longer_than_the_chunk_is_still_judged_at_once(stepped: Open) -> None:
    engine, model = stepped(Admission(prompt_chunk=2))
    answer = submit(engine, GenerationRequest((2,) * 30, 9, draft=(1,) * 8))
    model.wait_for_a_pass()
    model.run()
    assert answer.wait().tokens == [1] * 9
    assert sum(model.passes[-1]) >= 9


def test_who_came_first_starts_first_and_nobody_overtakes(stepped: Open) -> None:
    engine, model = stepped(Admission(kv_tokens=512), LIMITS)
    first = submit(engine, GenerationRequest((2,), 255))
    model.wait_for_a_pass()
    large = submit(engine, GenerationRequest((3,), 500))
    small = submit(engine, GenerationRequest((4,), 1))
    model.go(2)
    assert engine.load.running == 1  # the large one does not fit yet, and the small one behind it waits its turn
    assert (engine.load.waiting, engine.load.waiting_tokens) == (2, 501 + 2)
    model.run()
    assert [len(answer.wait().tokens) for answer in (first, large, small)] == [255, 500, 1]


def test_memory_is_reserved_kept_and_given_up(stepped: Open) -> None:
    engine, model = stepped(Admission(kv_tokens=640))
    answer = submit(engine, GenerationRequest((2,) * 60, 100))
    model.wait_for_a_pass()
    use = engine.load.memory
    assert (use.limit, use.token_bytes) == (640, 1 * 2 * 1 * 2 * 4)
    assert 160 <= use.running <= 320
    model.run()
    answer.wait()
    for start in range(3, 60):
        collect(engine, GenerationRequest((start,) * 60, 10))
        use = engine.load.memory
        assert use.running + use.kept <= use.limit
    assert use.running == 0
    assert use.kept > 320  # finished ones are kept for reuse as far as there is room
    # one that needs nearly everything still starts: what is kept gives way
    assert len(collect(engine, GenerationRequest((99,) * 60, 440)).tokens) == 440


def test_cancelling_gives_the_memory_to_who_waits_for_it(stepped: Open) -> None:
    engine, model = stepped(Admission(kv_tokens=512))
    gone = threading.Event()
    cancelled = Collected()
    engine.submit(GenerationRequest((2,), 500), cancelled, gone.is_set)
    model.wait_for_a_pass()
    waiting = submit(engine, GenerationRequest((3,), 500))
    model.go(3)
    assert not waiting.updates
    gone.set()
    model.go(2)
    assert error_code(cancelled) == "cancelled"
    assert waiting.updates
    assert engine.load.memory.running <= 512


def test_a_waiting_request_that_is_cancelled_leaves_the_line(stepped: Open) -> None:
    engine, model = stepped(Admission(kv_tokens=512, max_waiting=1), EngineConfig(1, 512, 512, 8))
    submit(engine, GenerationRequest((2,), 400))
    model.wait_for_a_pass()
    gone = threading.Event()
    cancelled = Collected()
    engine.submit(GenerationRequest((3,), 4), cancelled, gone.is_set)
    with pytest.raises(RequestRefused) as refused:
        engine.submit(GenerationRequest((4,), 4), Collected())
    assert refused.value.code == "busy"
    gone.set()
    model.go()
    assert error_code(cancelled) == "cancelled"
    submit(engine, GenerationRequest((5,), 4))


def test_a_request_that_would_wait_too_long_is_busy(stepped: Open) -> None:
    engine, model = stepped(Admission(max_waiting=2), EngineConfig(1, 512, 512, 8))
    submit(engine, GenerationRequest((2,), 400))
    model.wait_for_a_pass()
    for token in (3, 4):
        submit(engine, GenerationRequest((token,), 4))
    with pytest.raises(RequestRefused, match=r"2 requests wait already \(max_waiting 2\); try again later") as refused:
        engine.submit(GenerationRequest((5,), 4), Collected())
    assert refused.value.code == "busy"
    begun = submit(engine, GenerationRequest((6,), 4), continues=True)
    model.run()
    assert begun.wait().tokens == [1] * 4


def test_tokens_that_wait_are_limited_too(stepped: Open) -> None:
    engine, model = stepped(Admission(max_waiting_tokens=100), EngineConfig(1, 512, 512, 8))
    submit(engine, GenerationRequest((2,), 400))  # starts at once: it does not wait
    model.wait_for_a_pass()
    submit(engine, GenerationRequest((3,) * 10, 50))
    message = r"61 more do not fit: 60 tokens wait already \(max_waiting_tokens 100\)"
    with pytest.raises(RequestRefused, match=message):
        engine.submit(GenerationRequest((4,) * 11, 50), Collected())
    submit(engine, GenerationRequest((4,) * 10, 30))


def test_nobody_may_wait(stepped: Open) -> None:
    engine, model = stepped(Admission(max_waiting=0), EngineConfig(2, 512, 512, 8))
    for token in (2, 3):
        submit(engine, GenerationRequest((token,), 400))
    model.wait_for_a_pass()
    with pytest.raises(RequestRefused, match="max_waiting 0"):
        engine.submit(GenerationRequest((5,), 4), Collected())


def test_who_waits_for_memory_waits(stepped: Open) -> None:
    engine, model = stepped(Admission(kv_tokens=512, max_waiting=1), EngineConfig(8, 512, 512, 8))
    submit(engine, GenerationRequest((2,), 400))
    model.wait_for_a_pass()
    submit(engine, GenerationRequest((3,), 60))  # fits beside it, before or after it is taken in
    submit(engine, GenerationRequest((4,), 400))  # waits
    with pytest.raises(RequestRefused, match="max_waiting 1") as refused:
        engine.submit(GenerationRequest((5,), 4), Collected())
    assert refused.value.code == "busy"


def test_memory_for_less_than_one_request_is_refused_when_the_engine_opens() -> None:
    with pytest.raises(EngineUnsupported, match="100 tokens of keys and values are not enough") as refused:
        Engine(SteppedModel(), LIMITS, Admission(kv_tokens=100))
    assert refused.value.fix == "set torch.kv_tokens to 512 or more, or a smaller build.max_seq_len"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_folder(tmp_path_factory.mktemp("engine"), hidden=64, heads=4, kv_heads=2, seed=1)


def test_answers_do_not_depend_on_memory_chunks_or_company(folder: Path) -> None:
    """Different lengths, arms, draft lengths and ways of sampling at once, in too little memory for all of them."""
    requests = [
        GenerationRequest(
            tuple((7 * step + index) % 300 for index in range(6 + 11 * step)),
            9,
            draft=tuple(range(step % 4)),
            sampling=Sampling(temperature=0.8, seed=step) if step % 2 else Sampling(),
        )
        for step in range(1, 9)
    ]
    alone = open_engine(folder)
    expected = [collect(alone, request).tokens for request in requests]
    alone.close()
    tight = RuntimeOptions(device=CPU.device, limits=Admission(kv_tokens=320, prompt_chunk=17))
    engine = open_engine(folder, tight)
    answers = [submit(engine, request) for request in requests * 3]
    assert [answer.wait().tokens for answer in answers] == expected * 3
    use = engine.load.memory
    assert use.running + use.kept <= 320
    engine.close()
