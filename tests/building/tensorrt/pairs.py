"""The pairs whose commands are checked word by word: real configurations, no weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.building.tensorrt.metadata import pair_spec
from trtspec.building.tensorrt.request import EngineRequest, engine_requests
from trtspec.building.tensorrt.tools import Tools
from trtspec.spec import ROLES, SpecFile
from trtspec.toolchain.detect import Toolchain

__all__ = ["PAIRS", "TOOLS", "VERSIONS", "Pair", "requests_of", "toolchain"]

VERSIONS = {"1.0": "1.0.0", "1.1": "1.1.0", "1.2": "1.2.1"}
_EXAMPLES = "/app/examples"


@dataclass(frozen=True)
class Pair:
    """A target and a draft by their names in tests/facts/configs, and what the spec says of them."""

    target: str
    draft: str
    target_options: dict[str, Any] = field(default_factory=dict)
    draft_options: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)

    def spec(self, folder: Path, version: str) -> SpecFile:
        """The spec file in `folder`, for a version of TensorRT-LLM."""
        return pair_spec(
            folder,
            self.target,
            self.draft,
            target_options=self.target_options,
            draft_options=self.draft_options,
            tensorrt_llm={"version": version},
            **self.overrides,
        )


PAIRS: dict[str, Pair] = {
    "llama-3.1-70b-fp8": Pair(
        "Llama-3.1-70B-Instruct",
        "Llama-3.2-1B-Instruct",
        {"dtype": "bfloat16", "quantization": "fp8", "kv_cache_dtype": "fp8", "tp": 4},
        {"dtype": "bfloat16", "tp": 1},
        {
            "speculation": {"draft_length": 5, "max_draft_length": 8},
            "build": {"max_batch_size": 32, "max_seq_len": 8192, "max_num_tokens": 8192},
            "hardware": {"gpu": "H100-80GB-SXM", "count": 4},
        },
    ),
    "qwen2.5-72b": Pair(
        "Qwen2.5-72B-Instruct",
        "Qwen2.5-0.5B-Instruct",
        {"tp": 4},
        {"quantization": "int8_wo"},
        {"build": {"max_batch_size": 16}, "hardware": {"gpu": "H100-80GB-SXM", "count": 4}},
    ),
    "gemma-2-27b": Pair(
        "gemma-2-27b-it",
        "gemma-2-2b-it",
        {"tp": 2},
        {},
        {"speculation": {"draft_length": 3, "max_draft_length": 4}, "build": {"max_batch_size": 4}},
    ),
}

# as inside NVIDIA's image
TOOLS = Tools(
    python="python3",
    trtllm_build="trtllm-build",
    converters={name: f"{_EXAMPLES}/models/core/{name}/convert_checkpoint.py" for name in ("llama", "qwen", "gemma")},
    quantize=f"{_EXAMPLES}/quantization/quantize.py",
    version="1.2.1",
)


def toolchain(minor: str = "1.2") -> Toolchain:
    """A toolchain of a minor release, nothing installed here."""
    return Toolchain(VERSIONS[minor], minor, "spec", None, None, None)


def requests_of(spec_file: SpecFile, minor: str = "1.2") -> dict[str, EngineRequest]:
    """The requests of all roles."""
    return dict(zip(ROLES, engine_requests(spec_file, ROLES, toolchain(minor)), strict=True))
