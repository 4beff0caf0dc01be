"""What a pass of target and draft costs in the torch runtime on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["StepCosts", "best_draft_length", "measure_step_costs", "predicted_speedup"]

_CONTEXT = 256
_PASSES = 9


@dataclass(frozen=True)
class StepCosts:
    """Seconds (medians) of a target pass by its rows, and of a draft's pass over one row."""

    target: Mapping[int, float]
    draft: float

    def to_json(self) -> dict[str, Any]:
        """The figures in milliseconds."""
        target = {str(rows): 1000 * seconds for rows, seconds in self.target.items()}
        return {"target_ms_by_rows": target, "draft_ms": 1000 * self.draft}


def predicted_speedup(costs: StepCosts, draft_length: int, mean_length: float) -> float:
    """Tokens per second with the draft over those without, at concurrency 1, prompts and transport left out.

    **Formula:** t(1) · L / (n · d + t(n + 1)): L tokens a round of n draft steps of d seconds and one pass of the
    target over n + 1 rows, against t(1) seconds a token.
    """
    return costs.target[1] * mean_length / (draft_length * costs.draft + costs.target[draft_length + 1])


def best_draft_length(costs: StepCosts, mean_lengths: Mapping[int, float]) -> tuple[int, float]:
    """The draft length with the largest predicted speed-up, and that speed-up."""
    values = {length: predicted_speedup(costs, length, mean) for length, mean in mean_lengths.items()}
    best = max(values, key=lambda length: values[length])
    return best, values[best]


def measure_step_costs(
    target: Path, draft: Path, lengths: Sequence[int], dtypes: tuple[str, str], device: torch.device
) -> StepCosts:
    """Time passes of both checkpoints in turn, with 256 tokens behind them; ``dtypes`` as the spec's for both.

    Taking turns spreads what else the machine does over all of them.
    """
    threads = torch.get_num_threads()
    try:
        with torch.inference_mode():
            large, small = _Timed(target, dtypes[0], device), _Timed(draft, dtypes[1], device)
            rows = [1, *(length + 1 for length in lengths)]
            passes: dict[str, Callable[[], float]] = {str(count): _timing(large, count) for count in rows}
            passes["draft"] = _timing(small, 1)
            taken = {name: [once() for _ in range(2)][:0] for name, once in passes.items()}
            for _ in range(_PASSES):
                for name, once in passes.items():
                    taken[name].append(once())
    finally:
        torch.set_num_threads(threads)
    found = {name: statistics.median(values) for name, values in taken.items()}
    return StepCosts({count: found[str(count)] for count in rows}, found["draft"])


def _timing(timed: _Timed, rows: int) -> Callable[[], float]:
    return lambda: timed.seconds(rows)


class _Timed:
    """A model of the torch runtime with one sequence."""

    def __init__(self, folder: Path, dtype: str, device: torch.device) -> None:
        from trtspec.torch_runtime.kv import SequenceKV
        from trtspec.torch_runtime.loading import cpu_threads

        self._device = device
        self._threads = cpu_threads(None, folder)
        self._model = _runtime_model(folder, dtype, device)
        self._sequence = SequenceKV(self._model.kv_shape)
        self._pass(_CONTEXT)

    def seconds(self, rows: int) -> float:
        """Time of a pass over ``rows`` tokens behind the context."""
        self._sequence.truncate(_CONTEXT)
        torch.set_num_threads(self._threads)
        began = time.perf_counter()
        self._pass(rows)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter() - began

    def _pass(self, rows: int) -> None:
        from trtspec.torch_runtime.attention import PackedBatch

        tokens = [3 + place % 61 for place in range(rows)]
        count = min(rows, 64)
        self._model.forward(PackedBatch.build([(self._sequence, tokens)], [count], self._device))


def _runtime_model(folder: Path, dtype: str, device: torch.device) -> Any:
    """The network of a checkpoint as the torch runtime would run it."""
    from transformers import AutoConfig

    from trtspec.checkpoints import read_checkpoint
    from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
    from trtspec.torch_runtime.generic import GenericModel
    from trtspec.torch_runtime.llama import LeanModel, LeanOptions, lean_supports

    config: Any = AutoConfig.from_pretrained(str(folder), local_files_only=True)
    weights = read_checkpoint(folder).weights
    if device.type == "cpu" and lean_supports(config) and weights.format == "safetensors":
        from safetensors.torch import load_file

        kept = torch.float32 if dtype == "auto" else getattr(torch, dtype)
        tensors = {n: t.to(kept) for file in weights.files for n, t in load_file(folder / file).items()}
        ids = read_draft_vocabulary(folder, config.vocab_size)
        options = LeanOptions(2 * _CONTEXT, draft_vocabulary=None if ids is None else torch.tensor(ids))
        return LeanModel(config, tensors, options)
    fitting = torch.float32 if device.type == "cpu" else torch.bfloat16
    return GenericModel.load(folder, fitting if dtype == "auto" else getattr(torch, dtype), device)
