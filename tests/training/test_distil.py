from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_checkpoint
from tests.training.toys import prompt_file, toy_plan
from trtspec.checkpoints import read_checkpoint
from trtspec.errors import CheckpointError, UsageError
from trtspec.files import read_json
from trtspec.loadtest.prompts import Prompt, load_prompts
from trtspec.progress import SilentReporter
from trtspec.rules import check_pair
from trtspec.spec import Spec, SpecFile
from trtspec.training.candidates import HELD_OUT
from trtspec.training.distil import Distillation, distil
from trtspec.training.model import DraftShape
from trtspec.training.sources import file_source
from trtspec.training.starts import FromDraft, FromTarget, Scratch
from trtspec.training.train import TrainingSettings

SMALL = Scratch(DraftShape(hidden=32, layers=1, heads=1, kv_heads=1, intermediate=24))


class Noting(SilentReporter):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target whose answers are shared by the tests of this file."""
    return tmp_path_factory.mktemp("distil")


def check_ok(plan: Distillation) -> bool:
    data = {"name": "pair", "target": {"checkpoint": str(plan.target)}, "draft": {"checkpoint": str(plan.out)}}
    return check_pair(SpecFile(plan.out.parent / "trtspec.yaml", Spec.model_validate(data))).ok


def test_from_a_target_to_a_draft_that_check_accepts(folder: Path) -> None:
    plan = toy_plan(folder, further=[Prompt("1", "chat", "Say something kind", 7), Prompt("2", "code", "Print", 9)])
    done = distil(plan, SilentReporter())
    assert check_ok(plan)
    readme, record = (plan.out / "README.md").read_text(), read_json(plan.out / "distill.json")
    assert "held-out prompts" in readme
    assert "load-test prompts" in readme
    assert "the prompts of prompts.jsonl" in readme
    assert record["reproducible"] is True
    assert "seconds" not in str(record)
    sets = {one["prompts"]: one for one in record["acceptance"] if one["draft_length"] == 4}
    assert set(sets["load-test prompts"]["by_category"]) == {"chat", "code"}
    assert len(sets[HELD_OUT]["per_position"]) == 4
    assert done.to_json()["seconds"]["training"] > 0
    # what it was measured with can be asked in a load test, and is not in the draft's folder
    assert done.held_out_file is not None
    assert done.held_out_file.is_relative_to(plan.work)
    assert not list(plan.out.rglob("*.jsonl"))
    measured = {one.messages[0]["content"] for one in plan.source if one.part == "measure"}
    assert {prompt.text for prompt in load_prompts(str(done.held_out_file)).prompts} == measured


def test_a_second_run_answers_and_trains_nothing_again(folder: Path) -> None:
    plan = toy_plan(folder)
    first = distil(plan, SilentReporter())
    before = {path: path.stat().st_mtime_ns for path in plan.work.rglob("*.safetensors")}
    reporter = Noting()
    again = distil(plan, reporter)
    assert {path: path.stat().st_mtime_ns for path in plan.work.rglob("*.safetensors")} == before
    assert again.seconds == first.seconds
    assert not any("loading" in note for note in reporter.notes)


def test_another_shape_trains_on_the_same_answers(folder: Path) -> None:
    distil(toy_plan(folder), SilentReporter())
    reporter = Noting()
    done = distil(toy_plan(folder, starts=(SMALL,), out=folder / "small"), reporter)
    assert done.record["start"] == "1x32/24/1"
    assert not any("loading" in note for note in reporter.notes)


def test_fresh_trains_again_on_the_same_answers(folder: Path) -> None:
    plan = toy_plan(folder)
    distil(plan, SilentReporter())
    states = set((plan.work / "drafts").rglob("step-*"))
    before = {path: path.stat().st_mtime_ns for path in states}
    reporter = Noting()
    distil(replace(plan, fresh=True), reporter)
    assert any(path.stat().st_mtime_ns != before[path] for path in before)
    assert not any("loading" in note for note in reporter.notes)


def test_layers_of_the_target_make_a_draft(folder: Path) -> None:
    plan = toy_plan(folder, starts=(FromTarget(2),), out=folder / "taken")
    done = distil(plan, SilentReporter())
    assert check_ok(plan)
    embedding, whole = 320 * 64, read_checkpoint(plan.target).weights.parameters
    assert done.record["parameters"] - embedding < 0.7 * (whole - embedding)
    assert read_json(plan.out / "config.json")["num_hidden_layers"] == 2


def test_a_draft_is_tuned_further(folder: Path) -> None:
    plan = toy_plan(folder, starts=(FromTarget(2),), out=folder / "taken")
    distil(plan, SilentReporter())
    tuned = distil(replace(plan, starts=(FromDraft(plan.out),), out=folder / "tuned"), SilentReporter())
    evaluations = tuned.record["training"]["evaluations"]
    assert evaluations[0]["match"] > 0
    assert check_ok(replace(plan, out=folder / "tuned"))


def test_several_shapes_are_compared_by_predicted_speedup(folder: Path) -> None:
    plan = toy_plan(folder, starts=(SMALL, FromTarget(1)), out=folder / "tried", proposed=20)
    done = distil(plan, SilentReporter())
    assert [one.name for one in done.candidates] == ["1x32/24/1", "target:1"]
    (chosen,) = [one for one in done.candidates if one.chosen]
    assert chosen.speedup == max(one.speedup for one in done.candidates)
    assert done.record["reproducible"] is False
    assert f"| **{chosen.name}** |" in (plan.out / "README.md").read_text()
    assert "proposing 20 tokens" in (plan.out / "README.md").read_text()
    again = distil(plan, SilentReporter())
    assert [one.speedup for one in again.candidates] == [one.speedup for one in done.candidates]


def test_a_time_limit_is_kept_and_said(folder: Path) -> None:
    settings = TrainingSettings(epochs=100_000, batch_tokens=256, patience=10**9)
    plan = toy_plan(folder, out=folder / "timed", seconds=0.5, training=settings)
    done = distil(plan, SilentReporter())
    assert done.chosen.outcome.reason == "its time was up"
    assert done.record["reproducible"] is False
    assert "does not give the same bytes again" in (plan.out / "README.md").read_text()


def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path)
    with pytest.raises(CheckpointError, match="nowhere"):
        distil(replace(plan, target=tmp_path / "nowhere"), SilentReporter())


def test_a_folder_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    mine = tiny_checkpoint(tmp_path / "mine")
    with pytest.raises(UsageError, match="was not made by distill"):
        distil(toy_plan(tmp_path, out=mine), SilentReporter())
    assert (mine / "model.safetensors").is_file()


def test_too_few_answers_say_what_is_missing(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path, longest_prompt=9)
    with pytest.raises(UsageError, match="too few answers: 0 to train on"):
        distil(plan, SilentReporter())


def test_answers_that_do_not_fit_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path)
    long = replace(plan, generation=replace(plan.generation, max_new_tokens=5000))
    with pytest.raises(UsageError, match="do not fit into the target's 512") as caught:
        distil(long, SilentReporter())
    assert caught.value.fix == "--max-new-tokens 256"


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(UsageError, match="no CUDA device"):
        distil(toy_plan(tmp_path, device="cuda"), SilentReporter())


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = toy_plan(tmp_path)
    real, room = os.fsync, 2  # the hashes and the answers fit

    def full(descriptor: int) -> Any:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            distil(plan, SilentReporter())
    assert caught.value.filename is not None
    assert not plan.out.exists()
    assert list((plan.work / "answers").rglob("shard-*"))
    reporter = Noting()
    distil(plan, reporter)
    assert plan.out.exists()
    assert not any("loading" in note for note in reporter.notes)


def test_a_prompt_given_twice_is_in_one_part_only(tmp_path: Path) -> None:
    path = prompt_file(tmp_path / "double.jsonl", 20)
    path.write_text(path.read_text() * 2)
    plan = toy_plan(tmp_path, source=file_source(path, seed=0))
    done = distil(plan, SilentReporter())
    assert done.record["data"]["answers"] == 15


def test_a_draft_length_of_its_own_is_measured(folder: Path) -> None:
    training = replace(toy_plan(folder).training, draft_length=10)
    done = distil(toy_plan(folder, training=training, out=folder / "long"), SilentReporter())
    assert {one.draft_length for one in done.facts.measurements} == {9, 10, 11}
    assert "| 10 |" in (folder / "long" / "README.md").read_text()


def test_shapes_are_chosen_on_the_prompts_that_stop_the_training(folder: Path) -> None:
    """What is measured with decides nothing: other acceptance there leaves the choice as it is."""
    plan = toy_plan(folder, starts=(SMALL, FromTarget(1)), out=folder / "tried-again")
    done = distil(plan, SilentReporter())
    again = replace(done.chosen, measurements=())
    assert again.prediction == done.chosen.prediction
    assert replace(again, deciding={}).prediction[0] == 1
    for path in (plan.work / "drafts").rglob("costs.json"):
        path.write_text("[1]")  # made again
    assert len(distil(plan, SilentReporter()).candidates) == 2
    assert "acceptance on the\nprompts that stopped the training" in (plan.out / "README.md").read_text()


def test_a_run_with_a_time_limit_goes_on_with_all_of_its_answers(tmp_path: Path) -> None:
    many = file_source(prompt_file(tmp_path / "many.jsonl", 300), seed=0)
    settings = TrainingSettings(epochs=2, batch_tokens=256, patience=10**9)
    plan = toy_plan(tmp_path, source=many, seconds=1000.0, training=settings)
    first = distil(plan, SilentReporter())
    shards = sorted((plan.work / "answers").rglob("shard-*"))
    assert len(shards) == 3
    (shards[0].parent / "seconds").write_text("900.0\n")  # its time for answers is up
    shutil.rmtree(plan.out)
    states = set((plan.work / "drafts").iterdir())
    again = distil(plan, SilentReporter())
    assert again.record == first.record
    assert set((plan.work / "drafts").iterdir()) == states
    shards[-1].unlink()
    noting = Noting()
    third = distil(plan, noting)
    assert third.record["data"]["answers"] < first.record["data"]["answers"]
    assert any("the time for answers gave" in note for note in noting.notes)
    assert not shards[-1].exists()


def test_answers_that_took_longer_leave_a_training_its_time(tmp_path: Path) -> None:
    plan = toy_plan(tmp_path)
    distil(plan, SilentReporter())
    (shard,) = (plan.work / "answers").rglob("shard-*")
    (shard.parent / "seconds").write_text("5000.0\n")
    settings = TrainingSettings(epochs=2, batch_tokens=256)
    done = distil(replace(plan, seconds=1000.0, training=settings), SilentReporter())
    assert done.chosen.outcome.reason == "all planned steps were done"


@pytest.mark.parametrize(("out", "work"), [("both", "both"), ("outer", "outer/work")])
def test_a_draft_never_takes_the_place_of_the_work_folder(tmp_path: Path, out: str, work: str) -> None:
    plan = toy_plan(tmp_path, out=tmp_path / out, work=tmp_path / work)
    with pytest.raises(UsageError, match="the work folder"):
        distil(plan, SilentReporter())


def test_a_draft_never_takes_the_place_of_what_it_is_made_of(folder: Path) -> None:
    plan = toy_plan(folder, starts=(FromTarget(2),), out=folder / "taken")
    distil(plan, SilentReporter())
    with pytest.raises(UsageError, match="the model of --from"):
        distil(replace(plan, starts=(FromDraft(plan.out),)), SilentReporter())
    with pytest.raises(UsageError, match="the target lies there"):
        distil(replace(plan, target=plan.out), SilentReporter())


def test_further_prompts_that_were_trained_on_or_do_not_fit_are_left_out(folder: Path) -> None:
    known = [Prompt(str(place), "a", f"fox {place} jumps", 5) for place in range(40)]
    long = Prompt("long", "a", "word " * 600, 5)
    noting = Noting()
    plan = toy_plan(folder, further=[*known, long, Prompt("new", "a", "Something new", 5)], out=folder / "apart")
    done = distil(plan, noting)
    (line,) = {one.answers for one in done.facts.measurements if one.prompts == "load-test prompts"}
    held_out = 10  # of forty; five of them stop the training
    assert line == 1 + held_out - 5
    assert any("are not measured with: 35 the training has seen, 1 are too long" in note for note in noting.notes)
    noting = Noting()
    none = distil(replace(plan, further=[long], further_name="prompts of mine.jsonl"), noting)
    assert all(one.prompts.startswith(HELD_OUT) for one in none.facts.measurements)
    assert any("1 prompts of mine.jsonl are not measured with" in note for note in noting.notes)


def test_prompts_beyond_the_targets_rows_are_left_out(tmp_path: Path) -> None:
    tiny_checkpoint(tmp_path / "target", hidden=64, layers=3, heads=2, kv_heads=2, vocab_size=316)
    rows = [{"prompt": f"{'fox jumps' if place % 2 else 'z'}{place}", "category": "a"} for place in range(80)]
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = toy_plan(tmp_path, source=file_source(path, seed=0))
    done = distil(plan, SilentReporter())
    assert 20 < done.record["data"]["answers"] < 40  # of the eighty, forty have no token 316
    shutil.rmtree(plan.target)
    tiny_checkpoint(plan.target, hidden=64, layers=3, heads=2, kv_heads=2, vocab_size=20)
    with pytest.raises(UsageError, match="tokens that the target has no row for"):
        distil(plan, SilentReporter())


def test_what_a_kill_left_half_written_is_removed(folder: Path) -> None:
    plan = toy_plan(folder)
    distil(plan, SilentReporter())
    shard = next((plan.work / "answers").rglob("shard-*"))
    state = next((plan.work / "drafts").rglob("step-*"))
    left = [path.with_name(f"{path.name}.partial-999999999-abc") for path in (shard, state)]
    for path in left:
        path.write_bytes(b"half")
    distil(plan, SilentReporter())
    assert not any(path.exists() for path in left)


def test_a_draft_in_bfloat16_stays_in_it(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    plan = toy_plan(folder, starts=(FromTarget(1),), out=folder / "one")
    distil(plan, SilentReporter())
    wide = AutoModelForCausalLM.from_pretrained(str(plan.out), dtype=torch.bfloat16)
    shutil.copytree(plan.out, folder / "wide")
    wide.save_pretrained(str(folder / "wide"))
    tuned = replace(plan, starts=(FromDraft(folder / "wide"),), out=folder / "wide-tuned")
    done = distil(tuned, SilentReporter())
    assert set(read_checkpoint(tuned.out).weights.bytes_by_dtype) == {"BF16"}
    assert done.facts.dtype == "bfloat16"
    assert "and that of wide, which it started from" in (tuned.out / "README.md").read_text()
