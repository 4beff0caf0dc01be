"""What an engine folder says about itself, and how the runtime was told to run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from trtspec.errors import ArtefactMissing
from trtspec.torch_runtime.linear import Weights

__all__ = ["Admission", "EngineConfig", "RuntimeOptions", "read_engine_config"]


@dataclass(frozen=True)
class EngineConfig:
    """Limits built into an engine (`build_config` of its config.json)."""

    max_batch_size: int
    max_seq_len: int
    max_num_tokens: int
    max_draft_len: int
    dtype: str = "float32"
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Admission:
    """What an engine takes in; None: `kv_tokens` and `prompt_chunk` as the engine chooses, tokens without a limit.

    kv_tokens: tokens whose keys and values may be in memory, of running and of kept sequences together.
    prompt_chunk: prompt tokens in a pass that answers wait for.
    max_waiting, max_waiting_tokens: requests, and tokens of them, that may wait for a place.
    """

    kv_tokens: int | None = None
    prompt_chunk: int | None = None
    max_waiting: int = 1024
    max_waiting_tokens: int | None = None

    @staticmethod
    def from_parameters(given: Mapping[str, str]) -> Admission:
        """Names: `max_tokens_in_paged_kv_cache` (NVIDIA's), `torch_prompt_chunk`, `torch_max_waiting`, `…_tokens`."""
        waiting = _integer(given, "torch_max_waiting")
        return Admission(
            kv_tokens=_integer(given, "max_tokens_in_paged_kv_cache"),
            prompt_chunk=_integer(given, "torch_prompt_chunk"),
            max_waiting=Admission.max_waiting if waiting is None else waiting,
            max_waiting_tokens=_integer(given, "torch_max_waiting_tokens"),
        )


@dataclass(frozen=True)
class RuntimeOptions:
    """How to run an engine; only `weights` changes what it computes beyond the last bits.

    device: "auto" (CUDA when there is one), "cpu", "cuda" or "cuda:1".
    threads: CPU threads of a pass; None: OMP_NUM_THREADS, else all cores, one for a small network.
    exact_rows: a row gets the same bits whatever shares its pass (costs a one-row pass about a tenth).
    weights: on a CPU "exact", or rounded to "float16" or "int8".
    compile: torch.compile for the layers on CUDA.
    confidence_threshold: generation ends behind a token that the model is less sure of; for a draft.
    limits: what the engine takes in.
    """

    device: str = "auto"
    threads: int | None = None
    exact_rows: bool = False
    weights: Weights = "exact"
    compile: bool = False
    confidence_threshold: float = 0.0
    limits: Admission = field(default_factory=Admission)

    @staticmethod
    def from_parameters(parameters: Mapping[str, str]) -> RuntimeOptions:
        """The options in a Triton model's parameters; absent or empty ones keep their default.

        Names: `torch_device`, `torch_threads`, `torch_exact_rows`, `torch_weights`, `torch_compile`,
        `torch_confidence_threshold`, and those of `Admission.from_parameters`. ValueError where one says nothing.
        """
        defaults = RuntimeOptions()
        given = {key: value for key, value in parameters.items() if value}
        return RuntimeOptions(
            device=given.get("torch_device", defaults.device),
            threads=_integer(given, "torch_threads"),
            exact_rows=given.get("torch_exact_rows", "false").lower() == "true",
            weights=_weights(given.get("torch_weights", defaults.weights)),
            compile=given.get("torch_compile", "false").lower() == "true",
            confidence_threshold=float(given.get("torch_confidence_threshold", 0.0)),
            limits=Admission.from_parameters(given),
        )


def _weights(name: str) -> Weights:
    for known in get_args(Weights):
        if name == known:
            found: Weights = known
            return found
    raise ValueError(f"torch_weights is {name!r}, not one of {', '.join(get_args(Weights))}")


def _integer(given: Mapping[str, str], name: str) -> int | None:
    return int(given[name]) if name in given else None


def read_engine_config(folder: Path) -> EngineConfig:
    """The limits of the engine in `folder`; ArtefactMissing when there is none."""
    try:
        data: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        limits, model = data["build_config"], data["pretrained_config"]
        return EngineConfig(
            limits["max_batch_size"],
            limits["max_seq_len"],
            limits["max_num_tokens"],
            limits["max_draft_len"],
            model["dtype"],
            bool(data.get("trust_remote_code", False)),
        )
    except (OSError, json.JSONDecodeError, KeyError) as error:
        raise ArtefactMissing(f"no engine: {error}", where=str(folder), fix="trtspec build SPEC") from None
