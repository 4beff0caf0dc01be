"""Synthetic runs that look like real ones: records in the form of requests.jsonl, made from a seed."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["Shape", "make_records", "sample_provenance", "write_run"]

# category → chance that one drafted token is accepted
CATEGORIES = {
    "code": 0.78,
    "extraction": 0.70,
    "summarising": 0.58,
    "question answering": 0.50,
    "chat": 0.42,
    "creative": 0.24,
}
TEXT = (
    "the answer is that a model reads every token once and keeps what it saw so it can write the next one "
    "without reading everything again which costs memory but saves time when many people ask at once and "
    "nobody wants to wait for words that could have been there already"
)
WORDS = TEXT.split()


@dataclass(frozen=True)
class Shape:
    """What a synthetic run looks like."""

    prompts: int = 36
    levels: tuple[int, ...] = (1, 2, 4, 8)
    draft_length: int = 4
    seed: int = 7
    diverging: int = 2
    failing: int = 1
    server: bool = True
    arms: tuple[str, ...] = ("baseline", "speculative")
    tokens: tuple[int, int] = (24, 72)
    acceptance: dict[str, float] = field(default_factory=lambda: dict(CATEGORIES))

    def with_(self, **changes: Any) -> Shape:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class _Request:
    arm: str
    prompt: int
    category: str
    level: int
    words: list[str]


def make_records(shape: Shape | None = None) -> list[dict[str, Any]]:
    """The lines of a requests.jsonl, as dictionaries, in order of their start."""
    shape = shape or Shape()
    rng = random.Random(shape.seed)
    answers = [_answer(rng, shape) for _ in range(shape.prompts)]
    records: list[dict[str, Any]] = []
    clock = 1_000_000_000
    for level in shape.levels:
        for prompt in range(shape.prompts):
            arms = shape.arms if prompt % 2 else tuple(reversed(shape.arms))
            for arm in arms:
                category = list(shape.acceptance)[prompt % len(shape.acceptance)]
                words = _diverged(answers[prompt], prompt < shape.diverging and arm == "speculative")
                record = _record(rng, shape, _Request(arm, prompt, category, level, words), clock)
                records.append(record)
                clock += (record["end_ns"] - record["start_ns"]) // level
    _fail_some(records, shape)
    return records


def _answer(rng: random.Random, shape: Shape) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(*shape.tokens))]


def _diverged(words: list[str], changed: bool) -> list[str]:
    half = len(words) // 2
    return [*words[:half], "otherwise", *words[half + 1 :]] if changed else words


def _record(rng: random.Random, shape: Shape, request: _Request, start: int) -> dict[str, Any]:
    speculative = request.arm == "speculative"
    rounds = _rounds(rng, shape, request) if speculative else [1] * len(request.words)
    slow = 1 + 0.22 * (request.level - 1)
    first = start + int(58e6 * slow * (1.15 if speculative else 1.0) * rng.lognormvariate(0, 0.12))
    step = 21e6 * slow * ((1.5 + 0.16 * (request.level - 1)) if speculative else 1.0)
    chunks: list[dict[str, Any]] = []
    at, used, end = first, 0, first
    for size in rounds:
        text = "".join(f" {word}" for word in request.words[used : used + size])
        chunks.append({"t_ns": at, "text": text, "tokens": size})
        end = at + 400_000
        used += size
        at += int(step * rng.lognormvariate(0, 0.08))
    return {
        "arm": request.arm,
        "prompt_id": f"{request.category.split()[0]}-{request.prompt:02d}",
        "category": request.category,
        "concurrency": request.level,
        "scheduled_ns": start,
        "start_ns": start,
        "end_ns": end,
        "chunks": chunks,
        "error": None,
        "cancelled": False,
        "server": _counters(shape, rounds, len(request.words), speculative) if shape.server else None,
    }


def _rounds(rng: random.Random, shape: Shape, request: _Request) -> list[int]:
    chance = min(0.97, max(0.03, shape.acceptance[request.category] + rng.gauss(0, 0.05)))
    sizes, left = [], len(request.words)
    while left:
        accepted = 0
        while accepted < shape.draft_length and rng.random() < chance:
            accepted += 1
        sizes.append(min(accepted + 1, left))
        left -= sizes[-1]
    return sizes


def _counters(shape: Shape, rounds: list[int], tokens: int, speculative: bool) -> dict[str, Any]:
    histogram = [0] * (shape.draft_length + 1)
    for size in rounds if speculative else []:
        histogram[size - 1] += 1
    steps = sum(histogram)
    return {
        "num_input_tokens": 40,
        "num_output_tokens": tokens,
        "num_spec_steps": steps,
        "num_draft_tokens": steps * shape.draft_length,
        "num_accepted_tokens": sum(index * count for index, count in enumerate(histogram)),
        "acceptance_histogram": histogram,
    }


def _fail_some(records: list[dict[str, Any]], shape: Shape) -> None:
    for record in records[len(records) - shape.failing :]:
        record["error"] = "server_unreachable: the connection was reset"
        record["chunks"] = record["chunks"][:1]
        record["server"] = None


def sample_provenance() -> dict[str, Any]:
    """What a run's provenance.json holds, with an argument that needs escaping."""
    return {
        "schema": 1,
        "trtspec": "0.1.0",
        "argv": ["trtspec", "loadtest", "trtspec.yaml", "--note", "<b>bold</b>"],
        "python": "3.11.7",
        "platform": "Linux-6.1-x86_64",
        "packages": {"torch": "2.13.0", "tritonclient": "2.73.0", "tensorrt-llm": None},
        "created": "2026-11-29T18:00:00+00:00",
        "options": {"seed": 11, "temperature": 0.0},
        "spec": {"name": "demo", "loadtest": {"seed": 1, "concurrency": [1, 2, 4, 8]}},
    }


def write_run(folder: Path, records: list[dict[str, Any]], provenance: dict[str, Any] | None = None) -> Path:
    """A run folder with requests.jsonl (and provenance.json when given); returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (folder / "requests.jsonl").write_text(text, encoding="utf-8")
    if provenance is not None:
        (folder / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")
    return folder
