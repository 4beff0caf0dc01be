from __future__ import annotations

import pytest

from trtspec.errors import UsageError
from trtspec.serving.launch import Mode, choose_start
from trtspec.serving.served import BACKEND, Served, ServedModel


def served(*ranks: int, participants: tuple[tuple[int, ...], ...] = ()) -> Served:
    """Target and draft with engines of so many ranks, and a frontend."""
    names = ("tensorrt_llm", "tensorrt_llm_draft")
    given = participants or ((),) * len(ranks)
    models = [
        ServedModel(name, BACKEND, ranks=count, participants=ids)
        for name, count, ids in zip(names, ranks, given, strict=False)
    ]
    return Served((*models, ServedModel("tensorrt_llm_bls", "python")))


@pytest.mark.parametrize(
    ("models", "mode", "world", "processes"),
    [
        (served(), "direct", 1, 1),
        (served(1), "direct", 1, 1),
        (served(1, 1), "direct", 1, 1),
        (served(4), "leader", 4, 4),
        (served(4, 1), "orchestrator", 1, 6),
        (served(2, 2), "orchestrator", 1, 5),
        (served(1, 1, participants=((2,), (1,))), "orchestrator-no-spawn", 3, 3),
        (served(4, 1, participants=((2, 3, 4, 5), (1,))), "orchestrator-no-spawn", 6, 6),
    ],
)
def test_the_engines_decide(models: Served, mode: Mode, world: int, processes: int) -> None:
    start = choose_start(models)
    assert (start.mode, start.world_size, start.processes) == (mode, world, processes)
    assert choose_start(models, mode, world) == start


def test_drafts_are_loaded_first() -> None:
    assert served(1, 1).load_order == ("tensorrt_llm_draft", "tensorrt_llm", "tensorrt_llm_bls")


@pytest.mark.parametrize(
    ("models", "mode", "world", "message"),
    [
        (served(2), "leader", 1, "leader mode starts 2 ranks for these engines .*--world-size is 1"),
        (served(2), None, 3, "--world-size is 3"),
        (served(2), "direct", None, "direct mode has one process, tensorrt_llm has 2 ranks"),
        (served(4, 1), "leader", None, "engines of one size"),
        (served(4, 1), "orchestrator", 6, "starts 1 rank"),
        (served(1, 1), "orchestrator-no-spawn", None, "tensorrt_llm has 0 participant_ids for 1 rank"),
        (served(1, 1, participants=((1,), (1,))), None, None, "participant_ids are 1, 1; each of 1 to 2"),
        (served(1, 1, participants=((0,), (1,))), None, None, "participant_ids are 0, 1"),
        (served(), "leader", None, "there is none"),
    ],
)
def test_contradictions_are_refused(models: Served, mode: Mode | None, world: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        choose_start(models, mode, world)
    assert caught.value.fix


def test_the_environment_says_the_mode() -> None:
    assert choose_start(served(4)).env == {}
    assert choose_start(served(4, 1)).env["TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES"] == "1"
    ids = ((2,), (1,))
    assert choose_start(served(1, 1, participants=ids)).env["TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES"] == "0"
