"""Rules about whether a checkpoint can be read at all, and about its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from trtspec.checkpoints import Failure
from trtspec.checkpoints.checkpoint import Part
from trtspec.rules.facts import Facts, ModelRole, each_weights
from trtspec.rules.registry import Hit, rule
from trtspec.units import bytes_text, count_text

__all__: list[str] = []

# codes of failures that say "not here (yet)", not "broken"
_ABSENT = ("shards-missing", "no-weights")


def _failures(facts: Facts, part: Part) -> Iterator[tuple[ModelRole, Failure]]:
    """The failures of one part; none for a folder that is no model at all (an adapter)."""
    for role in facts.roles:
        if role in facts.adapters:
            continue
        for failure in facts.surveys[role].failures:
            if failure.part == part:
                yield role, failure


def _hit(role: ModelRole, failure: Failure) -> Hit:
    error = failure.error
    return Hit(role, str(error), error.fix, {"part": failure.part, "path": error.where, "code": failure.code})


def _unreadable(part: Part) -> Callable[[Facts], Iterator[Hit]]:
    def condition(facts: Facts) -> Iterator[Hit]:
        for role, failure in _failures(facts, part):
            if failure.code not in _ABSENT:
                yield _hit(role, failure)

    return condition


@dataclass(frozen=True)
class _Reading:
    """A rule about one part of a checkpoint that cannot be read."""

    id: str
    part: Part
    title: str
    source: str
    explanation: str
    fix: str
    example: str


_READING = (
    _Reading(
        "checkpoint-missing",
        "folder",
        "The checkpoint folder cannot be read",
        "every loader refuses it",
        "Relative paths start at the folder of trtspec.yaml. A hub cache's folder is not the checkpoint: that lies in "
        "snapshots/REVISION.",
        "Correct the path, or fetch the checkpoint.",
        "target: {checkpoint: ./Llama-3.1-70B} where there is no such folder",
    ),
    _Reading(
        "config-unreadable",
        "config",
        "config.json is missing or malformed",
        "every loader refuses it",
        "All sizes come from it; nothing can be built without it.",
        "Fetch config.json again.",
        'config.json: {"vocab_size": "x"}',
    ),
    _Reading(
        "weights-unreadable",
        "weights",
        "Weights are cut off, corrupt, or only pickled",
        "safetensors format: header length, offsets and file size must agree; NVIDIA/TensorRT-LLM#1732",
        "Headers are held against the files' sizes, and the index against the headers, in both directions. A file "
        "that is short was not downloaded to its end. Pickled weights can run code and are not loaded.",
        "Fetch the file again; convert pickled weights to safetensors once.",
        "a model.safetensors whose last 64 bytes are missing",
    ),
    _Reading(
        "tokenizer-unreadable",
        "tokenizer",
        "The tokenizer is missing or cannot be read",
        "huggingface/tokenizers",
        "Whether both models mean the same by an id can only be seen in their tokenizers.",
        "Copy tokenizer.json and tokenizer_config.json from the model's repository.",
        "a folder without tokenizer.json and tokenizer.model",
    ),
    _Reading(
        "chat-template-unreadable",
        "chat_template",
        "The chat template cannot be read",
        "prompts would be sent in another form than the model was trained on",
        "A broken template is found at the first request otherwise.",
        "Copy chat_template.jinja or tokenizer_config.json from the model's repository.",
        "chat_template.jinja that is not UTF-8",
    ),
    _Reading(
        "generation-config-unreadable",
        "generation_config",
        "generation_config.json is malformed",
        "end ids are read from it; NVIDIA/TensorRT-LLM#250",
        "A model's further end ids stand only there.",
        "Fetch generation_config.json again.",
        'generation_config.json: {"eos_token_id": "x"}',
    ),
)
for _item in _READING:
    rule(
        _item.id, "CRASH", "error", title=_item.title, source=_item.source, explanation=_item.explanation,
        fix=_item.fix, example=_item.example,
    )(_unreadable(_item.part))  # fmt: skip


@rule(
    "weights-missing",
    "CRASH",
    "error",
    title="Weights are not there",
    source="the index names every shard; NVIDIA/TensorRT-LLM#1732",
    explanation="Configuration and tokenizer are enough to check and plan a pair, not to build it.",
    fix="Fetch the weights; `trtspec build --dry-run` works without them.",
    example="model.safetensors.index.json names 30 shards, 12 are in the folder",
)
def _missing(facts: Facts) -> Iterator[Hit]:
    for role, failure in _failures(facts, "weights"):
        if failure.code in _ABSENT:
            hit = _hit(role, failure)
            yield Hit(role, hit.message, hit.fix, hit.data, level="error" if facts.weights_needed else "note")


@rule(
    "draft-vocabulary-unreadable",
    "CRASH",
    "error",
    title="The list of tokens that the draft may propose is damaged",
    source="docs/distill.md: draft_vocabulary.json; `trtspec build` refuses it",
    explanation="The torch runtime lets the draft propose the listed ids only. Without the file it proposes any.",
    fix="Copy the file again from where the draft was made, or remove it.",
    example='draft_vocabulary.json: {"schema": 1, "ids": [999999]}',
)
def _vocabulary(facts: Facts) -> Iterator[Hit]:
    error = facts.vocabulary_error
    if error is not None:
        yield Hit("draft", str(error), error.fix, {"path": error.where})


@rule(
    "adapter-only",
    "CRASH",
    "error",
    title="The folder holds an adapter, not a model",
    source="adapter_config.json of huggingface/peft",
    explanation="A LoRA adapter is a small change to a base model. Engines are built of whole models.",
    fix="Merge it into its base model (peft: merge_and_unload) and give the merged folder.",
    example="a folder with adapter_config.json and adapter_model.safetensors, without config.json",
)
def _adapter(facts: Facts) -> Iterator[Hit]:
    for role, base in facts.adapters.items():
        message = f"the folder holds an adapter for {base or 'a model that it does not name'}, not a model"
        fix = "merge it: PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(FOLDER)"
        yield Hit(role, message, fix, {"base": base})


@rule(
    "extra-weight-files",
    "INFO",
    "note",
    title="Weight files beside those that are loaded",
    source="NVIDIA/TensorRT-LLM#1732: a consolidated file next to the shards was taken for the model",
    explanation="Some releases carry the same weights twice, under other names. The index decides.",
    fix="Nothing; or remove the other files to save space.",
    example="consolidated.safetensors next to model-00001-of-00002.safetensors",
)
def _extra_files(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        if weights.extra:
            used = ", ".join(weights.files[:2]) + (" …" if len(weights.files) > 2 else "")
            message = f"weights come from {used}; left aside: {_listed(weights.extra)}"
            yield Hit(role, message, None, {"files": list(weights.extra)})


@rule(
    "unindexed-tensors",
    "SILENT",
    "warning",
    title="A shard holds tensors that the index does not list",
    source="the index decides what is loaded: the rest is left out or overwritten without a word",
    explanation="Index and shards come from different saves; which of two tensors of one name is loaded depends on "
    "the loader.",
    fix="Fetch index and shards again.",
    example="a tensor in model-00001-of-00002.safetensors that weight_map does not name",
)
def _unindexed(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        count = len(weights.unindexed) - len(weights.duplicates)
        if count:
            left = [name for name in weights.unindexed if name.rpartition(" (")[0] not in weights.duplicates]
            message = f"{count} tensors in the shards are not in the index: {_listed(left)}"
            fix = "fetch index and shards again; they come from different saves"
            yield Hit(role, message, fix, {"tensors": left})


@rule(
    "tensor-in-two-shards",
    "SILENT",
    "warning",
    title="A tensor lies in two shards",
    source="the index names one of them; huggingface/transformers loads shard by shard, so the last one read stays",
    explanation="The shards come from different saves, or one was merged by hand. trtspec goes by the index; a loader "
    "that goes by the shards computes with the other copy where the two differ.",
    fix="Fetch index and shards again.",
    example="lm_head.weight in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors",
)
def _twice(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        if weights.duplicates:
            message = f"{len(weights.duplicates)} tensors lie in more than one shard: {_listed(weights.duplicates)}"
            fix = "fetch index and shards again; they come from different saves"
            yield Hit(role, message, fix, {"tensors": list(weights.duplicates)})


@rule(
    "index-size-differs",
    "INFO",
    "note",
    title="The index states another size than the shards have",
    source="metadata.total_size of model.safetensors.index.json",
    explanation="Nothing is missing, every tensor of the index is there. Tools that plan with the index's total are "
    "off by the difference; trtspec counts the headers.",
    fix="Nothing, where the difference is a tied head; else fetch the index again.",
    example='{"metadata": {"total_size": 1}, …}',
)
def _stated(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        stated = weights.stated_size
        if stated is not None and stated != weights.size:
            message = f"the index says {bytes_text(stated)} of tensors, the shards hold {bytes_text(weights.size)}"
            yield Hit(role, message, None, {"stated": stated, "size": weights.size})


@rule(
    "mixed-dtypes",
    "INFO",
    "note",
    title="Weights are stored in several types",
    source="the engine is built in one type: the others are converted",
    explanation="Mostly norms or routers in float32. They are converted to the engine's type.",
    fix="Nothing.",
    example="BF16 matrices and F32 norms",
)
def _mixed(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        quantization = facts.surveys[role].quantization
        if weights.format == "gguf" or (quantization is not None and quantization.kinds):
            continue  # scales and what is left unquantized are of types of their own
        floats = {name: size for name, size in weights.bytes_by_dtype.items() if name in ("F16", "BF16", "F32", "F64")}
        if len(floats) > 1:
            parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in floats.items())
            yield Hit(role, f"weights are stored in {len(floats)} types: {parts}", None, {"bytes": floats})


@rule(
    "gguf-without-engines",
    "CRASH",
    "error",
    title="TensorRT-LLM's converters do not read GGUF",
    source="examples/models/core/*/convert_checkpoint.py of TensorRT-LLM: Hugging Face and Meta folders",
    explanation="A GGUF file holds weights in llama.cpp's block formats. The torch runtime reads it, the converters "
    "for engines do not.",
    fix="Give the safetensors checkpoint, or set runtime: torch.",
    example="runtime: tensorrt_llm with a folder that holds model.Q4_K_M.gguf",
)
def _gguf(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        if facts.engines and facts.is_built(role) and weights.format == "gguf":
            fix = "give the safetensors checkpoint, or set runtime: torch"
            yield Hit(role, f"{weights.files[0]} is GGUF, which no converter for engines reads", fix)


@rule(
    "embedding-rows",
    "CRASH",
    "error",
    title="vocab_size in config.json is not the embedding's number of rows",
    source="transformers refuses to load on a size mismatch; NVIDIA/TensorRT-LLM#3615",
    explanation="config.json and weights come from different saves, mostly after tokens were added.",
    fix="Set vocab_size to the number of rows, or fetch the checkpoint again.",
    example='{"vocab_size": 32000} with embed_tokens.weight of 32001 rows',
)
def _rows(facts: Facts) -> Iterator[Hit]:
    for role, weights in each_weights(facts):
        survey = facts.surveys[role]
        embedding = weights.embedding
        stated = survey.config.vocab_size if survey.config else None
        if embedding is not None and stated is not None and embedding.shape[0] != stated:
            rows = embedding.shape[0]
            message = f"config.json says vocab_size {count_text(stated)}, {embedding.name} has {count_text(rows)} rows"
            fix = f"set vocab_size to {rows} in {survey.folder / 'config.json'}, or fetch the checkpoint again"
            yield Hit(role, message, fix, {"vocab_size": stated, "rows": rows})


def _listed(names: Iterable[str], most: int = 3) -> str:
    items = list(names)
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")
