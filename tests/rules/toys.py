"""A pair of tiny real checkpoints, the changes that break it, and what a check of it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file, save_file

from tests.builders import tiny_checkpoint, toy_spec
from trtspec.rules import CheckResult, check_pair
from trtspec.spec import SpecFile, load_spec


def edit(path: Path, **changes: Any) -> None:
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not ...}))


def edit_spec(spec: SpecFile, section: str, **changes: Any) -> None:
    data = yaml.safe_load(spec.path.read_text())
    data[section] = {**data.get(section, {}), **changes} if changes else {}
    spec.path.write_text(yaml.safe_dump(data))


def edit_tokenizer(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads((folder / "tokenizer.json").read_text())
    change(data)
    (folder / "tokenizer.json").write_text(json.dumps(data))


def rename_token(folder: Path, index: int, text: str) -> None:
    def change(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        old = next(token for token, number in vocab.items() if number == index)
        data["model"]["vocab"] = {(text if token == old else token): number for token, number in vocab.items()}
        data["model"]["merges"] = []

    edit_tokenizer(folder, change)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-64])


def drop_tensor(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def to_half(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    first = next(iter(tensors))
    save_file({**tensors, first: tensors[first].astype(np.float16)}, folder / "model.safetensors")


def with_stray_tensor(folder: Path) -> None:
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, shards=2)
    (folder / "model.safetensors").unlink()
    shard = min(folder.glob("model-*.safetensors"))
    save_file({**load_file(shard), "stray": np.zeros(1, np.float32)}, shard)


def tensor_twice(folder: Path) -> None:
    """The last shard holds a tensor of the first as well, which the index gives to the first."""
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, shards=2)
    (folder / "model.safetensors").unlink()
    first, last = sorted(folder.glob("model-*.safetensors"))
    name, tensor = next(iter(load_file(first).items()))
    save_file({**load_file(last), name: tensor}, last)


def plain_token(folder: Path) -> None:
    """id 1 is a special token in the toy pair."""

    def change(data: dict[str, Any]) -> None:
        next(token for token in data["added_tokens"] if token["id"] == 1)["special"] = False

    edit_tokenizer(folder, change)


def duplicate_id(folder: Path) -> None:
    edit_tokenizer(folder, lambda data: data["model"]["vocab"].update({"twice": 5}))


def other_merges(folder: Path) -> None:
    edit_tokenizer(folder, lambda data: data["model"]["merges"].pop())


def extra_token(folder: Path, text: str = "<tool>") -> None:
    def change(data: dict[str, Any]) -> None:
        token = {**data["added_tokens"][0], "id": len(data["model"]["vocab"]), "content": text}
        data["added_tokens"].append(token)

    edit_tokenizer(folder, change)


def padded(folder: Path, rows: int) -> None:
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, vocab_size=rows)


def writes_bos(folder: Path) -> None:
    template = "{{ bos_token }}{{ messages[0].content }}"
    edit(folder / "tokenizer_config.json", chat_template=template, add_bos_token=True)


def unreadable_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_bytes(b"\xff")


@dataclass(frozen=True)
class Case:
    """A change to the toy pair, and the finding that it must give."""

    change: Callable[[SpecFile], None]
    level: str
    role: str
    says: str = ""
    severity: str = ""  # where it is not the rule's own


def target(spec: SpecFile) -> Path:
    return spec.checkpoint("target")


def draft(spec: SpecFile) -> Path:
    return spec.checkpoint("draft")


def config(spec: SpecFile, **changes: Any) -> None:
    edit(draft(spec) / "config.json", **changes)


def no_ends(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=...)
    edit(folder / "config.json", eos_token_id=...)
    edit(folder / "tokenizer_config.json", eos_token=...)


def ends(spec: SpecFile, of_target: list[int], of_draft: list[int]) -> None:
    for folder, ids in ((target(spec), of_target), (draft(spec), of_draft)):
        no_ends(folder)
        edit(folder / "generation_config.json", eos_token_id=ids)


def checked(folder: Path, change: Callable[[SpecFile], None] = lambda _spec: None) -> CheckResult:
    spec = toy_spec(folder)
    change(spec)
    return check_pair(load_spec(spec.path))


def engine(**sections: Any) -> Callable[[SpecFile], None]:
    """A change to runtime tensorrt_llm on eight H100; sections are merged into the spec, None removes one."""

    def change(spec: SpecFile) -> None:
        data = yaml.safe_load(spec.path.read_text())
        data |= {"runtime": "tensorrt_llm", "hardware": {"gpu": "H100", "count": 8}}
        for name, value in sections.items():
            if value is None:
                data.pop(name, None)
            else:
                data[name] = {**data.get(name, {}), **value}
        spec.path.write_text(yaml.safe_dump(data))

    return change


def both(*changes: Callable[[SpecFile], None]) -> Callable[[SpecFile], None]:
    """All changes, in order."""

    def change(spec: SpecFile) -> None:
        for one in changes:
            one(spec)

    return change


def configured(role: str = "draft", **changes: Any) -> Callable[[SpecFile], None]:
    """A change of a role's config.json."""
    return lambda spec: edit(spec.root / role / "config.json", **changes)


def section(name: str, **changes: Any) -> Callable[[SpecFile], None]:
    """A change of a section of the spec."""
    return lambda spec: edit_spec(spec, name, **changes)
