"""Answers on disk: numbered safetensors files, each written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtspec.training.generate import Answer, Job

__all__ = ["finished", "read_shard", "read_shards", "write_shard", "write_shards"]


def write_shards(folder: Path, answers: Iterable[Answer], per_shard: int = 64) -> Iterator[int]:
    """Write answers as they come; yields the number of new tokens after every shard.

    A killed writer loses at most ``per_shard`` answers: what is on disk is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pending: list[Answer] = []
    for answer in answers:
        pending.append(answer)
        if len(pending) == per_shard:
            yield _flush(folder, pending)
            pending = []
    if pending:
        yield _flush(folder, pending)


def _flush(folder: Path, answers: Sequence[Answer]) -> int:
    number = 1 + max((int(path.stem.split("-")[1]) for path in _paths(folder)), default=-1)
    write_shard(folder / f"shard-{number:05d}.safetensors", answers)
    return sum(len(answer.tokens) for answer in answers)


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.safetensors"))


def write_shard(path: Path, answers: Sequence[Answer]) -> None:
    """Write one file: flat arrays, with one line of lengths per answer."""
    from safetensors.numpy import save_file

    jobs = [answer.job for answer in answers]
    lengths = [(len(answer.job.prompt), len(answer.tokens)) for answer in answers]
    arrays: dict[str, NDArray[np.generic]] = {
        "index": np.array([job.index for job in jobs], dtype=np.int64),
        "lengths": np.array(lengths, dtype=np.int64),
        "sampled": np.array([job.sampled for job in jobs], dtype=np.int64),
        "temperature": np.array([job.temperature for job in jobs], dtype=np.float32),
        "prompt": np.concatenate([np.array(job.prompt) for job in jobs]).astype(np.uint16),
        "tokens": np.concatenate([answer.tokens for answer in answers]).astype(np.uint16),
        "top_ids": np.concatenate([answer.top_ids for answer in answers]).astype(np.uint16),
        "top_logprobs": np.concatenate([answer.top_logprobs for answer in answers]).astype(np.float16),
    }
    temporary = path.with_name(f".{path.name}.part")
    categories = json.dumps([job.category for job in jobs])
    save_file(arrays, str(temporary), metadata={"schema": "1", "categories": categories})
    temporary.replace(path)


def read_shard(path: Path) -> Iterator[Answer]:
    """The answers of one file."""
    from safetensors import safe_open

    with safe_open(str(path), framework="np") as file:
        categories = json.loads(file.metadata()["categories"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    starts = np.concatenate([np.zeros((1, 2), np.int64), arrays["lengths"].cumsum(0)])
    for i, category in enumerate(categories):
        prompt, tokens = (slice(starts[i, j], starts[i + 1, j]) for j in (0, 1))
        job = Job(
            index=int(arrays["index"][i]),
            category=category,
            prompt=tuple(arrays["prompt"][prompt].tolist()),
            sampled=int(arrays["sampled"][i]),
            temperature=float(arrays["temperature"][i]),
        )
        yield Answer(
            job,
            arrays["tokens"][tokens].astype(np.int64),
            arrays["top_ids"][tokens].astype(np.int64),
            arrays["top_logprobs"][tokens].astype(np.float32),
        )


def read_shards(folder: Path) -> Iterator[Answer]:
    """The answers of every file of a folder, in the order in which they were written."""
    for path in _paths(folder):
        yield from read_shard(path)


def finished(folder: Path) -> set[int]:
    """Indices of the jobs whose answers are on disk."""
    from safetensors import safe_open

    done: set[int] = set()
    for path in _paths(folder):
        with safe_open(str(path), framework="np") as file:
            done.update(file.get_tensor("index").tolist())
    return done
