"""Tiny engines and a plain reference for the runtime's tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.builders import tiny_checkpoint
from trtspec.building import build_engines
from trtspec.spec import load_spec
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.engine import Engine
from trtspec.torch_runtime.loading import load_engine
from trtspec.torch_runtime.request import GenerationRequest, Update

__all__ = [
    "CPU",
    "Collected",
    "build_checkpoint",
    "collect",
    "engine_folder",
    "open_engine",
    "reference",
    "reference_greedy",
]

CPU = RuntimeOptions(device="cpu")


def engine_folder(
    folder: Path, *, build: dict[str, int] | None = None, max_draft_length: int = 8, **model: Any
) -> Path:
    """A built target engine of a tiny Llama; its checkpoint is `folder`/model."""
    tiny_checkpoint(folder / "model", **model)
    return build_checkpoint(folder, build=build, max_draft_length=max_draft_length)


def build_checkpoint(folder: Path, *, build: dict[str, int] | None = None, max_draft_length: int = 8) -> Path:
    """The built target engine of the checkpoint `folder`/model."""
    data = {
        "name": "tiny",
        "target": {"checkpoint": "model"},
        "draft": {"checkpoint": "model"},
        "speculation": {"draft_length": 4, "max_draft_length": max_draft_length},
        "build": {"max_seq_len": 256, "max_num_tokens": 128, **(build or {})},
    }
    (folder / "trtspec.yaml").write_text(yaml.safe_dump(data))
    [engine] = build_engines(load_spec(folder / "trtspec.yaml"), ["target"])
    return engine.path


def open_engine(folder: Path, options: RuntimeOptions = CPU) -> Engine:
    return load_engine(folder, options)


def reference(folder: Path) -> Any:
    """The same checkpoint as a plain transformers model."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(folder / "hf"), dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


def reference_greedy(model: Any, prompt: list[int], count: int) -> list[int]:
    """Greedy continuation without any cache."""
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            ids.append(int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


class Collected:
    """Updates of one request, in order, and a way to wait for the last."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self._done = threading.Event()

    def __call__(self, update: Update) -> None:
        self.updates.append(update)
        if update.final:
            self._done.set()

    def wait(self) -> Collected:
        assert self._done.wait(60), "no final update"
        return self

    @property
    def tokens(self) -> list[int]:
        return [token for update in self.updates for token in update.tokens]

    @property
    def last(self) -> Update:
        return self.updates[-1]


def collect(engine: Engine, request: GenerationRequest, cancelled: Callable[[], bool] = lambda: False) -> Collected:
    """Run one request to its end."""
    collected = Collected()
    engine.submit(request, collected, cancelled)
    return collected.wait()
