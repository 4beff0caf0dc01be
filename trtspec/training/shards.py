"""Answers on disk: numbered files of one block of prompts each, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtspec.training.generate import Answer, Job
from trtspec.training.tensor_file import Arrays, load_tensors, save_tensors

__all__ = ["Shard", "read_shard", "shard_path", "write_shard"]


@dataclass(frozen=True)
class Shard:
    """The answers to one block of prompts, and the digest of their file."""

    answers: tuple[Answer, ...]
    digest: str

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(answer.tokens) for answer in self.answers)


def shard_path(folder: Path, number: int) -> Path:
    """Where block ``number`` lies."""
    return folder / f"shard-{number:05d}.safetensors"


def write_shard(path: Path, answers: Sequence[Answer]) -> Shard:
    """Write one file: flat arrays, with a pair of lengths (prompt, answer) for each answer.

    Returns what a reader finds there: probabilities are kept in half precision, and a training must see the same
    numbers whether the answers were just given or come from the disk.
    """
    jobs = [answer.job for answer in answers]
    arrays: Arrays = {
        "index": np.array([job.index for job in jobs], dtype=np.int64),
        "lengths": np.array([(len(a.job.prompt), len(a.tokens)) for a in answers], dtype=np.int64).reshape(-1, 2),
        "sampled": np.array([job.sampled for job in jobs], dtype=np.int64),
        "temperature": np.array([job.temperature for job in jobs], dtype=np.float32),
        "prompt": _joined([np.array(job.prompt) for job in jobs], np.uint32),
        "tokens": _joined([answer.tokens for answer in answers], np.uint32),
        "top_ids": _joined([answer.top_ids for answer in answers], np.uint32),
        "top_logprobs": _joined([answer.top_logprobs for answer in answers], np.float16),
    }
    facts = {"schema": 2, "categories": [job.category for job in jobs], "parts": [job.part for job in jobs]}
    save_tensors(path, arrays, facts)
    return read_shard(path)


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:  # type: ignore[type-arg]
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)


def read_shard(path: Path) -> Shard:
    """The answers of one file; FileDamaged when it is not as it was written, FileNotFoundError without one."""
    arrays, facts, digest = load_tensors(path)
    starts = np.concatenate([np.zeros((1, 2), np.int64), arrays["lengths"].cumsum(0)])
    answers = []
    for i, (category, part) in enumerate(zip(facts["categories"], facts["parts"], strict=True)):
        prompt, tokens = (slice(starts[i, j], starts[i + 1, j]) for j in (0, 1))
        job = Job(
            index=int(arrays["index"][i]),
            category=category,
            prompt=tuple(arrays["prompt"][prompt].tolist()),
            sampled=int(arrays["sampled"][i]),
            temperature=float(arrays["temperature"][i]),
            part=part,
        )
        ids = arrays["tokens"][tokens].astype(np.int64)
        # the labels stay as small as they are: a night's answers have tens of millions of them
        best = arrays["top_ids"][tokens].astype(np.int32)
        answers.append(Answer(job, ids, best, arrays["top_logprobs"][tokens]))
    return Shard(tuple(answers), digest)
