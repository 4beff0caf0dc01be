"""Inputs for the rules about engines: what is changed in a right engine, and what must be found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.building.inspection.engines import engine_folder, expected
from trtspec.building.inspection import inspect_engines
from trtspec.rules.registry import Finding
from trtspec.spec import Role

__all__ = ["ALGO", "ENGINE_CASES", "FMHA", "KV", "PLAIN", "EngineCase"]

PLAIN: dict[str, Any] = {"build_config__speculative_decoding_mode": 1, "build_config__max_draft_len": 0}
FMHA = "build_config__plugin_config__use_paged_context_fmha"
KV = "pretrained_config__quantization__kv_cache_quant_algo"
ALGO = "pretrained_config__quantization__quant_algo"
_MAPPING = "pretrained_config__mapping__"


@dataclass(frozen=True)
class EngineCase:
    """A target engine with `changes` in its config.json, held against `asked`: then `rule_id` says `text`.

    `lost` is a file that is taken out of its folder. `beside` is the role of a second engine, a plain one, which then
    has the changes in the target's stead. `also` are the other rules that find something.
    """

    rule_id: str
    text: str
    changes: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    level: str = "error"
    version: str = "1.2.1"
    sm: int | None = None
    lost: str | None = None
    beside: Role | None = None
    also: tuple[str, ...] = ()

    def findings(self, folder: Path) -> tuple[Finding, ...]:
        """What the inspection of the engines finds."""
        manifest = {"sm": self.sm} if self.sm else None
        right: dict[str, Any] = {} if self.beside is None else {**PLAIN, "build_config__max_seq_len": 8192}
        path = engine_folder(folder / "changed", self.version, manifest=manifest, **{**right, **self.changes})
        if self.lost is not None:
            (path / self.lost).unlink()
        if self.beside is None:
            return inspect_engines([(path, expected(**self.asked))])
        asked: dict[str, Any] = {"max_seq_len": 8192, "version": None, **self.asked}
        return inspect_engines([(engine_folder(folder / "target"), expected()), (path, expected(self.beside, **asked))])


ENGINE_CASES = (
    EngineCase("engine-unreadable", "max_seq_len: is '8200'", {"build_config__max_seq_len": "8200"}),
    EngineCase("engine-runtime", "runtime tensorrt_llm, the spec says torch", asked={"runtime": "torch"}),
    EngineCase("engine-version", "built by TensorRT-LLM 1.1.0, 1.2.1 will run it", version="1.1.0"),
    EngineCase("engine-gpu", "for SM 89, it will run on a GPU with SM 90", asked={"sm": 90}, sm=89),
    EngineCase("engine-files", "not there: rank0.engine", lost="rank0.engine"),
    EngineCase(
        "engine-managed-weights", "not there: rank0_managed", {"build_config__plugin_config__manage_weights": True}
    ),
    EngineCase("engine-mode", "speculative mode MEDUSA", {"build_config__speculative_decoding_mode": 4}),
    EngineCase("engine-draft-length", "without draft support (mode NONE, max_draft_len 0)", PLAIN),
    EngineCase("engine-paged-context-fmha", "nothing else in config.json switches it off", {FMHA: False}),
    EngineCase(
        "engine-context-fmha",
        "context FMHA is off in the target engine",
        {FMHA: False, "build_config__plugin_config__context_fmha": False},
        also=("engine-paged-context-fmha",),
    ),
    EngineCase("engine-paged-kv", "is not paged", {"build_config__kv_cache_type": "continuous"}),
    EngineCase("engine-beams", "max_beam_width 4, 1 is needed", {"build_config__max_beam_width": 4}),
    EngineCase(
        "engine-decoder-buffers",
        "17.6 GiB for decoder buffers (2 × 4 bytes × 2048 × 9 × 1 × 128256)",
        {"build_config__max_batch_size": 2048},
        {"given": True},
        "warning",
    ),
    EngineCase("engine-sizes", "max_seq_len 8192, 8200 was asked for", {"build_config__max_seq_len": 8192}),
    EngineCase("engine-sizes", "max_batch_size 2, 32 was asked for", {"build_config__max_batch_size": 2}),
    EngineCase("engine-sizes", "max_num_tokens 9999, 8192 was asked for", {"build_config__max_num_tokens": 9999}),
    EngineCase("engine-dtype", "dtype float16, bfloat16 is expected", {"pretrained_config__dtype": "float16"}),
    EngineCase("engine-logits-dtype", "logits_dtype float16", {"pretrained_config__logits_dtype": "float16"}),
    EngineCase("engine-quantization", "quant_algo FP8, NO_QUANT is expected", {ALGO: "FP8"}),
    EngineCase("engine-kv-quantization", "kv_cache_quant_algo FP8, NO_QUANT is expected", {KV: "FP8"}),
    EngineCase("engine-architecture", "QWenForCausalLM", {"pretrained_config__architecture": "QWenForCausalLM"}),
    EngineCase("engine-mapping", "mapping.tp_size 4", {f"{_MAPPING}tp_size": 4, f"{_MAPPING}world_size": 4}),
    EngineCase("engine-mapping", "contradicts itself: world_size 2", {f"{_MAPPING}world_size": 2}),
    EngineCase(
        "engine-tokens-per-block",
        "tokens_per_block 64, 32 is expected",
        {"build_config__plugin_config__tokens_per_block": 64},
        level="warning",
    ),
    EngineCase(
        "engine-rope-scaling",
        "is null, its checkpoint has llama3 scaling",
        {"pretrained_config__rotary_scaling": None},
    ),
    EngineCase(
        "engine-rope-scaling",
        "by 32.0, its checkpoint by 8.0",
        {"pretrained_config__rotary_scaling": {"factor": 32.0}},
    ),
    EngineCase(
        "engine-vocabulary",
        "ids up to 128255, the target engine has 32000",
        {"pretrained_config__vocab_size": 32000},
    ),
    EngineCase(
        "engine-vocabulary-padded",
        "has 128256 ids, its tokenizer 128000: the rest is padding",
        asked={"tokenizer_width": 128000},
        level="note",
    ),
    EngineCase(
        "engines-vocabulary",
        "the draft engine 128512",
        {"pretrained_config__vocab_size": 128512},
        {"vocab_size": None, "tokenizer_width": 128256},
        "note",
        beside="draft",
        also=("engine-vocabulary-padded",),
    ),
    EngineCase("engines-version", "target 1.2.1, draft 1.1.0", version="1.1.0", beside="draft"),
    EngineCase(
        "engines-limits",
        "takes 4096 tokens, the target 8192",
        {"build_config__max_seq_len": 4096},
        {"max_seq_len": None},
        "warning",
        beside="draft",
    ),
    EngineCase(
        "engines-baseline",
        "dtype float16 and bfloat16",
        {"pretrained_config__dtype": "float16"},
        {"dtype": "float16"},
        beside="baseline",
    ),
)
