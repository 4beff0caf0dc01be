"""What a draft is before training: new layers, some of the target's, or a small model that is there already."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import torch
from torch import Tensor, nn

from trtspec.building.weights import stored_dtype
from trtspec.checkpoints import Checkpoint, compare_tokenizers, read_checkpoint
from trtspec.checkpoints.tensor_classes import EMBEDDINGS
from trtspec.errors import CheckpointError, PairError, UsageError
from trtspec.training.answering import load_network
from trtspec.training.copying import can_copy, copying_start, set_up_copying
from trtspec.training.data import Vocabulary
from trtspec.training.generate import Answer
from trtspec.training.model import DraftShape, draft_config, new_draft, padded_embedding
from trtspec.training.network import Weights, require_plain_head, vocabulary_rows, with_vocabulary

__all__ = [
    "Beginning",
    "FromDraft",
    "FromTarget",
    "Scratch",
    "Start",
    "begin",
    "layers_taken",
    "parse_start",
    "start_name",
]

_UNSEEN_SCALE = 0.5
_SCRATCH = "start from scratch: --layers, --hidden"


@dataclass(frozen=True)
class Scratch:
    """New layers of a small Llama, over the target's embedding reduced to the draft's width."""

    shape: DraftShape


@dataclass(frozen=True)
class FromTarget:
    """Layers taken from the target, evenly spaced, with its embedding and head."""

    layers: int


@dataclass(frozen=True)
class FromDraft:
    """A model that is there already, with the same tokenizer."""

    folder: Path


Start = Union[Scratch, FromTarget, FromDraft]  # noqa: UP007 - used at run time on Python 3.10


def start_name(start: Start) -> str:
    """What people call a start: `3x256/576/4`, `target:4`, or a folder's name."""
    if isinstance(start, Scratch):
        return start.shape.name
    return f"target:{start.layers}" if isinstance(start, FromTarget) else start.folder.name


_SHAPE = re.compile(r"(\d+)x(\d+)(?:/(\d+))?(?:/(\d+)(?::(\d+))?)?")


def parse_start(text: str) -> Start:
    """The start that `LAYERSxHIDDEN[/INTERMEDIATE[/HEADS[:KV_HEADS]]]` or `target:LAYERS` means.

    Left out: 2.25 times the width as intermediate width (in steps of 32), a head for every 64 values.
    """
    if re.fullmatch(r"target:[1-9]\d*", text):
        return FromTarget(int(text.partition(":")[2]))
    match = _SHAPE.fullmatch(text)
    if match is None or not all(int(part) for part in match.groups() if part is not None):
        raise UsageError(f"{text!r} is no shape", fix="for example 3x256, 3x256/576/4, or target:4")
    layers, hidden = int(match[1]), int(match[2])
    heads = int(match[4] or max(1, hidden // 64))
    shape = DraftShape(hidden, layers, heads, int(match[5] or heads), int(match[3] or -(-9 * hidden // 128) * 32))
    if problem := shape.problem():
        raise UsageError(f"{text}: {problem}", fix="another width or number of heads, for example 3x256/576/4")
    return Scratch(shape)


@dataclass(frozen=True)
class Beginning:
    """A draft over the tokens that occur, before training.

    ``rows`` are the rows of all tokens that it started from (see `vocabulary_rows`), ``ids`` its own tokens,
    ``special`` the ids of special tokens, and ``how`` says in words where it comes from.
    """

    network: Any
    rows: Weights
    ids: Tensor
    special: dict[str, Any]
    how: str

    def whole(self, network: Any) -> Any:
        """The trained network with rows for every token; those that it never saw are as it started with them."""
        trained = vocabulary_rows(network)
        rows = {name: row.clone().index_copy_(0, self.ids, trained[name].cpu()) for name, row in self.rows.items()}
        return with_vocabulary(network, rows, self.special)


def begin(start: Start, target: Path, answers: Sequence[Answer], vocabulary: Vocabulary) -> Beginning:
    """The draft to train, in float32 on the CPU; ``answers`` are those that it will be trained on."""
    checkpoint = read_checkpoint(target)
    if isinstance(start, Scratch):
        return _scratch(start.shape, checkpoint, answers, vocabulary)
    if isinstance(start, FromTarget):
        network, taken = _layers_of(checkpoint, start.layers)
        numbers = ("layer " if len(taken) == 1 else "layers ") + ", ".join(map(str, taken))
        how = f"{numbers} of the target (counted from 0), with its embedding and head"
        origin = checkpoint
    else:
        origin = _with_same_tokenizer(checkpoint, start.folder)
        network, how = load_network(start.folder, torch.device("cpu")), f"the model {start.folder.name}"
    # it is trained in float32, and written in the type that it came in
    network.config.dtype = getattr(torch, stored_dtype(origin.weights))
    require_plain_head(network, str(target if isinstance(start, FromTarget) else start.folder))
    return _restricted(network, vocabulary, how)


def _restricted(network: Any, vocabulary: Vocabulary, how: str) -> Beginning:
    rows = vocabulary_rows(network)
    if int(vocabulary.ids.max()) >= len(next(iter(rows.values()))):
        message = "has fewer rows than the target's answers have different token ids"
        raise PairError(f"the draft's vocabulary {message}", fix="take a model with the target's tokenizer")
    special = {name: getattr(network.config, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    small = with_vocabulary(network, {name: row[vocabulary.ids] for name, row in rows.items()}, {})
    return Beginning(small, rows, vocabulary.ids, special, how)


def _scratch(shape: DraftShape, target: Checkpoint, answers: Sequence[Answer], vocabulary: Vocabulary) -> Beginning:
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(str(target.folder), local_files_only=True).get_text_config()
    embedding = _embedding(target)
    frequency = _frequency(answers, len(embedding))
    empty = _empty_token(answers) if can_copy(shape, embedding.shape[1]) else None
    small = draft_config(shape, config, len(vocabulary))
    if empty is None:
        rows = padded_embedding(embedding, shape.hidden, frequency)
        network = new_draft(small, rows[vocabulary.ids])
        how = "new layers; the embedding is the target's, reduced to its main directions"
    else:
        start = copying_start(embedding, shape, frequency, empty)
        rows = start.embedding
        network = new_draft(small, rows[vocabulary.ids])
        set_up_copying(network, start)
        how = (
            "new layers; the embedding is the target's, reduced to its main directions, and the first two layers are "
            "set up to copy what followed the last two tokens before (`trtspec/training/copying.py`)"
        )
    special = {name: getattr(config, name, None) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    # no training pushed the scores of unseen tokens below those of the likely ones: their rows are made shorter
    full = dict.fromkeys(vocabulary_rows(network), rows * _UNSEEN_SCALE)
    return Beginning(network.train(mode=False), full, vocabulary.ids, special, how)


def _embedding(target: Checkpoint) -> Tensor:
    """The target's embedding [V, D] in float32, read alone where its files allow that."""
    from safetensors import safe_open

    for tensor in target.weights.tensors:
        if target.weights.format == "safetensors" and tensor.name.endswith(EMBEDDINGS) and len(tensor.shape) == 2:
            with safe_open(str(target.folder / tensor.file), framework="pt") as file:
                found: Tensor = file.get_tensor(tensor.name).float()
            return found
    network = load_network(target.folder, torch.device("cpu"))
    weight: Tensor = network.get_input_embeddings().weight.detach()
    return weight


def _frequency(answers: Sequence[Answer], size: int) -> Tensor:
    """How often tokens occur [V]; the square root keeps a few very frequent ones from claiming all directions."""
    counts = torch.full((size,), 0.05)
    for answer in answers:
        tokens = torch.from_numpy(answer.tokens)
        counts.index_add_(0, tokens, torch.ones(len(tokens)))
    return counts.sqrt()


def _empty_token(answers: Sequence[Answer]) -> int | None:
    """The first token of the prompts that every prompt holds and no answer; None without one."""
    if not answers:
        return None
    common = set.intersection(*(set(answer.job.prompt) for answer in answers))
    common -= {token for answer in answers for token in answer.tokens.tolist()}
    return next((token for token in answers[0].job.prompt if token in common), None)


def layers_taken(have: int, wanted: int) -> tuple[int, ...]:
    """Which of ``have`` layers are taken: the first, the last, and evenly spaced ones between them."""
    if wanted == 1:
        return (0,)
    return tuple(round(place * (have - 1) / (wanted - 1)) for place in range(wanted))


def _layers_of(target: Checkpoint, wanted: int) -> tuple[Any, tuple[int, ...]]:
    """A network of the target's class with some of its layers, and which they are; only their tensors are read."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config: Any = AutoConfig.from_pretrained(str(target.folder), local_files_only=True)
    have = config.num_hidden_layers
    if not 1 <= wanted < have:
        raise UsageError(f"the target has {have} layers; a draft takes 1 to {have - 1} of them", fix="--from-target N")
    if getattr(config, "quantization_config", None) is not None or target.weights.format != "safetensors":
        message = "its layers are quantized or no safetensors: they cannot be taken for training"
        raise CheckpointError(message, where=str(target.folder), fix=_SCRATCH)
    taken = layers_taken(have, wanted)
    small = copy.deepcopy(config)
    small.num_hidden_layers = wanted
    if getattr(config, "layer_types", None):
        small.layer_types = [config.layer_types[place] for place in taken]
    models: Any = AutoModelForCausalLM
    network = models.from_config(small, dtype=torch.float32)
    network.load_state_dict(_tensors(target, network, taken), strict=True)
    network.tie_weights()
    return network.train(mode=False), taken


def _tensors(target: Checkpoint, network: Any, taken: Sequence[int]) -> Weights:
    """The network's state, read from the target's files with the numbers of the layers changed."""
    from safetensors import safe_open

    prefix = _layer_prefix(network, len(taken))
    files = {tensor.name: tensor.file for tensor in target.weights.tensors}
    tied = set(getattr(network, "all_tied_weights_keys", None) or getattr(network, "_tied_weights_keys", None) or ())
    state: Weights = {}
    for name, like in network.state_dict().items():
        source = re.sub(rf"^{re.escape(prefix)}(\d+)\.", lambda match: f"{prefix}{taken[int(match.group(1))]}.", name)
        if source not in files:
            if name not in tied:
                message = f"has no tensor {source}: its layers cannot be taken"
                raise CheckpointError(message, where=str(target.folder), fix=_SCRATCH)
            state[name] = like
            continue
        with safe_open(str(target.folder / files[source]), framework="pt") as file:
            state[name] = file.get_tensor(source).float()
    embedding = next((value for name, value in state.items() if name.endswith(EMBEDDINGS)), None)
    for name in tied & state.keys():
        if name not in files and embedding is not None:
            state[name] = embedding
    return state


def _layer_prefix(network: Any, layers: int) -> str:
    for name, module in network.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers:
            return f"{name}."
    raise CheckpointError(f"{type(network).__name__} has no list of layers", fix=_SCRATCH)


def _with_same_tokenizer(target: Checkpoint, folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``; PairError unless every id that both have means the same token."""
    other = read_checkpoint(folder)
    match = compare_tokenizers(target.tokenizer, other.tokenizer)
    if not match.exchanges:
        shown = ", ".join(f"{item.id}: {item.target!r} and {item.draft!r}" for item in match.differing[:3])
        message = f"{folder.name} has another tokenizer than the target ({match.conflicts} ids differ: {shown})"
        raise PairError(message, fix="start from scratch, which takes the target's: --layers, --hidden")
    return other
