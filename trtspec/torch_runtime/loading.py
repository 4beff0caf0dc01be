"""From an engine folder to a running engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.cores import usable_cores
from trtspec.torch_runtime.config import RuntimeOptions, read_engine_config
from trtspec.torch_runtime.engine import Engine, Model
from trtspec.torch_runtime.generic import GenericModel
from trtspec.torch_runtime.llama import LeanModel, LeanOptions, lean_supports

__all__ = ["choose_device", "cpu_threads", "ignored_options", "load_engine", "load_model"]

_MUCH = 64 * 2**20  # bytes of a checkpoint whose passes take several threads


def load_engine(folder: Path, options: RuntimeOptions | None = None) -> Engine:
    """A running engine for the finished engine in `folder`."""
    chosen = options or RuntimeOptions()
    # OpenMP's threads stop spinning for each other once a process has more of them than cores, and a pass then takes
    # 1.6 times as long (libgomp, two cores): this thread must not get any, the engine's own will.
    torch.set_num_threads(1)
    config = read_engine_config(folder)
    model = load_model(folder, chosen)
    return Engine(model, config, chosen.limits, threads=cpu_threads(chosen.threads, folder))


def load_model(folder: Path, options: RuntimeOptions) -> Model:
    """The network in `folder`: the lean form for the Llama family on a CPU, transformers' modules otherwise."""
    from transformers import AutoConfig
    from transformers.utils import logging

    config = read_engine_config(folder)
    device = choose_device(options.device)
    network = folder / "hf"
    transformers_config = AutoConfig.from_pretrained(
        str(network), local_files_only=True, trust_remote_code=config.trust_remote_code
    )
    if device.type == "cpu" and lean_supports(transformers_config):
        ids = read_draft_vocabulary(folder, transformers_config.vocab_size)
        vocabulary = None if ids is None else torch.tensor(ids)
        lean = LeanOptions(config.max_seq_len, options.exact_rows, vocabulary, options.weights)
        return _lean(folder / "model.safetensors", transformers_config, lean)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype = torch.float32 if device.type == "cpu" else getattr(torch, config.dtype)
    return GenericModel.load(network, dtype, device, trust_remote_code=config.trust_remote_code, options=options)


def ignored_options(options: RuntimeOptions) -> list[str]:
    """One sentence for each option that says nothing on this machine's device."""
    if choose_device(options.device).type == "cpu":
        return ["torch.compile is for CUDA; this engine runs on a CPU"] if options.compile else []
    on_cpu = {"weights": options.weights != "exact", "exact_rows": options.exact_rows}
    return [f"torch.{name} is for CPUs; this engine runs on CUDA" for name, given in on_cpu.items() if given]


def cpu_threads(given: int | None, folder: Path) -> int:
    """Threads of a pass of the network in `folder`: `given`, else OMP_NUM_THREADS, else all cores, one for a small one.

    A second thread hardly helps a pass over one row, which waits for memory, but takes a third off one that verifies
    four drafted tokens: with it, verification costs about as much as a step. The pass of a small draft is over
    before threads have met, and the target's threads wait meanwhile.
    """
    if given is not None:
        return given
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    weight = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return 1 if 0 < weight < _MUCH else usable_cores()


def choose_device(name: str) -> torch.device:
    """The device for "auto", "cpu", "cuda" or "cuda:N"."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _lean(file: Path, config: Any, options: LeanOptions) -> LeanModel:
    from safetensors.torch import load_file

    with torch.inference_mode():
        weights = load_file(file)
        return LeanModel(config, weights, options)
