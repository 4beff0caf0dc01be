"""transformers' own generation: the target alone, and its assisted generation with the same draft."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer

from benchmarks.speculation.pair import Pair, Question
from benchmarks.speculation.samples import Sample, Stopwatch

__all__ = ["Apart", "ByTransformers"]


class Watching(BaseStreamer):  # type: ignore[misc]
    """Stamps what `generate` hands out; the first is the prompt."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch, self.tokens, self.prompt = watch, 0, True

    def put(self, value: torch.Tensor) -> None:
        """New tokens."""
        if self.prompt:
            self.prompt = False
            return
        self.tokens += value.numel()
        self.watch.saw(self.tokens)

    def end(self) -> None:
        """Nothing to do."""


class ByTransformers:
    """The pair as two transformers models on a CPU."""

    def __init__(self, pair: Pair, *, dtype: torch.dtype, draft_length: int) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(pair.target))
        self._models: list[Any] = [
            AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype).eval() for path in (pair.target, pair.draft)
        ]
        self._draft_length = draft_length

    def ask(self, question: Question, max_tokens: int, *, assisted: str = "") -> Sample:
        """One greedy answer; `assisted`: "fixed" (our draft length) or "defaults" (transformers' own heuristics)."""
        target, draft = self._models
        options: dict[str, Any] = {}
        if assisted:
            options["assistant_model"] = draft
            config = draft.generation_config
            fixed = assisted == "fixed"
            config.num_assistant_tokens = self._draft_length if fixed else 20
            config.num_assistant_tokens_schedule = "constant"
            config.assistant_confidence_threshold = 0.0 if fixed else 0.4
        watch = Stopwatch()
        inputs = self._tokenizer(question.text, return_tensors="pt", add_special_tokens=False)
        streamer = Watching(watch)
        with torch.inference_mode():
            ids = target.generate(**inputs, do_sample=False, max_new_tokens=max_tokens, streamer=streamer, **options)
        new = ids[0, inputs["input_ids"].shape[1] :].tolist()
        text = self._tokenizer.decode(new, skip_special_tokens=True)
        name = {"": "transformers", "fixed": "transformers, assisted", "defaults": "transformers, assisted (defaults)"}
        return Sample(name[assisted], question.id, question.category, **watch.times(len(new)), text=text)


class Apart:
    """`ByTransformers` in a process of its own.

    OpenMP's threads wait in another way once one process has more of them than cores: beside our engines, neither would
    be as fast as alone.
    """

    def __init__(self, pair: Pair, threads: int, *, dtype: torch.dtype, draft_length: int) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (pair, threads, dtype, draft_length))

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()

    def ask(self, question: Question, max_tokens: int, *, assisted: str = "") -> Sample:
        """See `ByTransformers.ask`."""
        return self._pool.submit(_ask, question, max_tokens, assisted).result()


_there: list[ByTransformers] = []  # in the other process


def _begin(pair: Pair, threads: int, dtype: torch.dtype, draft_length: int) -> None:
    torch.set_num_threads(threads)
    _there.append(ByTransformers(pair, dtype=dtype, draft_length=draft_length))


def _ask(question: Question, max_tokens: int, assisted: str) -> Sample:
    return _there[0].ask(question, max_tokens, assisted=assisted)
