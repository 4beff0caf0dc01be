from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.known import spec_file
from trtspec.planning.placement import Placement, place
from trtspec.spec import Spec

SIZES = st.sampled_from([1, 2, 3, 4, 8])


FAST_LOGITS: dict[str, Any] = {"speculation": {"acceptance": "logits"}, "serving": {"fast_logits": True}}


def spec_of(**sections: Any) -> Spec:
    return spec_file(**sections).spec


def ranks_of(placement: Placement, role: Any) -> tuple[int, ...]:
    return placement.roles[role].gpus


@given(SIZES, SIZES, SIZES, SIZES, st.integers(1, 16), st.booleans(), st.sampled_from(["tokens", "logits"]))
def test_laws_of_placement(tp: int, pp: int, draft_tp: int, draft_pp: int, count: int, beside: bool, how: str) -> None:
    """Each rank has a GPU of its own within its model, world sizes add up, and too few GPUs are named as a problem."""
    spec = spec_of(target={"tp": tp, "pp": pp}, draft={"tp": draft_tp, "pp": draft_pp}, speculation={"acceptance": how})
    placement = place(spec, count, beside=beside)
    target, draft = tp * pp, draft_tp * draft_pp

    for role, ranks in (("target", target), ("draft", draft), ("baseline", target)):
        gpus = ranks_of(placement, role)
        assert len(gpus) == len(set(gpus)) == ranks
        assert all(gpu < count for gpu in gpus) or placement.problems
    assert bool(placement.problems) == (max(target, draft) > count)

    launch = placement.launch
    if launch.mode == "direct":
        assert (launch.world_size, launch.processes, target, draft) == (1, 1, 1, 1)
    else:
        assert launch.mode == "orchestrator"
        assert launch.processes == 1 + target + draft
        assert launch.world_size == (1 if launch.spawns else launch.processes)
    baseline = placement.launches["baseline"]
    assert (baseline.mode, baseline.world_size) == ("direct" if target == 1 else "leader", target)


@given(SIZES, SIZES)
def test_participants_of_fast_logits_are_disjoint_and_leave_rank_0_out(target: int, draft: int) -> None:
    spec = spec_of(target={"tp": target}, draft={"tp": draft}, **FAST_LOGITS)
    launch = place(spec, 16).launch
    ids = [int(rank) for role in ("draft", "target") for rank in launch.participant_ids[role].split(",")]

    assert ids == list(range(1, 1 + draft + target))
    assert launch.world_size == 1 + draft + target


@pytest.mark.parametrize(
    ("sections", "mode", "world_size", "spawns"),
    [
        ({}, "direct", 1, False),
        ({"target": {"tp": 4}}, "orchestrator", 1, True),
        ({"target": {"tp": 2}, "draft": {"tp": 2}}, "orchestrator", 1, True),
        ({"target": {"pp": 2}}, "orchestrator", 1, True),
        ({"speculation": {"acceptance": "logits"}}, "direct", 1, False),
        ({"serving": {"fast_logits": True}}, "direct", 1, False),
        (FAST_LOGITS, "orchestrator", 3, False),
        ({"target": {"tp": 4}, **FAST_LOGITS}, "orchestrator", 6, False),
    ],
)
def test_launch_modes(sections: dict[str, Any], mode: str, world_size: int, spawns: bool) -> None:
    launch = place(spec_of(**sections), 8).launch
    assert (launch.mode, launch.world_size, launch.spawns) == (mode, world_size, spawns)
    assert launch.why


def test_the_draft_lies_beside_the_targets_first_ranks() -> None:
    placement = place(spec_of(target={"tp": 4}, draft={"tp": 2}), 4)
    assert (ranks_of(placement, "target"), ranks_of(placement, "draft")) == ((0, 1, 2, 3), (0, 1))
    assert placement.shared == (0, 1)
    assert placement.gpu_device_ids == {"target": "0,1,2,3", "draft": "0,1", "baseline": "0,1,2,3"}


def test_apart_the_draft_takes_what_the_target_leaves() -> None:
    placement = place(spec_of(target={"tp": 2}), 4, beside=False)
    assert (ranks_of(placement, "target"), ranks_of(placement, "draft")) == ((0, 1), (2,))
    assert not placement.beside
    assert placement.shared == ()


def test_given_gpus_are_kept_and_the_others_go_round_them() -> None:
    placement = place(spec_of(target={"tp": 2}, draft={"gpus": [0]}), 3)
    assert ranks_of(placement, "draft") == (0,)
    assert ranks_of(placement, "target") == (1, 2)

    both = place(spec_of(target={"tp": 2, "gpus": [3, 1]}, draft={"gpus": [1]}), 4)
    assert both.gpu_device_ids["target"] == "3,1"
    assert both.shared == (1,)


def test_gpus_that_are_not_there() -> None:
    placement = place(spec_of(draft={"gpus": [5]}), 2)
    assert placement.problems == ("draft.gpus names GPU 5; there are 2 GPUs, 0 to 1",)


def test_too_few_gpus() -> None:
    placement = place(spec_of(target={"tp": 4, "pp": 2}), 4)
    assert placement.problems == ("target has 8 ranks (tp 4 × pp 2), there are 4 GPUs",)


def test_the_torch_runtime_uses_one_device() -> None:
    placement = place(spec_of(runtime="torch"), 1)
    assert placement.launch.mode == "direct"
    assert place(spec_of(runtime="torch"), 0).gpus == ()


def test_json_has_what_a_launcher_needs() -> None:
    shown = place(spec_of(target={"tp": 2}, **FAST_LOGITS), 2).to_json()
    assert shown["target"] == {"gpus": [0, 1], "tp": 2, "pp": 1}
    assert shown["launch_mode"] == "orchestrator"
    assert shown["world_size"] == 4
    assert shown["participant_ids"] == {"draft": "1", "target": "2,3"}
    assert shown["gpu_device_ids"]["draft"] == "0"
