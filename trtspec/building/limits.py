"""Sizes that are built into an engine, derived from the spec and both checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trtspec.checkpoints.checkpoint import Survey, survey_checkpoint
from trtspec.checkpoints.config import ModelConfig
from trtspec.errors import BuildError
from trtspec.spec import Role, SpecFile
from trtspec.toolchain.sizes import DERIVED_LENGTH, UNKNOWN_LENGTH, engine_sizes

__all__ = ["Limits", "derived_max_seq_len", "engine_limits"]

_NO_SPECULATION, _DRAFT_TOKENS_EXTERNAL = 0, 2  # TensorRT-LLM's SpeculativeDecodingMode


@dataclass(frozen=True)
class Limits:
    """`build_config` of an engine."""

    max_batch_size: int
    max_seq_len: int
    max_num_tokens: int
    max_draft_len: int
    speculative_decoding_mode: int

    def document(self) -> dict[str, Any]:
        """As it stands in config.json."""
        return {
            "max_batch_size": self.max_batch_size,
            "max_seq_len": self.max_seq_len,
            "max_num_tokens": self.max_num_tokens,
            "max_beam_width": 1,
            "max_draft_len": self.max_draft_len,
            "speculative_decoding_mode": self.speculative_decoding_mode,
        }


def derived_max_seq_len(spec_file: SpecFile) -> int:
    """Prompt plus output tokens of a request: the spec's, or what the checkpoints given support, at most 8192."""
    given = spec_file.spec.build.max_seq_len
    if given is not None:
        return given
    sources = [role for role in spec_file.spec.roles if role != "baseline"]
    folders = [spec_file.checkpoint(role) for role in sources if spec_file.source(role).checkpoint is not None]
    configs = [_config(survey_checkpoint(folder)) for folder in folders]
    return min([DERIVED_LENGTH, *(config.usable_positions or UNKNOWN_LENGTH for config in configs)])


def engine_limits(spec_file: SpecFile, role: Role) -> Limits:
    """The limits of a role's engine as its config.json has them.

    As TensorRT-LLM does, the target's max_seq_len has room for the draft tokens of the last round on top, and its
    max_num_tokens holds one verification of every sequence in flight. Its builder changes more (`engine_sizes`).
    """
    build = spec_file.spec.build
    length = derived_max_seq_len(spec_file)
    if spec_file.spec.runtime == "tensorrt_llm":
        written = engine_sizes(spec_file.spec, role, length).written
        return Limits(
            written.max_batch_size,
            written.max_seq_len,
            written.max_num_tokens,
            written.max_draft_len,
            written.speculative_decoding_mode,
        )
    if role != "target":
        return Limits(build.max_batch_size, length, build.max_num_tokens, 0, _NO_SPECULATION)
    drafts = spec_file.spec.speculation.engine_draft_length
    tokens = max(build.max_num_tokens, build.max_batch_size * (drafts + 1))
    return Limits(build.max_batch_size, length + drafts, tokens, drafts, _DRAFT_TOKENS_EXTERNAL)


def _config(survey: Survey) -> ModelConfig:
    if survey.config is None:
        raise next((failure.error for failure in survey.failures), BuildError("no configuration"))
    return survey.config
