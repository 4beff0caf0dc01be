"""What a client may send, read from its tensors; every mistake is one line with a stable code."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from trtspec.triton_models.frontend_deployment import Deployment

__all__ = ["CONTROL_PARAMETERS", "Request", "RequestError", "read_request", "refuse_unknown_parameters"]

Array = npt.NDArray[Any]

# Request parameters that Triton itself or its clients add; anything else is an input name typed wrongly.
CONTROL_PARAMETERS = frozenset(
    {
        "binary_data_output",
        "classification",
        "priority",
        "sequence_end",
        "sequence_id",
        "sequence_start",
        "timeout",
        "triton_enable_empty_final_response",
    }
)

# Inputs of NVIDIA's BLS that are not declared here, and why; anything else undeclared is a typing mistake.
_NO_ADAPTERS = "LoRA adapters are not supported: the draft has none that would fit"
_NO_LOGITS = "logits are not returned"
_ONE_TEXT = "this deployment takes text and gives one text"
_REFUSED = {
    "lora_task_id": _NO_ADAPTERS,
    "lora_weights": _NO_ADAPTERS,
    "lora_config": _NO_ADAPTERS,
    "num_return_sequences": "one answer per request; send the request again with another seed",
    "length_penalty": "only beam search has a length penalty, and speculation has one beam",
    "top_p_min": "top-p decay would depend on how an answer is cut into rounds",
    "top_p_decay": "top-p decay would depend on how an answer is cut into rounds",
    "return_context_logits": _NO_LOGITS,
    "return_generation_logits": _NO_LOGITS,
    "return_log_probs": "the runtime of this deployment gives none",
    "use_draft_logits": "this deployment accepts by tokens",
    "embedding_bias_words": "biases are not supported; bad_words keeps words out",
    "embedding_bias_weights": "biases are not supported; bad_words keeps words out",
    "prompt_embedding_table": _ONE_TEXT,
    "prompt_vocab_size": _ONE_TEXT,
    "prompt_table_extra_id": _ONE_TEXT,
    "decoder_text_input": _ONE_TEXT,
    "image_input": _ONE_TEXT,
    "image_bytes_input": _ONE_TEXT,
    "image_url_input": _ONE_TEXT,
    "video_bytes_input": _ONE_TEXT,
    "guided_decoding_guide_type": "guided decoding is not supported: the draft would not follow the guide",
    "guided_decoding_guide": "guided decoding is not supported: the draft would not follow the guide",
}
_LONGEST_WORD = 1024  # bytes

# Frontend input → the target's input, its type and the smallest value allowed.
_SAMPLING: dict[str, tuple[str, type[np.generic], float]] = {
    "temperature": ("temperature", np.float32, 0.0),
    "top_k": ("runtime_top_k", np.int32, 0),
    "top_p": ("runtime_top_p", np.float32, 0.0),
    "repetition_penalty": ("repetition_penalty", np.float32, 0.0),
    "presence_penalty": ("presence_penalty", np.float32, -math.inf),
    "frequency_penalty": ("frequency_penalty", np.float32, -math.inf),
    "seed": ("seed", np.uint64, 0),
}
# 0 means the likeliest token alone, as any value this small does; TensorRT-LLM refuses 0 itself (samplingConfig.cpp).
_SMALLEST_TOP_P = 1e-6
# Switches → the outputs that an explicit false leaves out.
_SWITCHES = {
    "return_num_input_tokens": ("num_input_tokens",),
    "return_num_output_tokens": ("num_output_tokens",),
    "return_perf_metrics": (
        "total_draft_tokens",
        "total_accepted_draft_tokens",
        "acceptance_rate",
        "num_spec_steps",
        "acceptance_histogram",
        "num_draft_fallbacks",
        "num_lookup_steps",
        "total_lookup_draft_tokens",
        "total_accepted_lookup_draft_tokens",
    ),
}


class RequestError(Exception):
    """A request that cannot be served; the text is `code: message`, one line."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {' '.join(message.split())}")
        self.code = code


@dataclass(frozen=True)
class Request:
    """A request, checked."""

    text: str  # empty when messages are given
    max_tokens: int
    messages: str | None = None  # JSON
    stream: bool = False
    num_draft_tokens: int | None = None  # None: as the deployment's policy says
    stop_words: tuple[str, ...] = ()
    bad_words: tuple[str, ...] = ()
    end_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    min_tokens: int = 0
    sampling: Mapping[str, Array] = field(default_factory=dict)  # the target's input names
    draws: bool = False  # tokens may be drawn at random
    with_prompt: bool = False
    details: bool = False
    log_probs: bool = False
    logits: bool = False  # acceptance by the draft's logits
    left_out: frozenset[str] = frozenset()


def refuse_unknown_parameters(parameters: Mapping[str, Any], inputs: Collection[str]) -> None:
    """RequestError for a request parameter that is no input: Triton makes one of every unknown JSON key."""
    for name in parameters:
        if name in CONTROL_PARAMETERS:
            continue
        if name in _REFUSED:
            raise RequestError("invalid_request", f"{name} is not supported here: {_REFUSED[name]}")
        close = difflib.get_close_matches(name, sorted(inputs), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(inputs))}"
        raise RequestError("invalid_request", f"unknown input {name}; {hint}")


def parse_parameters(text: str) -> Mapping[str, Any]:
    """The request parameters, which Triton hands over as a JSON text (possibly empty)."""
    parameters: Mapping[str, Any] = json.loads(text) if text else {}
    return parameters


def read_request(tensors: Mapping[str, Array], deployment: Deployment) -> Request:
    """The request in `tensors` (input name → array [1, n]); RequestError when a value is out of range."""
    reader = _Reader(tensors)
    if reader.integer("beam_width", 1) != 1:
        raise RequestError("invalid_request", "beam_width must be 1: speculation has one beam")
    text, messages = _prompt(reader, deployment.max_prompt_bytes)
    return Request(
        text=text,
        messages=messages,
        max_tokens=_max_tokens(reader, deployment),
        stream=reader.switch("stream"),
        num_draft_tokens=_draft_length(reader, deployment),
        stop_words=_words(reader, "stop_words", deployment),
        bad_words=_words(reader, "bad_words", deployment),
        end_ids=_end_ids(reader, deployment),
        pad_id=reader.integer("pad_id", -1) if "pad_id" in tensors else None,
        min_tokens=_at_least(0, "min_tokens", reader.integer("min_tokens", 0)),
        sampling=_sampling(reader, deployment),
        draws=_draws(reader),
        with_prompt=not reader.switch("exclude_input_in_output", default=True),
        details=reader.switch("return_token_details"),
        log_probs=reader.switch("return_log_probs"),
        logits=_logits(reader, deployment),
        left_out=frozenset(
            output for name, outputs in _SWITCHES.items() if not reader.switch(name, default=True) for output in outputs
        ),
    )


class _Reader:
    """Values out of tensors that carry one prompt: shape [1] or [1, n]."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        for name, array in tensors.items():
            if array.ndim > 1 and array.shape[0] != 1:
                raise RequestError("invalid_request", f"{name} has batch size {array.shape[0]}; send one prompt each")
        self._tensors = tensors

    def has(self, name: str) -> bool:
        return name in self._tensors

    def scalar(self, name: str) -> Any:
        values = self._tensors[name].reshape(-1)
        if values.size != 1:
            raise RequestError("invalid_request", f"{name} takes one value, got {values.size}")
        return values[0]

    def text(self, name: str) -> str:
        if not self.has(name):
            raise RequestError("invalid_request", f"{name} is required")
        return _utf8(name, self.scalar(name))

    def words(self, name: str) -> tuple[str, ...]:
        values = self._tensors[name].reshape(-1) if self.has(name) else ()
        return tuple(word for word in (_utf8(name, value) for value in values) if word)

    def integer(self, name: str, default: int | None) -> int:
        if self.has(name):
            return int(self.scalar(name))
        if default is None:
            raise RequestError("invalid_request", f"{name} is required")
        return default

    def switch(self, name: str, *, default: bool = False) -> bool:
        return bool(self.scalar(name)) if self.has(name) else default


def _utf8(name: str, value: Any) -> str:
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        raise RequestError("invalid_request", f"{name} is not valid UTF-8") from None


def _at_least(lowest: int, name: str, value: int) -> int:
    if value < lowest:
        raise RequestError("invalid_request", f"{name} must be at least {lowest}, got {value}")
    return value


def _prompt(reader: _Reader, most: int) -> tuple[str, str | None]:
    """text_input and messages, exactly one of which is given."""
    if reader.has("messages") == (reader.has("text_input") and reader.scalar("text_input") not in {b"", ""}):
        if reader.has("messages"):
            raise RequestError("invalid_request", "text_input and messages are both given; send one of them")
        if not reader.has("text_input"):
            raise RequestError("invalid_request", "text_input is required, or messages instead")
    name = "messages" if reader.has("messages") else "text_input"
    size = len(reader.scalar(name))
    if size > most:
        raise RequestError("prompt_too_long", f"{name} has {size} bytes; the limit of this deployment is {most}")
    return ("", reader.text(name)) if name == "messages" else (reader.text(name), None)


def _max_tokens(reader: _Reader, deployment: Deployment) -> int:
    value, most = _at_least(1, "max_tokens", reader.integer("max_tokens", None)), deployment.max_output_tokens
    if most is not None and value > most:
        raise RequestError("invalid_request", f"max_tokens {value} is more than the {most} of this deployment")
    return value


def _words(reader: _Reader, name: str, deployment: Deployment) -> tuple[str, ...]:
    words = reader.words(name)
    if len(words) > deployment.max_words:
        raise RequestError(
            "invalid_request", f"{name} has {len(words)} words; the limit of this deployment is {deployment.max_words}"
        )
    if any(len(word.encode()) > _LONGEST_WORD for word in words):
        raise RequestError("invalid_request", f"{name} has a word of more than {_LONGEST_WORD} bytes")
    return words


def _logits(reader: _Reader, deployment: Deployment) -> bool:
    wanted = reader.switch("use_draft_logits", default=deployment.logits)
    if wanted and not deployment.logits:
        raise RequestError("invalid_request", "use_draft_logits is true, but this deployment accepts by tokens")
    return wanted


def _draft_length(reader: _Reader, deployment: Deployment) -> int | None:
    if not reader.has("num_draft_tokens"):
        return None
    value = _at_least(0, "num_draft_tokens", reader.integer("num_draft_tokens", 0))
    if value and not deployment.drafts:
        raise RequestError("invalid_request", f"num_draft_tokens is {value}, but this deployment has no draft model")
    if value > deployment.max_draft_length:
        limit = f"max_draft_length {deployment.max_draft_length} that the target engine was built with"
        raise RequestError("invalid_request", f"num_draft_tokens {value} is more than the {limit}")
    return value


def _end_ids(reader: _Reader, deployment: Deployment) -> tuple[int, ...]:
    """The deployment's end ids, or the request's own; a negative end_id means: no token ends the answer."""
    if not reader.has("end_id"):
        return deployment.end_ids
    end_id = reader.integer("end_id", -1)
    return (end_id,) if end_id >= 0 else ()


def _draws(reader: _Reader) -> bool:
    """Whether a sampling input is given that lets a token be drawn, and none that takes the likeliest."""
    if reader.has("temperature") and reader.scalar("temperature") == 0:
        return False
    if reader.has("top_k") and reader.scalar("top_k") == 1:
        return False
    return any(reader.has(name) for name in ("temperature", "top_k", "top_p"))


def _sampling_problem(name: str, value: Any, lowest: float) -> str | None:
    """What `value` would have to be; None when it is."""
    if not math.isfinite(value) or value < lowest:
        return "a number" if lowest == -math.inf else f"a number of at least {lowest:g}"
    if name == "top_p" and value > 1:
        return "at most 1"
    return "more than 0" if name == "repetition_penalty" and value == 0 else None


def _sampling(reader: _Reader, deployment: Deployment) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for name, (leaf_name, dtype, lowest) in _SAMPLING.items():
        if not reader.has(name):
            continue
        value = reader.scalar(name)
        if problem := _sampling_problem(name, value, lowest):
            raise RequestError("invalid_request", f"{name} must be {problem}, got {value}")
        if name == "top_p":
            value = max(value, _SMALLEST_TOP_P)
        tensors[deployment.seed_name if name == "seed" else leaf_name] = np.array([[value]], dtype)
    return tensors
