"""The leaf's tensors (names and types of NVIDIA's `tensorrt_llm` model) to requests and back; numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trtspec.torch_runtime.errors import RequestRefused
from trtspec.torch_runtime.request import GenerationRequest, Sampling, TokenList, Update

__all__ = ["Answer", "LeafRequest", "error_line", "parse_request"]

Array = np.ndarray[Any, np.dtype[Any]]

HONOURED = (
    "input_ids", "input_lengths", "request_output_len", "draft_input_ids", "end_id", "pad_id", "stop_words_list",
    "bad_words_list", "streaming", "exclude_input_in_output", "temperature", "runtime_top_k", "runtime_top_p",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "min_tokens", "seed", "return_generation_logits",
    "return_log_probs", "return_perf_metrics", "beam_width", "num_return_sequences", "draft_logits",
)  # fmt: skip


@dataclass(frozen=True)
class LeafRequest:
    """A request and how its answer is wanted."""

    generation: GenerationRequest
    streaming: bool = False
    exclude_input: bool = False
    perf_metrics: bool = False


def parse_request(tensors: Mapping[str, Array]) -> LeafRequest:
    """The request in `tensors` (name → array with a leading batch dimension of 1).

    RequestRefused names the tensor that is missing, malformed or not supported.
    """
    reader = _Reader(tensors)
    reader.refuse_unsupported()
    generation = GenerationRequest(
        prompt=reader.prompt(),
        max_new_tokens=reader.integer("request_output_len"),
        draft=reader.ids("draft_input_ids"),
        end_id=reader.end_id(),
        stop_words=reader.words("stop_words_list"),
        bad_words=reader.words("bad_words_list"),
        min_tokens=reader.integer("min_tokens", 0),
        sampling=reader.sampling(),
        return_logits=reader.flag("return_generation_logits"),
        return_log_probs=reader.flag("return_log_probs"),
        draft_logits=reader.draft_logits(),
    )
    return LeafRequest(
        generation, reader.flag("streaming"), reader.flag("exclude_input_in_output"), reader.flag("return_perf_metrics")
    )


class _Reader:
    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors

    def refuse_unsupported(self) -> None:
        for name, value in self._tensors.items():
            if name not in HONOURED:
                raise RequestRefused(f"input {name} is not supported by the torch runtime")
            if value.shape[:1] != (1,):
                raise RequestRefused(f"{name} has batch size {value.shape[0] if value.ndim else 0}; send 1 per request")
        for name in ("beam_width", "num_return_sequences"):
            if self.integer(name, 1) != 1:
                raise RequestRefused(f"{name} {self.integer(name)} is not supported by the torch runtime; only 1")

    def prompt(self) -> TokenList:
        ids = self.ids("input_ids")
        length = self.integer("input_lengths", len(ids))
        if not 0 < length <= len(ids):
            raise RequestRefused(f"input_lengths is {length}, but input_ids has {len(ids)} ids")
        return ids[:length]

    def ids(self, name: str) -> TokenList:
        value = self._tensors.get(name)
        return () if value is None else tuple(value.reshape(-1).tolist())

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._tensors.get(name)
        if value is None or value.size == 0:
            if default is None:
                raise RequestRefused(f"input {name} is missing")
            return default
        return int(value.reshape(-1)[0])

    def number(self, name: str, default: float) -> float:
        value = self._tensors.get(name)
        return default if value is None or value.size == 0 else float(value.reshape(-1)[0])

    def flag(self, name: str) -> bool:
        value = self._tensors.get(name)
        return value is not None and value.size > 0 and bool(value.reshape(-1)[0])

    def draft_logits(self) -> Array | None:
        """[n, vocab] of the draft, a row for each drafted token or more."""
        value, drafted = self._tensors.get("draft_logits"), len(self.ids("draft_input_ids"))
        if value is None or value.size == 0:
            return None
        if value.ndim != 3 or value.shape[1] < drafted:
            raise RequestRefused(f"draft_logits has shape {list(value.shape)}; [1, {drafted}, vocab] is expected")
        rows: Array = value[0, :drafted]
        if not (rows.max(-1) < np.inf).all() or not np.isfinite(rows).any(-1).all():
            raise RequestRefused("draft_logits has a row that is no distribution (NaN, infinite or nothing possible)")
        return rows

    def end_id(self) -> int | None:
        end = self.integer("end_id", -1)
        return None if end < 0 else end

    def words(self, name: str) -> tuple[TokenList, ...]:
        """Words of a [1, 2, n] tensor: row 0 all ids in a row, row 1 their end offsets, padded with -1."""
        value = self._tensors.get(name)
        if value is None or value.size == 0:
            return ()
        if value.ndim != 3 or value.shape[1] != 2:
            raise RequestRefused(f"{name} has shape {list(value.shape)}; [1, 2, n] is expected")
        ids, offsets = value[0, 0].tolist(), [offset for offset in value[0, 1].tolist() if offset > 0]
        starts = [0, *offsets[:-1]]
        if offsets != sorted(offsets) or (offsets and offsets[-1] > len(ids)):
            raise RequestRefused(f"{name} has end offsets {offsets} for {len(ids)} ids")
        return tuple(tuple(ids[start:end]) for start, end in zip(starts, offsets, strict=True) if end > start)

    def sampling(self) -> Sampling:
        sampling = Sampling(
            temperature=self.number("temperature", 1.0) if "temperature" in self._tensors else None,
            top_k=self.integer("runtime_top_k", 0),
            top_p=self.number("runtime_top_p", 1.0),
            seed=self.integer("seed", 0),
            repetition_penalty=self.number("repetition_penalty", 1.0),
            presence_penalty=self.number("presence_penalty", 0.0),
            frequency_penalty=self.number("frequency_penalty", 0.0),
        )
        if sampling.temperature is not None and sampling.temperature < 0:
            raise RequestRefused(f"temperature {sampling.temperature} is negative")
        if sampling.top_k < 0 or not 0 <= sampling.top_p <= 1 or sampling.repetition_penalty <= 0:
            raise RequestRefused("runtime_top_k, runtime_top_p or repetition_penalty is out of range")
        return sampling


class Answer:
    """Collects a request's updates into the responses that its client wants."""

    def __init__(self, request: LeafRequest) -> None:
        self._request = request
        self._tokens: list[int] = []
        self._logits: list[Array] = []
        self._log_probs: list[float] = []
        self._sum = 0.0

    def take(self, update: Update) -> dict[str, Array] | None:
        """Output tensors to send now, or None: every update when streaming, all together at the end otherwise."""
        logits = [] if update.logits is None else [update.logits.float().cpu().numpy()]
        self._sum += sum(update.log_probs)
        self._log_probs += update.log_probs
        if self._request.streaming:
            outputs = self._outputs(list(update.tokens), logits, update)
            self._log_probs.clear()
            return outputs
        self._tokens += update.tokens
        self._logits += logits
        if not update.final:
            return None
        prompt = [] if self._request.exclude_input else list(self._request.generation.prompt)
        return self._outputs([*prompt, *self._tokens], self._logits, update)

    def _outputs(self, ids: list[int], logits: list[Array], update: Update) -> dict[str, Array]:
        stats = update.stats
        outputs: dict[str, Array] = {
            "output_ids": np.array([[ids]], dtype=np.int32).reshape(1, 1, -1),
            "sequence_length": np.array([[len(ids)]], dtype=np.int32),
            "num_input_tokens": np.array([[stats.input_tokens]], dtype=np.int32),
            "num_output_tokens": np.array([[stats.output_tokens]], dtype=np.int32),
        }
        if logits:
            outputs["generation_logits"] = np.concatenate(logits)[None, None].astype(np.float32)
        if self._request.generation.return_log_probs:
            outputs["cum_log_probs"] = np.array([[self._sum]], dtype=np.float32)
            outputs["output_log_probs"] = np.array([[self._log_probs]], dtype=np.float32).reshape(1, 1, -1)
        if self._request.perf_metrics:
            rate = stats.accepted / stats.drafted if stats.drafted else 0.0
            outputs["acceptance_rate"] = np.array([[rate]], dtype=np.float32)
            outputs["total_accepted_draft_tokens"] = np.array([[stats.accepted]], dtype=np.int32)
            outputs["total_draft_tokens"] = np.array([[stats.drafted]], dtype=np.int32)
        return outputs


def error_line(error: Exception) -> str:
    """One line "code: text" for a response."""
    code = getattr(error, "code", "internal")
    return f"{code}: {' '.join(str(error).split())}"
