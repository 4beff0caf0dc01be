"""What an engine folder says about itself, and how the runtime was told to run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.errors import ArtefactMissing

__all__ = ["EngineConfig", "RuntimeOptions", "read_engine_config"]


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
class RuntimeOptions:
    """How to run an engine; nothing here changes what it computes beyond the last bits.

    device: "auto" (CUDA when there is one), "cpu", "cuda" or "cuda:1".
    threads: CPU threads of a pass; None: OMP_NUM_THREADS, else half of the cores.
    cache_tokens: tokens of finished sequences whose keys and values are kept for reuse.
    exact_rows: a row gets the same bits whatever shares its pass (costs a one-row pass about a tenth).
    """

    device: str = "auto"
    threads: int | None = None
    cache_tokens: int = 16384
    exact_rows: bool = False

    @staticmethod
    def from_parameters(parameters: Mapping[str, str]) -> RuntimeOptions:
        """The options in a Triton model's parameters; absent or empty ones keep their default.

        Names: `torch_device`, `torch_threads`, `torch_exact_rows`, `max_tokens_in_paged_kv_cache`.
        """
        defaults = RuntimeOptions()
        given = {key: value for key, value in parameters.items() if value}
        threads = given.get("torch_threads")
        return RuntimeOptions(
            device=given.get("torch_device", defaults.device),
            threads=None if threads is None else int(threads),
            cache_tokens=int(given.get("max_tokens_in_paged_kv_cache", defaults.cache_tokens)),
            exact_rows=given.get("torch_exact_rows", "false").lower() == "true",
        )


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
