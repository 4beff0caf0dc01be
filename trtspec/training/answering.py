"""The target as the one who answers: a lean pass for Llamas on a CPU, transformers' modules for everything else."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trtspec.errors import CheckpointError
from trtspec.training.decoder import Decoder, decoder_supports
from trtspec.training.generate import Answer, GenerationSettings, Job, Row, best_tokens, generate

__all__ = ["Answerer", "HuggingFaceAnswerer", "LeanAnswerer", "load_answerer", "load_network"]


class Answerer(Protocol):
    """Answers prompts, and scores answers that are there already."""

    def answer(self, jobs: Sequence[Job], settings: GenerationSettings) -> list[Answer]:
        """The answers in the order of the jobs; they depend on the jobs and the settings only."""
        ...

    def score(self, job: Job, tokens: NDArray[np.int64], top_k: int) -> Answer:
        """``tokens`` as the job's answer, with the target's distribution at every position."""
        ...


def load_answerer(folder: Path, device: torch.device, *, trust_remote_code: bool = False) -> Answerer:
    """The target in a checkpoint folder; CheckpointError when transformers cannot load it."""
    network = load_network(folder, device, trust_remote_code=trust_remote_code)
    if device.type == "cpu" and decoder_supports(network.config):
        return LeanAnswerer(Decoder(network))
    return HuggingFaceAnswerer(network, device)


def load_network(folder: Path, device: torch.device, *, trust_remote_code: bool = False) -> Any:
    """A causal language model for inference: float32 on a CPU, in its own precision elsewhere."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype: Any = torch.float32 if device.type == "cpu" else "auto"
    try:
        network: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        message = f"transformers cannot load it: {said}"
        raise CheckpointError(message, where=str(folder), fix="trtspec check names what is wrong with it") from error
    return network.to(device).train(mode=False)


@dataclass(frozen=True)
class LeanAnswerer:
    """The fast path: all rows of a batch are refilled as soon as they end."""

    decoder: Decoder

    def answer(self, jobs: Sequence[Job], settings: GenerationSettings) -> list[Answer]:
        """See `Answerer`."""
        place = {job.index: at for at, job in enumerate(jobs)}
        # rows of like length waste little attention on padding
        by_length = sorted(jobs, key=lambda job: len(job.prompt))
        return sorted(generate(self.decoder, by_length, settings), key=lambda answer: place[answer.job.index])

    @torch.inference_mode()
    def score(self, job: Job, tokens: NDArray[np.int64], top_k: int) -> Answer:
        """See `Answerer`."""
        ids = torch.tensor([[*job.prompt, *tokens.tolist()[:-1]]])
        cache = self.decoder.new_cache(1, ids.shape[1])
        hidden = self.decoder.forward(ids, torch.arange(ids.shape[1])[None], cache, torch.tensor([0]))
        return Answer(job, tokens, *best_tokens(self.decoder.logits(hidden[0, len(job.prompt) - 1 :]), top_k))


class HuggingFaceAnswerer:
    """Any causal language model of transformers, on any device.

    Prompts are padded on the left, and a batch goes on until all of its rows have ended; rows that have are dropped
    when they are half of it.
    """

    def __init__(self, network: Any, device: torch.device) -> None:
        self._network = network
        self._device = device
        accepted = inspect.signature(network.forward).parameters
        # families with relative positions (ALiBi) take none: they count by the attention mask
        self._takes_positions = "position_ids" in accepted
        self._keeps_last = "logits_to_keep" in accepted
        # transformers 5 has a new word for it and warns of the old one
        self._cache_word = "cache" if "cache" in accepted else "past_key_values"

    def answer(self, jobs: Sequence[Job], settings: GenerationSettings) -> list[Answer]:
        """See `Answerer`."""
        by_length = sorted(range(len(jobs)), key=lambda at: len(jobs[at].prompt))
        found: dict[int, Answer] = {}
        for first in range(0, len(jobs), settings.rows):
            places = by_length[first : first + settings.rows]
            found.update(zip(places, self._batch([jobs[at] for at in places], settings), strict=True))
        return [found[at] for at in range(len(jobs))]

    @torch.inference_mode()
    def score(self, job: Job, tokens: NDArray[np.int64], top_k: int) -> Answer:
        """See `Answerer`."""
        ids = torch.tensor([[*job.prompt, *tokens.tolist()[:-1]]], device=self._device)
        logits = self._network(input_ids=ids, use_cache=False).logits[0, len(job.prompt) - 1 :]
        return Answer(job, tokens, *best_tokens(logits, top_k))

    @torch.inference_mode()
    def _batch(self, jobs: Sequence[Job], settings: GenerationSettings) -> list[Answer]:
        rows = [Row.of(job, settings) for job in jobs]
        tokens, mask = self._padded(jobs)
        going, cache = list(range(len(rows))), None
        while True:
            output = self._pass(tokens, mask, cache)
            cache = output.cache if hasattr(output, "cache") else output.past_key_values
            ids, logprobs = best_tokens(output.logits[:, -1], settings.top_k)
            for at, place in enumerate(going):
                if not (rows[place].tokens and rows[place].ended(settings)):
                    rows[place].take(ids[at], logprobs[at])
            kept = [at for at, place in enumerate(going) if not rows[place].ended(settings)]
            if not kept:
                return [row.answer() for row in rows]
            if len(kept) <= len(going) // 2 and hasattr(cache, "batch_select_indices"):
                chosen = torch.tensor(kept, device=self._device)
                cache.batch_select_indices(chosen)
                mask, going = mask[chosen], [going[at] for at in kept]
            tokens = torch.tensor([[rows[place].tokens[-1]] for place in going], device=self._device)
            mask = torch.cat((mask, mask.new_ones(len(going), 1)), dim=1)

    def _padded(self, jobs: Sequence[Job]) -> tuple[Tensor, Tensor]:
        width = max(len(job.prompt) for job in jobs)
        gaps = [width - len(job.prompt) for job in jobs]
        tokens = [[0] * gap + list(job.prompt) for gap, job in zip(gaps, jobs, strict=True)]
        mask = [[0] * gap + [1] * (width - gap) for gap in gaps]
        return torch.tensor(tokens, device=self._device), torch.tensor(mask, device=self._device)

    def _pass(self, tokens: Tensor, mask: Tensor, cache: Any) -> Any:
        options: dict[str, Any] = {self._cache_word: cache, "use_cache": True}
        if self._takes_positions:
            options["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0)[:, -tokens.shape[1] :]
        if self._keeps_last:
            options["logits_to_keep"] = 1
        return self._network(input_ids=tokens, attention_mask=mask, **options)
