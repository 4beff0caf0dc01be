"""The sizes of an engine: what is asked of `trtllm-build`, what its config.json will record, and why they differ.

The builder changes what it is given (tensorrt_llm/builder.py, `_init_max_seq_len` and `build`, 1.2.0 release
candidates; the check of max_num_tokens in tensorrt_llm/_common.py). The same is computed here, so that nobody learns it
from an engine that took hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trtspec.spec import Role, Spec

__all__ = [
    "DERIVED_LENGTH",
    "DRAFT_TOKENS_EXTERNAL",
    "NO_SPECULATION",
    "UNKNOWN_LENGTH",
    "Note",
    "PromptLimit",
    "Sizes",
    "WrittenSizes",
    "engine_sizes",
]

DERIVED_LENGTH = 8192  # tokens of a derived max_seq_len at most: more costs memory that few requests use
UNKNOWN_LENGTH = 2048  # TensorRT-LLM's value for a checkpoint that names no length
# SpeculativeDecodingMode, an integer flag in config.json (tensorrt_llm/models/modeling_utils.py)
NO_SPECULATION, DRAFT_TOKENS_EXTERNAL = 1, 2
_LARGE_STEP = 16384  # tokens in one pass from which the builder warns: tensors may exceed TensorRT's limit


@dataclass(frozen=True)
class WrittenSizes:
    """`build_config` of the engine as its config.json will have it."""

    max_batch_size: int
    max_input_len: int
    max_seq_len: int
    max_num_tokens: int
    opt_num_tokens: int
    max_beam_width: int
    max_draft_len: int
    speculative_decoding_mode: int


@dataclass(frozen=True)
class Note:
    """A size that the builder changes, or remarks on: what was asked, what will be written, why."""

    name: str
    asked: int
    written: int
    why: str

    def __str__(self) -> str:
        if self.asked == self.written:
            return f"{self.name} {self.asked}: {self.why}"
        return f"{self.name} {self.asked} becomes {self.written}: {self.why}"


@dataclass(frozen=True)
class PromptLimit:
    """The longest prompt that an engine takes, and what limits it."""

    tokens: int
    why: str


@dataclass(frozen=True)
class Sizes:
    """Sizes of one engine as they go on the command line; `written` is what becomes of them."""

    max_batch_size: int
    max_input_len: int
    max_seq_len: int
    max_num_tokens: int
    max_draft_len: int
    tokens_per_block: int
    speculative: bool
    max_beam_width: int = 1

    @property
    def written(self) -> WrittenSizes:
        """The same after the builder's changes."""
        return WrittenSizes(
            max_batch_size=self.max_batch_size,
            max_input_len=min(self.max_input_len, self.max_seq_len),
            max_seq_len=self.max_seq_len + self.max_draft_len,
            max_num_tokens=max(self._checked_tokens, self._verification) if self.speculative else self._checked_tokens,
            opt_num_tokens=min(self.max_batch_size * self.max_beam_width, self.max_num_tokens, self._checked_tokens),
            max_beam_width=self.max_beam_width,
            max_draft_len=self.max_draft_len,
            speculative_decoding_mode=DRAFT_TOKENS_EXTERNAL if self.speculative else NO_SPECULATION,
        )

    @property
    def _verification(self) -> int:
        """Tokens of one verification of every sequence in flight."""
        return self.max_batch_size * (self.max_draft_len + 1)

    @property
    def _checked_tokens(self) -> int:
        """max_num_tokens after the builder's check, before speculation is counted."""
        capped = min(self.max_num_tokens, self.max_seq_len * self.max_batch_size)
        return max(capped, self.tokens_per_block)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Every change that the builder will make, and its warning, in words."""
        return tuple(_notes(self, self._checked_tokens, self._verification))

    def prompt_limit(self, *, chunked: bool = True) -> PromptLimit:
        """The longest prompt in tokens.

        One token of max_seq_len is left for the answer. Packed input is one pass over the whole prompt, so that
        max_num_tokens limits it as well, unless the executor cuts prompts into chunks (`chunked`; it can, because
        paged context FMHA is on). NVIDIA/TensorRT-LLM#2702, #6539. max_input_len does not: it is ignored with packed
        input and context FMHA, which speculation needs (trtllm-build's command page of 1.2.0).
        """
        tokens, why = self.max_seq_len - 1, f"max_seq_len {self.max_seq_len} holds the prompt and its answer"
        most = self.written.max_num_tokens
        if not chunked and most < tokens:
            tokens, why = most, f"without chunked context a prompt goes through in one pass of {most} max_num_tokens"
        return PromptLimit(tokens, why)

    def document(self) -> dict[str, Any]:
        """For display: asked and written value of each size, and the reason where they differ."""
        written = self.written
        reasons = {note.name: note.why for note in self.notes}
        names = ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens", "max_beam_width", "max_draft_len")
        return {
            name: {"asked": getattr(self, name), "written": getattr(written, name), "why": reasons.get(name)}
            for name in names
        }


def _notes(sizes: Sizes, checked: int, verification: int) -> Iterator[Note]:
    if sizes.max_input_len > sizes.max_seq_len:
        yield Note("max_input_len", sizes.max_input_len, sizes.max_seq_len, "no prompt is longer than max_seq_len")
    if sizes.max_draft_len:
        drafted = f"the builder adds max_draft_len {sizes.max_draft_len}, room for the draft tokens of the last round"
        yield Note("max_seq_len", sizes.max_seq_len, sizes.max_seq_len + sizes.max_draft_len, drafted)
    written = max(checked, verification) if sizes.speculative else checked
    if written != sizes.max_num_tokens:
        yield Note("max_num_tokens", sizes.max_num_tokens, written, _tokens_reason(sizes, written))
    if written > _LARGE_STEP:
        yield Note("max_num_tokens", written, written, f"the builder warns above {_LARGE_STEP}: slow, and may fail")


def _tokens_reason(sizes: Sizes, written: int) -> str:
    if written == sizes.max_batch_size * (sizes.max_draft_len + 1) and sizes.speculative:
        return f"one verification of {sizes.max_batch_size} sequences × ({sizes.max_draft_len} + 1) tokens must fit"
    if written == sizes.tokens_per_block and sizes.max_num_tokens < written:
        return f"a block of the KV cache holds {sizes.tokens_per_block}"
    return f"no more than max_seq_len {sizes.max_seq_len} × max_batch_size {sizes.max_batch_size} can ever be in flight"


def engine_sizes(spec: Spec, role: Role, max_seq_len: int) -> Sizes:
    """The sizes of a role's engine; every one is given, so that no default of the tool (batch 2048) applies.

    Baseline and target differ in nothing but room for draft tokens.
    """
    build = spec.build
    speculative = role == "target"
    return Sizes(
        max_batch_size=build.max_batch_size,
        max_input_len=build.max_input_len or max_seq_len - 1,
        max_seq_len=max_seq_len,
        max_num_tokens=build.max_num_tokens,
        max_draft_len=spec.speculation.engine_draft_length if speculative else 0,
        tokens_per_block=build.tokens_per_block,
        speculative=speculative,
    )
