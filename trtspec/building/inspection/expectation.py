"""What an engine must be, for the request that it was built for or the spec that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trtspec.spec.names import Role, Runtime

__all__ = ["NO_QUANT", "Expectation"]

NO_QUANT = "NO_QUANT"  # expected of weights or KV cache that must not be quantized


@dataclass(frozen=True)
class Expectation:
    """What is asked of an engine; None: not checked.

    role: decides about the speculative mode.
    given: the engine was built elsewhere; sizes may then be larger than asked, and fixes speak of giving another one.
    version, image: of the TensorRT-LLM that will run it.
    quant_algo, kv_cache_quant_algo: as TensorRT-LLM names them; NO_QUANT: none may be used.
    vocab_size: the checkpoint's; tokenizer_width: ids of its tokenizer.
    max_seq_len, max_num_tokens: as config.json records them, draft tokens included.
    draft_length: tokens drafted per round; max_draft_len: the limit asked for at build.
    sm, gpu: of the GPU that will run it. rotary_scaling: the checkpoint's, None when it scales nothing.
    managed_weights: it was built with --fast_build.
    """

    role: Role
    runtime: Runtime = "tensorrt_llm"
    given: bool = False
    version: str | None = None
    image: str | None = None
    architecture: str | None = None
    dtype: str | None = None
    logits_dtype: str | None = None
    quant_algo: str | None = None
    kv_cache_quant_algo: str | None = None
    tp: int | None = None
    pp: int | None = None
    vocab_size: int | None = None
    tokenizer_width: int | None = None
    max_batch_size: int | None = None
    max_seq_len: int | None = None
    max_num_tokens: int | None = None
    max_beam_width: int | None = 1
    max_draft_len: int | None = None
    draft_length: int | None = None
    tokens_per_block: int | None = None
    sm: int | None = None
    gpu: str | None = None
    rotary_scaling: Mapping[str, Any] | None = None
    managed_weights: bool | None = None

    @property
    def speculates(self) -> bool:
        """True for the role whose engine must take draft tokens."""
        return self.role == "target"
