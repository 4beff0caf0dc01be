from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.toys import tiny_model, tokenizer_files
from trtspec.training.distil import Distillation, distil
from trtspec.training.generate import GenerationSettings
from trtspec.training.model import DraftShape
from trtspec.training.prompts import make_prompts
from trtspec.training.shards import read_shards
from trtspec.training.train import TrainingSettings


@pytest.fixture
def plan(tmp_path: Path) -> Distillation:
    words = sorted({word for prompt in make_prompts(60) for word in prompt.text.split()})
    target = tmp_path / "target"
    tokenizer_files(target, words)
    tiny_model(len(words) + 3, hidden=64).save_pretrained(str(target))
    return Distillation(
        target=target,
        out=tmp_path / "draft",
        data=tmp_path / "data",
        tokens=500,
        minutes=1,
        prompts=90,
        shape=DraftShape(hidden=64, layers=2, heads=2, kv_heads=2, intermediate=24),
        generation=GenerationSettings(rows=16, max_new_tokens=10),
        training=TrainingSettings(epochs=2, batch_tokens=512, patience=5),
        unseen=[("chat", "Say something kind", 7), ("code", "Print a line", 10)],
    )


def test_from_a_target_to_a_draft_and_its_readme(plan: Distillation) -> None:
    said: list[str] = []
    summary = distil(plan, said.append)
    assert summary.tokens > 0
    assert (plan.out / "model.safetensors").is_file()
    readme = (plan.out / "README.md").read_text()
    assert "held-out prompts" in readme
    assert "load-test prompts" in readme
    unseen = [one for one in summary.measurements if one.prompts == "load-test prompts"]
    assert [one.draft_length for one in unseen] == [3, 4, 5]
    assert set(unseen[0].categories) == {"chat", "code"}
    assert said[0].startswith("0 tokens")


def test_a_second_run_goes_on_from_the_answers_on_disk(plan: Distillation) -> None:
    distil(plan, lambda _: None)
    before = [answer.job.index for answer in read_shards(plan.data)]
    distil(replace(plan, tokens=10**6), lambda _: None)
    after = [answer.job.index for answer in read_shards(plan.data)]
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 90
