"""What NVIDIA's Python models (preprocessing, postprocessing, BLS) and our frontend take from each other.

Read in config.pbtxt, model.py and triton_decoder.py of `inflight_batcher_llm`: triton-inference-server/
tensorrtllm_backend v0.19.0 and c2e65b8, NVIDIA/TensorRT-LLM 0c8de69a under triton_backend/all_models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtspec.repository.contract.rows import TYPE_CHOICES
from trtspec.repository.contract.tensors import LEAF_INPUTS, LEAF_OUTPUTS

__all__ = [
    "BLS_CALLS",
    "BLS_NEEDS",
    "FRONTEND_CALLS",
    "FRONTEND_NEEDS",
    "FRONTEND_OPTIONAL",
    "FRONTEND_PARAMETERS",
    "LEAF_TENSORS",
    "POSTPROCESSING",
    "PREPROCESSING",
    "PYTHON_PARAMETERS",
    "RENAMED_PARAMETERS",
    "Needs",
    "Shape",
]

_INT, _TEXT, _FLOAT, _BOOL = "TYPE_INT32", "TYPE_STRING", "TYPE_FP32", "TYPE_BOOL"
PREPROCESSING, POSTPROCESSING = "preprocessing", "postprocessing"  # the stock BLS calls them by these names


@dataclass(frozen=True)
class Shape:
    """Types that a tensor may have, and its dims (-1: any size)."""

    types: tuple[str, ...]
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"{' or '.join(self.types)} [{', '.join(str(size) for size in self.dims)}]"


@dataclass(frozen=True)
class Needs:
    """Tensors that a callee must have for every request: inputs and outputs, with their shapes."""

    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape]


def _leaf(side: str) -> dict[str, Shape]:
    rows = LEAF_INPUTS if side == "input" else LEAF_OUTPUTS
    return {
        row.tensor.name: Shape(TYPE_CHOICES.get(row.tensor.type, (row.tensor.type,)), row.tensor.dims) for row in rows
    }


# side → tensors of NVIDIA's C++ model in any release
LEAF_TENSORS: Mapping[str, Mapping[str, Shape]] = {side: _leaf(side) for side in ("input", "output")}


def _of(side: str, *names: str) -> dict[str, Shape]:
    return {name: LEAF_TENSORS[side][name] for name in names}


def _shapes(type_: str, dims: tuple[int, ...], *names: str) -> dict[str, Shape]:
    return {name: Shape((type_,), dims) for name in names}


_LEAF_OUTPUTS = _of("output", "output_ids", "sequence_length")
_REQUEST = ("input_ids", "input_lengths", "request_output_len", "end_id")
# callee → what NVIDIA's BLS needs of it for every request
BLS_NEEDS: Mapping[str, Needs] = {
    PREPROCESSING: Needs(
        {**_shapes(_TEXT, (1,), "QUERY"), **_shapes(_INT, (1,), "REQUEST_OUTPUT_LEN")},
        {
            **_shapes(_INT, (-1,), "INPUT_ID", "REQUEST_OUTPUT_LEN"),
            **_shapes(_INT, (1,), "REQUEST_INPUT_LEN", "OUT_END_ID", "OUT_PAD_ID"),
            **_shapes(_INT, (2, -1), "STOP_WORDS_IDS", "BAD_WORDS_IDS"),
        },
    ),
    POSTPROCESSING: Needs(
        {**_shapes(_INT, (-1, -1), "TOKENS_BATCH"), **_shapes(_INT, (-1,), "SEQUENCE_LENGTH")},
        _shapes(_TEXT, (-1,), "OUTPUT"),
    ),
    "leaf": Needs(_of("input", *_REQUEST, "pad_id", "stop_words_list", "bad_words_list"), _LEAF_OUTPUTS),
    "target": Needs(_of("input", "draft_input_ids"), {}),
    "draft": Needs({}, {}),
}
# callee → what our frontend needs of it for every request
FRONTEND_NEEDS: Mapping[str, Needs] = {
    "leaf": Needs(_of("input", *_REQUEST, "exclude_input_in_output", "stop_words_list"), _LEAF_OUTPUTS),
    "target": Needs(_of("input", "draft_input_ids"), {}),
    "draft": Needs({}, {}),
}
_SAMPLING = {
    "top_k": "runtime_top_k",
    "top_p": "runtime_top_p",
    **{name: name for name in ("temperature", "repetition_penalty", "presence_penalty", "frequency_penalty")},
    **{name: name for name in ("min_tokens", "seed", "min_length", "random_seed")},
}
# input of NVIDIA's BLS → (callee, input there), sent on when a request has it
BLS_CALLS: Mapping[str, tuple[str, str]] = {
    **{
        name: (PREPROCESSING, name.removesuffix("_input").upper())
        for name in ("image_bytes_input", "image_url_input", "video_bytes_input", "end_id", "pad_id")
    },
    "text_input": (PREPROCESSING, "QUERY"),
    "decoder_text_input": (PREPROCESSING, "DECODER_QUERY"),
    "max_tokens": (PREPROCESSING, "REQUEST_OUTPUT_LEN"),
    "bad_words": (PREPROCESSING, "BAD_WORDS_DICT"),
    "stop_words": (PREPROCESSING, "STOP_WORDS_DICT"),
    "prompt_table_extra_id": (PREPROCESSING, "PROMPT_TABLE_EXTRA_ID"),
    "embedding_bias_words": (PREPROCESSING, "EMBEDDING_BIAS_WORDS"),
    "embedding_bias_weights": (PREPROCESSING, "EMBEDDING_BIAS_WEIGHTS"),
    "length_penalty": ("leaf", "len_penalty"),
    "stream": ("leaf", "streaming"),
    **{name: ("leaf", there) for name, there in _SAMPLING.items()},
    **{
        name: ("leaf", name)
        for name in (
            "exclude_input_in_output", "return_log_probs", "return_context_logits", "return_generation_logits",
            "beam_width", "prompt_embedding_table", "prompt_vocab_size", "lora_task_id", "lora_weights", "lora_config",
            "return_perf_metrics", "return_kv_cache_reuse_stats", "return_num_input_tokens",
            "return_num_output_tokens", "guided_decoding_guide_type", "guided_decoding_guide",
        )
    },
}  # fmt: skip
# input of our frontend → input of both leaves
FRONTEND_CALLS: Mapping[str, tuple[str, str]] = {
    "pad_id": ("leaf", "pad_id"),
    "bad_words": ("leaf", "bad_words_list"),
    "return_log_probs": ("target", "return_log_probs"),
    "use_draft_logits": ("draft", "return_generation_logits"),
    **{name: ("leaf", there) for name, there in _SAMPLING.items()},
}


@dataclass(frozen=True)
class _Python:
    """Parameters of one of NVIDIA's Python models: must: their keys must be there; may: may be missing."""

    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


# kind of model → its parameters; those without a key in config.pbtxt are Triton's, for any Python model
PYTHON_PARAMETERS: Mapping[str, _Python] = {
    "preprocessing": _Python(
        ("tokenizer_dir",),
        (
            "add_special_tokens", "multimodal_model_path", "visual_model_path", "gpt_model_path", "engine_dir",
            "max_num_images", "hf_model_path",
        ),
    ),
    "postprocessing": _Python(("tokenizer_dir",), ("skip_special_tokens",)),
    "bls": _Python(
        (),
        (
            "accumulate_tokens", "tensorrt_llm_model_name", "tensorrt_llm_draft_model_name",
            "multimodal_encoders_name",
        ),
    ),
}  # fmt: skip
FRONTEND_PARAMETERS = (
    "tensorrt_llm_model_name", "tensorrt_llm_draft_model_name", "tokenizer_dir", "num_draft_tokens",
    "max_draft_length", "end_ids", "max_seq_len", "vocab_size", "draft_timeout_seconds",
)  # fmt: skip
# and takes these
FRONTEND_OPTIONAL = (
    "draft_policy", "draft_schedule", "min_draft_length", "draft_off_below", "acceptance", "fast_logits",
    "max_prompt_bytes", "max_output_tokens", "max_words", "request_timeout_seconds", "min_tokens_input", "seed_input",
    "seed_per_call", "draft_sampling", "lookup", "lookup_match", "lookup_length",
)  # fmt: skip
# name in an older release or in a guide → today's (None: there is nothing in its place), and what became of it
RENAMED_PARAMETERS: Mapping[str, tuple[str | None, str]] = {
    "worker_path": ("executor_worker_path", "the backend refuses it"),
    "engine_dir": ("gpt_model_path", "it is the name in fill_template.py, not in config.pbtxt"),
    "batching_strategy": ("gpt_model_type", "it is the name in fill_template.py, not in config.pbtxt"),
    "encoder_engine_dir": ("encoder_model_path", "it is the name in fill_template.py, not in config.pbtxt"),
    "max_kv_cache_length": ("max_attention_window_size", "it was renamed"),
    "max_num_sequences": (None, "it was removed; max_batch_size decides"),
    "return_kv_cache_reuse_stats": (None, "it is an input, not a parameter, called return_perf_metrics since 0.19"),
    "return_perf_metrics": (None, "it is an input of requests, not a parameter"),
}
