"""The tensors of the generated models: NVIDIA's names and types where NVIDIA has them, our own additions marked.

Every input listed here changes what comes back (a test sends each); what a runtime does not support is not declared,
so that Triton refuses it by name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FRONTEND_INPUTS",
    "FRONTEND_OUTPUTS",
    "LEAF_INPUTS",
    "LEAF_OUTPUTS",
    "LOGITS_INPUTS",
    "LOOKUP_OUTPUTS",
    "Tensor",
]


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model: protobuf type name, shape without the batch dimension, whether a request may omit it.

    own: it is not NVIDIA's. ragged: requests of a batch may differ in its length. scalar: the backend sees it without
    its dimension (reshape to []), clients send it as declared.
    """

    name: str
    type: str
    dims: tuple[int, ...] = (1,)
    optional: bool = False
    own: bool = False
    ragged: bool = False
    scalar: bool = False


def _optional(type_: str, *names: str, dims: tuple[int, ...] = (1,)) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, type_, dims, optional=True) for name in names)


LEAF_INPUTS: tuple[Tensor, ...] = (
    Tensor("input_ids", "TYPE_INT32", (-1,), optional=True),
    Tensor("input_lengths", "TYPE_INT32"),
    Tensor("request_output_len", "TYPE_INT32"),
    *_optional("TYPE_INT32", "draft_input_ids", dims=(-1,)),
    *_optional("TYPE_FP32", "draft_logits", dims=(-1, -1)),
    *_optional("TYPE_INT32", "end_id", "pad_id"),
    *_optional("TYPE_INT32", "stop_words_list", "bad_words_list", dims=(2, -1)),
    *_optional("TYPE_BOOL", "stop", "streaming", "exclude_input_in_output"),
    *_optional("TYPE_FP32", "temperature"),
    *_optional("TYPE_INT32", "runtime_top_k"),
    *_optional("TYPE_FP32", "runtime_top_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *_optional("TYPE_INT32", "min_tokens"),
    *_optional("TYPE_UINT64", "seed"),
    *_optional("TYPE_BOOL", "return_log_probs", "return_generation_logits", "return_perf_metrics"),
)

LEAF_OUTPUTS: tuple[Tensor, ...] = (
    Tensor("output_ids", "TYPE_INT32", (-1, -1)),
    Tensor("sequence_length", "TYPE_INT32", (-1,)),
    Tensor("cum_log_probs", "TYPE_FP32", (-1,)),
    Tensor("output_log_probs", "TYPE_FP32", (-1, -1)),
    Tensor("generation_logits", "TYPE_FP32", (-1, -1, -1)),
    Tensor("acceptance_rate", "TYPE_FP32"),
    Tensor("total_accepted_draft_tokens", "TYPE_INT32"),
    Tensor("total_draft_tokens", "TYPE_INT32"),
    Tensor("num_input_tokens", "TYPE_INT32"),
    Tensor("num_output_tokens", "TYPE_INT32"),
)

FRONTEND_INPUTS: tuple[Tensor, ...] = (
    # optional beside messages; one of the two is required
    Tensor("text_input", "TYPE_STRING", optional=True),
    Tensor("messages", "TYPE_STRING", optional=True, own=True),
    Tensor("max_tokens", "TYPE_INT32"),
    *_optional("TYPE_BOOL", "stream"),
    *_optional("TYPE_INT32", "num_draft_tokens"),
    *_optional("TYPE_STRING", "stop_words", "bad_words", dims=(-1,)),
    *_optional("TYPE_INT32", "end_id", "pad_id"),
    *_optional("TYPE_FP32", "temperature"),
    *_optional("TYPE_INT32", "top_k"),
    *_optional("TYPE_FP32", "top_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *_optional("TYPE_INT32", "min_tokens", "beam_width"),
    *_optional("TYPE_UINT64", "seed"),
    *_optional("TYPE_BOOL", "return_log_probs"),
    *_optional("TYPE_BOOL", "exclude_input_in_output", "return_num_input_tokens", "return_num_output_tokens"),
    *_optional("TYPE_BOOL", "return_perf_metrics"),
    Tensor("return_token_details", "TYPE_BOOL", optional=True, own=True),
)

# declared where tokens are accepted by the draft's logits
LOGITS_INPUTS: tuple[Tensor, ...] = _optional("TYPE_BOOL", "use_draft_logits")

FRONTEND_OUTPUTS: tuple[Tensor, ...] = (
    Tensor("text_output", "TYPE_STRING", (-1,)),
    Tensor("num_input_tokens", "TYPE_INT32"),
    Tensor("num_output_tokens", "TYPE_INT32"),
    Tensor("total_draft_tokens", "TYPE_INT32"),
    Tensor("total_accepted_draft_tokens", "TYPE_INT32"),
    Tensor("acceptance_rate", "TYPE_FP32"),
    Tensor("cum_log_probs", "TYPE_FP32", (-1,)),
    Tensor("output_log_probs", "TYPE_FP32", (-1, -1)),
    Tensor("num_spec_steps", "TYPE_INT32", own=True),
    Tensor("acceptance_histogram", "TYPE_INT32", (-1,), own=True),
    Tensor("num_draft_fallbacks", "TYPE_INT32", own=True),
    Tensor("finish_reason", "TYPE_STRING", own=True),
    Tensor("token_ids", "TYPE_INT32", (-1,), own=True),
    Tensor("token_texts", "TYPE_STRING", (-1,), own=True),
    Tensor("token_sources", "TYPE_INT32", (-1,), own=True),
    Tensor("prompt_token_ids", "TYPE_INT32", (-1,), own=True),
)

# declared where drafts are looked up in the text: these of the counts above
LOOKUP_OUTPUTS: tuple[Tensor, ...] = (
    Tensor("num_lookup_steps", "TYPE_INT32", own=True),
    Tensor("total_lookup_draft_tokens", "TYPE_INT32", own=True),
    Tensor("total_accepted_lookup_draft_tokens", "TYPE_INT32", own=True),
)
