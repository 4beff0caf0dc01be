"""What a client may send, read from its tensors; every mistake is one line with a stable code."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CONTROL_PARAMETERS", "Deployment", "Request", "RequestError", "read_request", "refuse_unknown_parameters"]

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
    ),
}


class RequestError(Exception):
    """A request that cannot be served; the text is `code: message`, one line."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {' '.join(message.split())}")
        self.code = code


@dataclass(frozen=True)
class Deployment:
    """What the repository says about this arm: model names, limits, end ids."""

    target_model: str
    draft_model: str  # empty: this arm has no draft
    tokenizer_dir: str
    num_draft_tokens: int
    max_draft_length: int
    end_ids: tuple[int, ...]
    max_seq_len: int
    vocab_size: int
    draft_timeout: float

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Deployment:
        """Read the model parameters of config.pbtxt; KeyError or ValueError when one is missing or no number."""
        return cls(
            target_model=parameters["tensorrt_llm_model_name"],
            draft_model=parameters["tensorrt_llm_draft_model_name"],
            tokenizer_dir=parameters["tokenizer_dir"],
            num_draft_tokens=int(parameters["num_draft_tokens"]),
            max_draft_length=int(parameters["max_draft_length"]),
            end_ids=tuple(int(part) for part in parameters["end_ids"].split(",") if part.strip()),
            max_seq_len=int(parameters["max_seq_len"]),
            vocab_size=int(parameters["vocab_size"]),
            draft_timeout=float(parameters["draft_timeout_seconds"]),
        )


@dataclass(frozen=True)
class Request:
    """A request, checked."""

    text: str
    max_tokens: int
    stream: bool = False
    num_draft_tokens: int = 0
    stop_words: tuple[str, ...] = ()
    bad_words: tuple[str, ...] = ()
    end_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    min_tokens: int = 0
    sampling: Mapping[str, Array] = field(default_factory=dict)  # the target's input names
    with_prompt: bool = False
    details: bool = False
    left_out: frozenset[str] = frozenset()


def refuse_unknown_parameters(parameters: Mapping[str, Any], inputs: Collection[str]) -> None:
    """RequestError for a request parameter that is no input: Triton makes one of every unknown JSON key."""
    for name in parameters:
        if name in CONTROL_PARAMETERS:
            continue
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
    return Request(
        text=reader.text("text_input"),
        max_tokens=_at_least(1, "max_tokens", reader.integer("max_tokens", None)),
        stream=reader.switch("stream"),
        num_draft_tokens=_draft_length(reader.integer("num_draft_tokens", deployment.num_draft_tokens), deployment),
        stop_words=reader.words("stop_words"),
        bad_words=reader.words("bad_words"),
        end_ids=_end_ids(reader, deployment),
        pad_id=reader.integer("pad_id", -1) if "pad_id" in tensors else None,
        min_tokens=_at_least(0, "min_tokens", reader.integer("min_tokens", 0)),
        sampling=_sampling(reader),
        with_prompt=not reader.switch("exclude_input_in_output", default=True),
        details=reader.switch("return_token_details"),
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


def _draft_length(value: int, deployment: Deployment) -> int:
    _at_least(0, "num_draft_tokens", value)
    if value and not deployment.draft_model:
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


def _sampling(reader: _Reader) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for name, (leaf_name, dtype, lowest) in _SAMPLING.items():
        if not reader.has(name):
            continue
        value = reader.scalar(name)
        if not (math.isfinite(value) and value >= lowest):
            raise RequestError("invalid_request", f"{name} must be a number of at least {lowest:g}, got {value}")
        if name == "top_p" and value > 1:
            raise RequestError("invalid_request", f"top_p must be at most 1, got {value}")
        tensors[leaf_name] = np.array([[value]], dtype)
    return tensors
