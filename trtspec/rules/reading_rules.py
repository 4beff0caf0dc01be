"""Rules about whether a checkpoint can be read at all, and about its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trtspec.checkpoints.checkpoint import Part
from trtspec.rules.facts import MODEL_ROLES, Facts
from trtspec.rules.registry import Hit, rule
from trtspec.units import bytes_text, count_text

__all__: list[str] = []


def _unreadable(part: Part) -> Callable[[Facts], Iterator[Hit]]:
    def condition(facts: Facts) -> Iterator[Hit]:
        for role in MODEL_ROLES:
            for failure in facts.surveys[role].failures:
                if failure.part == part:
                    error = failure.error
                    yield Hit(role, str(error), error.fix, {"part": failure.part, "path": error.where})

    return condition


_READING: tuple[tuple[str, Part, str, str], ...] = (
    ("checkpoint-missing", "folder", "The checkpoint folder cannot be read", "every loader refuses it"),
    ("config-unreadable", "config", "config.json is missing or malformed", "every loader refuses it"),
    (
        "weights-unreadable",
        "weights",
        "Weights are missing, cut off, corrupt or only pickled",
        "safetensors format: header length, offsets and file size must agree; NVIDIA/TensorRT-LLM#1732",
    ),
    ("tokenizer-unreadable", "tokenizer", "The tokenizer is missing or cannot be read", "huggingface/tokenizers"),
    (
        "chat-template-unreadable",
        "chat_template",
        "The chat template cannot be read",
        "prompts would be sent in another form than the model was trained on",
    ),
    (
        "generation-config-unreadable",
        "generation_config",
        "generation_config.json is malformed",
        "end ids are read from it; NVIDIA/TensorRT-LLM#250",
    ),
)
for _id, _part, _title, _source in _READING:
    rule(_id, "CRASH", "error", title=_title, source=_source)(_unreadable(_part))


@rule(
    "extra-weight-files",
    "INFO",
    "note",
    title="Weight files beside those that are loaded",
    source="NVIDIA/TensorRT-LLM#1732: a consolidated file next to the shards was taken for the model",
)
def _extra_files(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        weights = facts.surveys[role].weights
        if weights is not None and weights.extra:
            used = ", ".join(weights.files[:2]) + (" …" if len(weights.files) > 2 else "")
            message = f"weights come from {used}; left aside: {_listed(weights.extra)}"
            yield Hit(role, message, None, {"files": list(weights.extra)})


@rule(
    "unindexed-tensors",
    "SILENT",
    "warning",
    title="A shard holds tensors that the index does not list",
    source="the index decides what is loaded: the rest is left out or overwritten without a word",
)
def _unindexed(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        weights = facts.surveys[role].weights
        if weights is not None and weights.unindexed:
            message = (
                f"{len(weights.unindexed)} tensors in the shards are not in the index: {_listed(weights.unindexed)}"
            )
            fix = "fetch index and shards again; they come from different saves"
            yield Hit(role, message, fix, {"tensors": list(weights.unindexed)})


@rule(
    "mixed-dtypes",
    "INFO",
    "note",
    title="Weights are stored in several types",
    source="the engine is built in one type: the others are converted",
)
def _mixed(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        weights = facts.surveys[role].weights
        if weights is None or weights.format == "gguf":
            continue
        floats = {name: size for name, size in weights.bytes_by_dtype.items() if name in ("F16", "BF16", "F32", "F64")}
        if len(floats) > 1:
            parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in floats.items())
            yield Hit(role, f"weights are stored in {len(floats)} types: {parts}", None, {"bytes": floats})


@rule(
    "embedding-rows",
    "CRASH",
    "error",
    title="vocab_size in config.json is not the embedding's number of rows",
    source="transformers refuses to load on a size mismatch; NVIDIA/TensorRT-LLM#3615",
)
def _rows(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        survey = facts.surveys[role]
        embedding = survey.weights.embedding if survey.weights else None
        stated = survey.config.vocab_size if survey.config else None
        if embedding is not None and stated is not None and embedding.shape[0] != stated:
            rows = embedding.shape[0]
            message = f"config.json says vocab_size {count_text(stated)}, {embedding.name} has {count_text(rows)} rows"
            fix = f"set vocab_size to {rows} in {survey.folder / 'config.json'}, or fetch the checkpoint again"
            yield Hit(role, message, fix, {"vocab_size": stated, "rows": rows})


def _listed(names: Iterable[str], most: int = 3) -> str:
    items = list(names)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
