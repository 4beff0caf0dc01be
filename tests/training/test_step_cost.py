from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.builders import tiny_checkpoint
from trtspec.checkpoints.draft_vocabulary import write_draft_vocabulary
from trtspec.training.step_cost import StepCosts, best_draft_length, measure_step_costs, predicted_speedup

COSTS = StepCosts({1: 0.030, 3: 0.033, 5: 0.040}, draft=0.002)


def test_the_formula() -> None:
    assert predicted_speedup(COSTS, 2, 1.9) == pytest.approx(0.030 * 1.9 / (2 * 0.002 + 0.033))


def test_the_best_draft_length_weighs_tokens_against_time() -> None:
    assert best_draft_length(COSTS, {2: 1.9, 4: 2.0})[0] == 2
    assert best_draft_length(COSTS, {2: 1.9, 4: 2.9})[0] == 4


def test_passes_of_real_checkpoints_are_timed(tmp_path: Path) -> None:
    target = tiny_checkpoint(tmp_path / "target", hidden=64, layers=2, shards=2)
    draft = tiny_checkpoint(tmp_path / "draft", layers=1)
    write_draft_vocabulary(draft, range(50))
    costs = measure_step_costs(target, draft, (1, 3), ("float16", "auto"), torch.device("cpu"))
    assert sorted(costs.target) == [1, 2, 4]
    assert all(0 < seconds < 60 for seconds in [*costs.target.values(), costs.draft])
    assert set(costs.to_json()["target_ms_by_rows"]) == {"1", "2", "4"}
