"""Sizes that several rules look at: parameters of the models, and the length of a sequence."""

from __future__ import annotations

from trtspec.checkpoints.parameters import parameter_count
from trtspec.rules.facts import Facts, ModelRole
from trtspec.toolchain.sizes import DERIVED_LENGTH

__all__ = ["decoder_buffer_bytes", "model_parameters", "sequence_limit", "size_ratio"]


def model_parameters(facts: Facts, role: ModelRole) -> int | None:
    """Parameters of a model: of its tensors, from config.json where they are packed or absent; None: not known."""
    survey = facts.surveys[role]
    if survey.weights is not None and (survey.config is None or survey.config.quant is None):
        return survey.weights.parameters
    count = parameter_count(survey.config) if survey.config is not None else None
    return count.total if count else None


def size_ratio(facts: Facts) -> tuple[int, int, float] | None:
    """Parameters of target and draft, and the draft's share; None where one is not known, or there is none."""
    if "draft" not in facts.roles:
        return None
    target, draft = model_parameters(facts, "target"), model_parameters(facts, "draft")
    return (target, draft, draft / target) if target and draft is not None else None


def sequence_limit(facts: Facts) -> int | None:
    """Prompt + output tokens of a request: the spec's max_seq_len, else what will be derived; None: not known."""
    given = facts.spec.build.max_seq_len
    usable = facts.pair.usable_length
    return given if given is not None else min(DERIVED_LENGTH, usable) if usable is not None else None


def decoder_buffer_bytes(batch: int, draft_length: int, vocabulary: int, beams: int = 1) -> int:
    """Bytes of the two float32 probability buffers of draft_tokens_external, for draft and target.

    Each is batch × (draft + 1) × beams × vocabulary (cpp/tensorrt_llm/runtime/decoderState.cpp).
    """
    return 2 * 4 * batch * (draft_length + 1) * beams * vocabulary
