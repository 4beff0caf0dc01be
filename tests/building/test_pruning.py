"""What may be removed, what may not, and that a running build is never disturbed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.test_inventory import DEAD, converted_checkpoint, tensorrt_engine
from trtspec.building import build_engines
from trtspec.building.built import is_complete
from trtspec.building.inventory import Entry, take_inventory
from trtspec.building.locks import locked
from trtspec.building.pruning import PrunePlan, PruneRules, Removal, prune, prune_plan
from trtspec.building.usage import Usage, find_specs, used_entries

NOBODY = Usage({}, {})


def plan_of(root: Path, usage: Usage = NOBODY, **rules: Any) -> PrunePlan:
    return prune_plan(take_inventory(root), usage, PruneRules(**rules))


def used_by(*paths: Path) -> Usage:
    return Usage(dict.fromkeys(paths, ("trtspec.yaml",)), {})


def removed(plan: PrunePlan) -> list[str]:
    return [removal.entry.path.name for removal in plan.removals]


def test_only_what_nobody_uses_goes(tmp_path: Path) -> None:
    used = tensorrt_engine(tmp_path, "target", "used")
    unused = tensorrt_engine(tmp_path, "target", "unused")
    plan = plan_of(tmp_path, used_by(used))
    assert removed(plan) == ["unused"]
    assert plan.removals[0].reason == "no spec here uses it"
    gone: list[Removal] = []
    assert prune(plan, gone.append) == ()
    assert used.is_dir()
    assert not unused.exists()
    assert [removal.entry.path for removal in gone] == [unused]
    assert [path.name for path in unused.parent.iterdir() if path.is_dir()] == ["used"]


def test_a_damaged_engine_that_a_spec_uses_stays(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "half")
    (folder / "rank0.engine").unlink()
    assert removed(plan_of(tmp_path, used_by(folder))) == []
    assert plan_of(tmp_path).removals[0].reason == "damaged, and no spec here uses it"


def test_doubt_keeps_it(tmp_path: Path) -> None:
    tensorrt_engine(tmp_path, "target", "unsure")
    for name in ("big", None):
        plan = plan_of(tmp_path, Usage({}, {name: "x.yaml cannot be read"}))
        assert removed(plan) == []
        assert plan.kept[0].reason == "whether it is used cannot be told: x.yaml cannot be read"
    assert removed(plan_of(tmp_path, Usage({}, {"other": "y"}))) == ["unsure"]


def test_converted_checkpoints(tmp_path: Path) -> None:
    checkpoint, engine = converted_checkpoint(tmp_path, "ckpt"), tensorrt_engine(tmp_path, "target", "engine")
    usage = used_by(checkpoint, engine)
    assert removed(plan_of(tmp_path, usage)) == []
    plan = plan_of(tmp_path, usage, checkpoints=True)
    assert removed(plan) == ["ckpt"]
    assert plan.removals[0].reason == "only needed to build its engines again"
    (engine / "rank0.engine").unlink()
    assert removed(plan_of(tmp_path, usage, checkpoints=True)) == []
    assert removed(plan_of(tmp_path, used_by(engine))) == ["ckpt"]


def test_leftovers_go_and_fresh_logs_stay(tmp_path: Path) -> None:
    place = tmp_path / "engines" / "big" / "draft"
    for name in (f"a.partial-{DEAD}-x", f"b.partial-{os.getpid()}-x", "c.work"):
        (place / name).mkdir(parents=True)
    (place / "d.failed.log").write_text("fresh")
    (place / "e.failed.log").write_text("old")
    os.utime(place / "e.failed.log", (0, 0))
    plan = plan_of(tmp_path)
    assert removed(plan) == [f"a.partial-{DEAD}-x", "c.work", "e.failed.log"]
    assert {kept.entry.key: kept.reason for kept in plan.kept} == {
        "b": "a running build uses it",
        "d": "it changed too recently",
    }
    assert removed(plan_of(tmp_path, older_than=0.0))[-2:] == ["d.failed.log", "e.failed.log"]
    prune(plan)
    assert sorted(path.name for path in place.iterdir() if not path.name.startswith(".")) == [
        f"b.partial-{os.getpid()}-x",
        "d.failed.log",
    ]


def test_age_and_names(tmp_path: Path) -> None:
    tensorrt_engine(tmp_path, "target", "big-engine")
    tensorrt_engine(tmp_path, "target", "small-engine", name="small")
    assert removed(plan_of(tmp_path, names=frozenset({"small"}))) == ["small-engine"]
    assert removed(plan_of(tmp_path, older_than=3600.0)) == []
    later = max(entry.changed for entry in take_inventory(tmp_path)) + 3601
    plan = prune_plan(take_inventory(tmp_path), NOBODY, PruneRules(older_than=3600.0), now=later)
    assert len(plan.removals) == 2


def test_a_build_that_started_meanwhile_is_left_alone(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "engine")
    plan = plan_of(tmp_path)
    with locked(folder, lambda _holder: None):
        [kept] = prune(plan)
    assert kept.reason.startswith("a running build uses it")
    assert (folder / "rank0.engine").is_file()


def test_an_engine_that_vanished_meanwhile(tmp_path: Path) -> None:
    tensorrt_engine(tmp_path, "target", "engine")
    plan = plan_of(tmp_path)
    prune(plan)
    assert prune(plan) == ()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove anything")
def test_an_engine_of_somebody_else(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "engine")
    folder.parent.chmod(0o500)
    try:
        [kept] = prune(plan_of(tmp_path))
    finally:
        folder.parent.chmod(0o700)
    assert kept.reason


def test_shared_weights_are_not_counted_as_freed(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path)
    baseline, target, _ = build_engines(spec_file)
    entries = take_inventory(tmp_path)
    usage = used_entries(tmp_path, entries, find_specs(tmp_path))
    assert prune_plan(entries, usage, PruneRules()).removals == ()
    users = {entry.path: usage.of(entry) for entry in entries if entry.path != target.path}
    plan = prune_plan(entries, Usage(users, {}), PruneRules())
    weights = (target.path / "model.safetensors").stat().st_size
    [removal] = plan.removals
    assert plan.freed == _size(removal.entry) - weights
    prune(plan)
    assert (baseline.path / "model.safetensors").stat().st_nlink == 1


def _size(entry: Entry) -> int:
    return sum(path.stat().st_size for path in entry.path.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.parametrize("link", ["engines/big/target/key", "engines/big/target", "engines/big"])
def test_what_a_link_leads_to_is_never_removed(tmp_path: Path, link: str) -> None:
    """Somebody keeps engines elsewhere, or links one that other people use."""
    folder = tensorrt_engine(tmp_path, "target", "key")
    place = tmp_path / link
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    plan = plan_of(tmp_path)
    assert removed(plan) == []
    assert plan.kept[0].reason.startswith("a link leads there")
    assert prune(PrunePlan((Removal(plan.kept[0].entry, "planned before"),), ())) != ()
    assert place.is_symlink()
    assert is_complete(folder)


def test_engines_itself_may_be_a_link(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "key")
    (tmp_path / "engines").rename(tmp_path / "disk")
    (tmp_path / "engines").symlink_to("disk")
    assert prune(plan_of(tmp_path)) == ()
    assert not folder.exists()


def test_a_link_inside_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "key")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    (folder / "link").symlink_to(tmp_path / "precious")
    assert prune(plan_of(tmp_path)) == ()
    assert not folder.exists()
    assert (tmp_path / "precious" / "file").read_text() == "kept"


def test_files_from_the_future_can_go(tmp_path: Path) -> None:
    folder = tensorrt_engine(tmp_path, "target", "key")
    os.utime(folder / "rank0.engine", (4e9, 4e9))
    assert removed(plan_of(tmp_path)) == ["key"]
    assert plan_of(tmp_path, older_than=1.0).kept[0].reason == "it changed too recently"
