"""What a build's request asks of its engine, in the words of the inspection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trtspec.building.inspection.expectation import NO_QUANT, Expectation
from trtspec.checkpoints.config import ModelConfig
from trtspec.spec.names import Role, Runtime

if TYPE_CHECKING:
    from trtspec.building.tensorrt.request import EngineRequest

__all__ = ["expectation_for", "recorded_expectation", "scaling_of"]


def expectation_for(
    request: EngineRequest, *, version: str | None = None, sm: int | None = None, tokenizer_width: int | None = None
) -> Expectation:
    """What the engine that `request` builds must be.

    Sizes are those that config.json will record (draft tokens included). version: of the TensorRT-LLM that builds it;
    sm: of the GPU that will run it; tokenizer_width: ids of the checkpoint's tokenizer, where they have been read.
    """
    written = request.sizes.written
    return Expectation(
        request.role,
        version=version,
        sm=sm,
        architecture=request.architecture,
        dtype=request.dtype,
        logits_dtype=request.logits_dtype,
        quant_algo=request.quant_algo or NO_QUANT,
        kv_cache_quant_algo=request.kv_cache_dtype or NO_QUANT,
        tp=request.tp,
        pp=request.pp,
        vocab_size=request.config.vocab_size,
        tokenizer_width=tokenizer_width,
        max_batch_size=written.max_batch_size,
        max_seq_len=written.max_seq_len,
        max_num_tokens=written.max_num_tokens,
        max_beam_width=written.max_beam_width,
        max_draft_len=written.max_draft_len,
        tokens_per_block=request.sizes.tokens_per_block,
        rotary_scaling=scaling_of(request.config),
        managed_weights=request.fast_build,
    )


def recorded_expectation(role: Role, runtime: Runtime, manifest: Mapping[str, Any]) -> Expectation:
    """What a manifest says that was asked of its engine; without one, what every engine of the role must be."""
    options, versions = _mapping(manifest, "options"), _mapping(manifest, "versions")
    dtype = options.get("dtype")
    names = ("tp", "pp", "max_batch_size", "max_seq_len", "max_num_tokens", "max_draft_len")
    sizes: dict[str, Any] = {name: options[name] for name in names if type(options.get(name)) is int}
    return Expectation(
        role,
        runtime=runtime,
        given=not manifest,
        version=versions.get("tensorrt_llm"),
        dtype=dtype if isinstance(dtype, str) and dtype != "auto" else None,
        **sizes,
    )


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def scaling_of(config: ModelConfig | None) -> Mapping[str, Any] | None:
    """The one scaling of all layers, as config.json has it; None for none, and where kinds of layers differ."""
    if config is None or len(config.rope) != 1 or config.rope[0].kind is None:
        return None
    return {"rope_type": config.rope[0].kind, **config.rope[0].fields}
