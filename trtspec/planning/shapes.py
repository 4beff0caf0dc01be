"""The sizes of a model as memory, placement and speed see it: parameters, bytes, keys and values, operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from trtspec.building.weights import stored_dtype
from trtspec.checkpoints import ModelConfig, Survey
from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.checkpoints.parameters import parameter_count
from trtspec.errors import CheckpointError
from trtspec.planning.kv import KvLayout, kv_layout, resolved_kv_dtype
from trtspec.planning.weights import (
    QUANTIZED,
    dtype_bytes,
    quantized_bytes,
    resolved_dtype,
    resolved_quantization,
    weight_text,
)
from trtspec.spec import ModelSource
from trtspec.spec.names import Runtime
from trtspec.units import three_digits

__all__ = ["CLASSES", "ModelShape", "model_shape", "pipeline_layers", "used_experts"]

CLASSES = ("embedding", "head", "attention", "mlp", "experts", "norms", "other")
_GROUP = 128


@dataclass(frozen=True)
class ModelShape:
    """One model at its precision and parallelism.

    `parameters` by class (a tied head counts 0 in `head`); `stored` bytes by class where the checkpoint is quantized
    and its headers were read; `rank_files` bytes of each rank of an engine that is there already. `intermediate` is
    the widest MLP that one token passes through (experts: experts_per_token of them and the shared ones). `file_dtype`
    is the type of the weights in their file; `proposed` the ids that a draft's head is cut down to by the torch
    runtime (draft_vocabulary.json), None without such a file.
    """

    architecture: str
    origin: Literal["headers", "config", "engine"]
    parameters: Mapping[str, int]
    layers: int
    hidden: int
    heads: int
    intermediate: int
    gated: bool
    vocab_size: int
    dtype: str
    quantization: str
    kv: KvLayout
    tp: int = 1
    pp: int = 1
    group_size: int = _GROUP
    experts: int = 0
    experts_per_token: int = 0
    max_positions: int | None = None
    stored: Mapping[str, int] | None = field(default=None, repr=False)
    rank_files: tuple[int, ...] = ()
    model_type: str = ""
    file_dtype: str = ""
    proposed: int | None = None

    @property
    def world_size(self) -> int:
        """Ranks: tp × pp."""
        return self.tp * self.pp

    @property
    def vocab_padded(self) -> int:
        """Vocabulary rows, padded to a multiple of tp (TensorRT-LLM's pad_vocab_size)."""
        return math.ceil(self.vocab_size / self.tp) * self.tp

    @property
    def total_parameters(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def tied(self) -> bool:
        """True when the embedding serves as the output head."""
        return self.parameters.get("head", 0) == 0

    @property
    def active_parameters(self) -> int:
        """Parameters that one token is multiplied with: the head and all layers, of the experts those it is sent to.

        The embedding is looked up, not multiplied, unless it is the head as well.
        """
        parts = self.parameters
        share = self.experts_per_token / self.experts if self.experts else 1.0
        head = parts["embedding"] if self.tied else parts["head"]
        fixed = sum(parts.get(name, 0) for name in ("attention", "mlp", "norms", "other"))
        return head + fixed + round(parts["experts"] * share)

    @property
    def flops_per_token(self) -> int:
        """Operations of the matrix products for one token: 2 × active parameters, attention over the context apart."""
        return 2 * self.active_parameters

    def attention_flops(self, context: int) -> int:
        """Operations of one token's attention over `context` tokens: 4 × layers × heads × head_dim × context."""
        return 4 * self.layers * self.heads * self.kv.head_dim * context

    @property
    def layer_weight_bytes(self) -> float:
        """Bytes of one weight of a linear layer, scales included."""
        return quantized_bytes(self.quantization, self.dtype, group_size=self.group_size, hidden=self.hidden)

    def class_bytes(self, name: str) -> float:
        """Bytes of a class of parameters in one copy."""
        if self.stored is not None and name in self.stored:
            return self.stored[name]
        each = self.layer_weight_bytes if name in QUANTIZED else dtype_bytes(self.dtype)
        return self.parameters.get(name, 0) * each

    @property
    def weight_bytes(self) -> int:
        """Bytes of one copy of all weights (of an engine: of all its rank files)."""
        if self.rank_files:
            return sum(self.rank_files)
        return round(sum(self.class_bytes(name) for name in CLASSES))

    def bytes_read(self, tokens: int = 1) -> float:
        """Bytes of weights that a pass over `tokens` tokens reads, all ranks together.

        Of `experts`, a token is sent to `experts_per_token`: n tokens touch a share of 1 - (1 - k/E)^n on average.
        """
        share = 1.0
        if self.experts:
            share = 1 - (1 - self.experts_per_token / self.experts) ** tokens
        head = self.class_bytes("embedding" if self.tied else "head")
        fixed = sum(self.class_bytes(name) for name in ("attention", "mlp", "norms", "other"))
        return head + fixed + share * self.class_bytes("experts")

    def stage_layers(self, stage: int) -> range:
        """The layers of a pipeline stage."""
        return pipeline_layers(self.layers, self.pp)[stage]

    def rank_weight_bytes(self, rank: int) -> int:
        """Bytes of weights on a rank (rank = stage × tp + tensor rank).

        The layers are split over tp and pp; the first stage holds the whole embedding on each of its ranks
        (use_parallel_embedding is off by default), the last stage the head, split over tp; norms are copied. A tied
        embedding is shared with the head on a single rank only.
        """
        if self.rank_files:
            return self.rank_files[rank]
        stage = rank // self.tp
        share = len(self.stage_layers(stage)) / self.layers
        total = share * sum(self.class_bytes(name) for name in QUANTIZED) / self.tp
        total += share * sum(self.class_bytes(name) for name in ("norms", "other"))
        if stage == 0:
            total += self.class_bytes("embedding")
        if stage == self.pp - 1 and not (self.tied and self.world_size == 1):
            total += self.class_bytes("embedding" if self.tied else "head") / self.tp
        return round(total)

    def rank_kv_bytes(self, rank: int) -> int:
        """Bytes of one token's keys and values on a rank."""
        return self.kv.bytes_per_token(self.tp, self.stage_layers(rank // self.tp))

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token's keys and values on the rank that holds most."""
        return max(self.rank_kv_bytes(first) for first in range(0, self.world_size, self.tp))

    def weight_formula(self, rank: int = 0) -> str:
        """`rank_weight_bytes` with its numbers."""
        if self.rank_files:
            return f"rank{rank}.engine, as it lies on the disk"
        layers = sum(self.parameters.get(name, 0) for name in QUANTIZED)
        each = weight_text(self.quantization, self.dtype, group_size=self.group_size)
        if self.stored is not None:
            each = "as stored"
        split = f" / tp {self.tp}" if self.tp > 1 else ""
        stages = f" × {len(self.stage_layers(rank // self.tp))}/{self.layers} layers" if self.pp > 1 else ""
        outer = sum(self.parameters.get(name, 0) for name in ("embedding", "head", "norms", "other"))
        copied = "embedding copied, head split; " if self.tp > 1 else ""
        return (
            f"{_millions(layers)} in layers × {each} B{split}{stages}; "
            f"{copied}{_millions(outer)} embedding, head, norms × {dtype_bytes(self.dtype)} B"
        )


def _millions(count: int) -> str:
    return f"{three_digits(count / 1e9)} G" if count >= 1e9 else f"{three_digits(count / 1e6)} M"


@lru_cache(maxsize=64)
def pipeline_layers(layers: int, pp: int) -> tuple[range, ...]:
    """The layers of each pipeline stage: equal parts, the first stages one more where they do not divide."""
    size, extra = divmod(layers, pp)
    starts = [stage * size + min(stage, extra) for stage in range(pp + 1)]
    return tuple(range(start, stop) for start, stop in pairwise(starts))


def model_shape(
    survey: Survey, source: ModelSource, *, runtime: Runtime = "tensorrt_llm", on_cpu: bool = False
) -> ModelShape:
    """The shape of a checkpoint; CheckpointError names the sizes that its config.json does not give.

    Parameters come from the headers of the weights where they are there and not packed, else from the configuration.
    `on_cpu`: the torch runtime without a GPU, which computes in float32, whatever the weights are stored in.
    """
    config = _known(survey)
    parameters, stored = _parameters(survey, config)
    in_file = _file_dtype(survey, source)
    dtype = resolved_dtype(source, config) if runtime != "torch" else "float32" if on_cpu else in_file
    quant = resolved_quantization(source, config)
    headers = survey.weights is not None
    return ModelShape(
        architecture=config.architecture or "unnamed",
        origin="headers" if headers else "config",
        parameters=parameters,
        layers=config.layers or 0,
        hidden=config.hidden or 0,
        heads=config.heads or 0,
        intermediate=_width(config),
        gated=config.gated_mlp is not False,
        vocab_size=survey.vocab_size or 0,
        dtype=dtype,
        quantization=quant,
        kv=kv_layout(config, dtype if runtime == "torch" else resolved_kv_dtype(source, config, dtype)),
        tp=source.tp,
        pp=source.pp,
        group_size=_group(config),
        experts=config.experts or 0,
        experts_per_token=used_experts(config),
        max_positions=config.usable_positions,
        stored=stored if source.quantization == "none" and runtime != "torch" else None,
        model_type=config.model_type or "",
        file_dtype=in_file,
        proposed=_proposed(survey) if runtime == "torch" else None,
    )


def _file_dtype(survey: Survey, source: ModelSource) -> str:
    """The type that the torch runtime's engine stores weights in: the spec's, else that of most of them."""
    if source.dtype != "auto":
        return source.dtype
    if survey.weights is not None:
        return stored_dtype(survey.weights)
    return (survey.config and survey.config.dtype) or "float32"


def _proposed(survey: Survey) -> int | None:
    """The number of ids that a draft may propose; a file that cannot be read is `trtspec check`'s business."""
    try:
        ids = read_draft_vocabulary(survey.folder, survey.vocab_size or 0)
    except CheckpointError:
        return None
    return None if ids is None else len(ids)


def _group(config: ModelConfig) -> int:
    """Weights under one scale; a checkpoint that says -1 has one scale for a whole row."""
    carried = config.quant.group_size if config.quant is not None else None
    if carried is None:
        return _GROUP
    return carried if carried > 0 else config.hidden or _GROUP


def used_experts(config: ModelConfig) -> int:
    """Experts that a token is sent to: all of them where the configuration does not say, and never more."""
    experts = config.experts or 0
    return min(config.experts_per_token or experts, experts)


def _known(survey: Survey) -> ModelConfig:
    """The configuration with every size that a plan needs."""
    if survey.config is None:
        failure = next((item.error for item in survey.failures), None)
        if isinstance(failure, CheckpointError):
            raise failure
        raise CheckpointError("has no configuration to plan with", where=str(survey.folder))
    config = survey.config
    sizes = {
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "head_dim": config.head_dim,
        "vocab_size": survey.vocab_size,
    }
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        raise CheckpointError(
            f"does not give {', '.join(missing)}: memory and speed cannot be planned",
            where=str(survey.folder / "config.json"),
            fix="copy config.json from the model's original checkpoint",
        )
    return config


def _width(config: ModelConfig) -> int:
    """Elements of the MLP's inside that one token passes through in one layer."""
    dense = max(config.layer_intermediate or (config.intermediate or 4 * (config.hidden or 0),))
    if not config.experts:
        return dense
    routed = used_experts(config) * (config.moe_intermediate or dense)
    widest = routed + (config.shared_intermediate or 0)
    return max(widest, dense) if config.dense_layers else widest


def _parameters(survey: Survey, config: ModelConfig) -> tuple[Mapping[str, int], Mapping[str, int] | None]:
    """Parameters by class, and the stored bytes by class of a checkpoint that is quantized already."""
    counted = _counted(config)
    weights = survey.weights
    if weights is None:
        if counted is None:
            raise CheckpointError(
                "its parameters cannot be counted: neither are its weights there nor is its family known",
                where=str(survey.folder),
                fix="fetch the weights, or at least model.safetensors.index.json and the shards' headers",
            )
        return counted, None
    held = _classes({str(name): size for name, size in weights.bytes_by_class.items()})
    if counted is not None and weights.format == "gguf":
        return counted, None
    if counted is not None and config.quant is not None:
        return counted, held
    each = weights.parameters / weights.size if weights.size else 0.0
    return {name: round(size * each) for name, size in held.items()}, None


def _classes(sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` with our classes only; what belongs to none is `other`."""
    held = {name: sizes.get(name, 0) for name in CLASSES}
    held["other"] += sum(size for name, size in sizes.items() if name not in CLASSES)
    return held


def _counted(config: ModelConfig) -> dict[str, int] | None:
    count = parameter_count(config)
    return None if count is None else {name: count.by_class.get(name, 0) for name in CLASSES}
