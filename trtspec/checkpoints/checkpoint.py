"""A checkpoint folder as facts: configuration, end ids, weights and tokenizer, read part by part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from trtspec.checkpoints.chat import chat_template
from trtspec.checkpoints.config import ModelConfig, read_config, read_generation_ends
from trtspec.checkpoints.evidence import QuantizationEvidence, quantization_evidence
from trtspec.checkpoints.reading import child_names
from trtspec.checkpoints.tokenizer import TokenizerFacts, read_tokenizer
from trtspec.checkpoints.weights import WeightIndex, Weights, read_weight_index, read_weights
from trtspec.errors import CheckpointError, EnvironmentMissing, TrtspecError

__all__ = ["Checkpoint", "Failure", "Part", "Survey", "read_checkpoint", "survey_checkpoint"]

Part = Literal["folder", "config", "generation_config", "weights", "tokenizer", "chat_template"]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Failure:
    """A part of a checkpoint that cannot be read, and why."""

    part: Part
    error: TrtspecError

    @property
    def code(self) -> str:
        """A stable word for the kind of fault: "shards-missing", "no-weights", "truncated", …, else "unreadable"."""
        return str(getattr(self.error, "code", "unreadable"))


@dataclass(frozen=True)
class Checkpoint:
    """Everything about a readable checkpoint that can be known without loading it."""

    folder: Path
    config: ModelConfig
    weights: Weights
    tokenizer: TokenizerFacts
    generation_ends: tuple[int, ...] | None
    chat_template: str | None = field(default=None, repr=False)

    @property
    def vocab_size(self) -> int | None:
        """Rows of the model's vocabulary, padding included; never the tokenizer's size (see `Survey.vocab_size`)."""
        return _vocab_size(self.config, self.weights)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """All ids that end a generation (see `Survey.end_ids`)."""
        return _end_ids(self.generation_ends, self.config, self.tokenizer)


@dataclass(frozen=True)
class Survey:
    """The parts of a checkpoint that could be read, and a failure for each that could not.

    `index` is there where shards that an index names are not: what can be said without them (failure code
    "shards-missing"; a folder without any weights and index has "no-weights").
    """

    folder: Path
    config: ModelConfig | None
    weights: Weights | None
    tokenizer: TokenizerFacts | None
    generation_ends: tuple[int, ...] | None
    chat_template: str | None = field(default=None, repr=False)
    failures: tuple[Failure, ...] = field(default=())
    index: WeightIndex | None = None

    @property
    def vocab_size(self) -> int | None:
        """Vocabulary rows that the model has, padding included: config.json's, else the embedding's, else None."""
        return _vocab_size(self.config, self.weights)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Union of generation_config.json's, config.json's and the tokenizer's end ids, in this order."""
        return _end_ids(self.generation_ends, self.config, self.tokenizer)

    @cached_property
    def quantization(self) -> QuantizationEvidence | None:
        """What the headers show of the weights' quantisation, held against config.json; None without one of them."""
        if self.weights is None or self.config is None:
            return None
        return quantization_evidence(self.config.quant, self.weights)


def _vocab_size(config: ModelConfig | None, weights: Weights | None) -> int | None:
    if config is not None and config.vocab_size is not None:
        return config.vocab_size
    embedding = weights.embedding if weights is not None else None
    return embedding.shape[0] if embedding is not None else None


def _end_ids(
    generation: tuple[int, ...] | None, config: ModelConfig | None, tokenizer: TokenizerFacts | None
) -> tuple[int, ...]:
    own = (tokenizer.end_id,) if tokenizer is not None and tokenizer.end_id is not None else ()
    return tuple(dict.fromkeys([*(generation or ()), *(config.end_ids if config else ()), *own]))


def read_checkpoint(folder: Path) -> Checkpoint:
    """The facts of a checkpoint folder; CheckpointError or EnvironmentMissing for the first unreadable part."""
    survey = survey_checkpoint(folder)
    if survey.failures:
        raise survey.failures[0].error
    assert survey.config is not None
    assert survey.weights is not None
    assert survey.tokenizer is not None
    parts = (survey.config, survey.weights, survey.tokenizer, survey.generation_ends, survey.chat_template)
    return Checkpoint(folder, *parts)


def survey_checkpoint(folder: Path) -> Survey:
    """All that can be read of a checkpoint folder; never raises for what is wrong with it."""
    failures: list[Failure] = []

    def attempt(part: Part, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except (CheckpointError, EnvironmentMissing) as error:
            failures.append(Failure(part, error))
            return None

    names = attempt("folder", lambda: child_names(folder))
    if names is None:
        return Survey(folder, None, None, None, None, failures=tuple(failures))
    weights = attempt("weights", lambda: read_weights(folder, names))
    tokenizer = attempt("tokenizer", lambda: _tokenizer(folder, names, weights))
    parts: dict[str, Any] = {
        "config": attempt("config", lambda: _config(folder, names, weights)),
        # its file is one of the tokenizer's: one fault, one failure
        "chat_template": attempt("chat_template", lambda: chat_template(folder)) if tokenizer else None,
        "generation_ends": attempt("generation_config", lambda: read_generation_ends(folder, names)),
        "index": read_weight_index(folder, names) if weights is None else None,
    }
    return Survey(folder, weights=weights, tokenizer=tokenizer, failures=tuple(failures), **parts)


def _gguf(weights: Weights | None) -> str | None:
    return weights.files[0] if weights is not None and weights.format == "gguf" else None


def _config(folder: Path, names: list[str], weights: Weights | None) -> ModelConfig:
    file = _gguf(weights)
    if file is not None and "config.json" not in names:
        from trtspec.checkpoints.gguf_file import gguf_config, read_gguf

        return gguf_config(read_gguf(folder / file))
    return read_config(folder)


def _tokenizer(folder: Path, names: list[str], weights: Weights | None) -> TokenizerFacts:
    file = _gguf(weights)
    if file is not None and "tokenizer.json" not in names:
        from trtspec.checkpoints.gguf_file import gguf_tokenizer, read_gguf

        return gguf_tokenizer(read_gguf(folder / file))
    return read_tokenizer(folder, names)
