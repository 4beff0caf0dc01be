"""A start from which a draft can already copy.

Much of what a small chat model writes is copied: from the prompt when it summarises or extracts,
from its own answer when it repeats itself.  Where the last two tokens occurred before, the token
that followed them then is right in two cases of three.  Attention learns to copy ("induction
heads", Olsson et al., 2022, https://arxiv.org/abs/2209.11895), but only after far more text than
a small distillation has.  So the first two layers are set up by hand:

* Layer 0 writes codes of the previous token and of the one before it into parts of the residual
  stream that are set aside.  Its heads look at a fixed distance: rotary embeddings turn a constant
  query and key into a score that depends on the distance only.
* Layer 1 compares the codes of the current and the previous token with the codes of the tokens
  before every earlier position, looks where both agree, and adds the token found there to the
  residual stream, from where the tied output head reads it.  Where nothing agrees it looks at a
  token that holds nothing (the one that opens a turn), and so adds nothing.

Everything is trained further; other heads, and all other weights, start as usual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trtspec.training.model import ROPE_THETA, DraftShape, projected_embedding

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

__all__ = ["CopyingStart", "can_copy", "copying_start", "set_up_copying"]

FAST_PAIRS = 6
SLOW_FROM = 9
CONSTANT = 0.4
LOOK_SHARPNESS = 20.0
CODE_LENGTH = 0.6
MATCH_CURRENT = 16.0
MATCH_PREVIOUS = 10.0
MATCH_NOTHING = 6.0
COPY_LENGTH = 6.0


@dataclass(frozen=True)
class CopyingStart:
    """An embedding [V, hidden] with dimensions set aside, and what the copying heads need.

    Dimension 0 is the same for every token once a norm has scaled it; dimensions 1 to ``content`` are the target's
    main directions; then come zeros, for two codes of ``code_size``; the last dimension is set for
    the empty token only, which has no content.  ``code`` [code size, content - 1] maps a token's
    content to its code, and ``whitening`` [content - 1] scales contents for copying.
    """

    embedding: Tensor
    content: int
    code: Tensor
    whitening: Tensor

    @property
    def code_size(self) -> int:
        """Dimensions of one code."""
        return len(self.code)

    @property
    def places(self) -> tuple[slice, slice, slice]:
        """Where content, the code of the previous token and that of the one before it lie."""
        middle = self.content + self.code_size
        return slice(1, self.content), slice(self.content, middle), slice(middle, middle + self.code_size)


def can_copy(shape: DraftShape, width: int) -> bool:
    """Whether a draft of this shape has room for the copying heads, over a target's embedding of ``width``."""
    if shape.layers < 2 or shape.heads < 2 or shape.heads != shape.kv_heads:
        return False
    size = _slow_pairs(shape.hidden // shape.heads)
    return size >= 4 and size <= shape.hidden - 2 * size - 2 <= width


def copying_start(embedding: Tensor, shape: DraftShape, frequency: Tensor, empty: int) -> CopyingStart:
    """The start for a draft of this shape from the target's embedding [V, D].

    ``empty`` is the token that stands for nothing found: one that every prompt holds and no answer.

    Contents are compared and copied by whitened coordinates, in which all directions tell tokens
    apart alike, not mostly the few that vary most.  Principal axes are uncorrelated, so whitening
    divides each by its own spread.
    """
    size = _slow_pairs(shape.hidden // shape.heads)
    content = shape.hidden - 2 * size - 1
    projected = projected_embedding(embedding, content - 1, frequency)
    projected[empty] = 0
    rows = torch.zeros(len(projected), shape.hidden)
    rows[:, 1:content] = projected
    rows[empty, -1] = 1
    rows[:, 0] = CONSTANT * rows.norm(dim=-1)
    weights = frequency.clamp_min(0) / frequency.clamp_min(0).sum()
    whitening = (weights[:, None] * projected.square()).sum(0).rsqrt()
    # The first axis is nearly the same for all tokens: it tells nothing.
    mixing = torch.randn(size, content - 1, generator=torch.Generator().manual_seed(0))
    mixing[:, 0] = 0
    code = torch.linalg.qr(mixing.T).Q.T * whitening
    length = (weights * (_normed(rows)[:, 1:content] @ code.T).norm(dim=-1)).sum()
    return CopyingStart(rows, content, CODE_LENGTH / length * code, whitening)


def _slow_pairs(width: int) -> int:
    """Rotary pairs of a head that compare contents; the last one is for the empty token."""
    return width // 2 - SLOW_FROM - 1


def _normed(rows: Tensor) -> Tensor:
    """The rows as a layer sees them after a norm with unit weights."""
    scaled: Tensor = rows / rows.square().mean(-1, keepdim=True).sqrt()
    return scaled


@torch.no_grad()
def set_up_copying(draft: LlamaForCausalLM, start: CopyingStart) -> None:
    """Set heads 0 and 1 of the first two layers of a draft with as many key as query heads."""
    first, second = (layer.self_attn for layer in draft.model.layers[:2])
    content, previous, before = start.places
    width, size = first.head_dim, start.code_size
    for head, (distance, place) in enumerate(((1, previous), (2, before))):
        rows = slice(head * width, (head + 1) * width)
        _look_back(first, rows, distance)
        first.v_proj.weight[rows] = 0
        first.v_proj.weight[rows][:size, content] = start.code
        first.o_proj.weight[place, rows][:, :size] = torch.eye(size)
    for head in range(2):
        rows = slice(head * width, (head + 1) * width)
        _match(second, rows, start)
        _copy(second, head, start)


def _look_back(attention: Any, rows: slice, distance: int) -> None:
    """Make the head attend to the token ``distance`` back.

    Rotary pair i turns by its frequency f per position.  A constant key and the same query turned
    back by distance · f meet exactly at that distance.
    """
    width = rows.stop - rows.start
    frequency = ROPE_THETA ** (-torch.arange(FAST_PAIRS) / (width // 2))
    # Squared, times the constant's value after the norm, this is the score of one pair.
    gain = (LOOK_SHARPNESS * width**0.5) ** 0.5 / _normed_constant(attention.q_proj.in_features)
    query, key = attention.q_proj.weight[rows], attention.k_proj.weight[rows]
    query.zero_()
    key.zero_()
    key[:FAST_PAIRS, 0] = gain
    query[:FAST_PAIRS, 0] = gain * (distance * frequency).cos()
    query[width // 2 : width // 2 + FAST_PAIRS, 0] = -gain * (distance * frequency).sin()


def _normed_constant(hidden: int) -> float:
    """Dimension 0 of every token after the first norm."""
    return CONSTANT * math.sqrt(hidden / (1 + CONSTANT**2))


def _match(attention: Any, rows: slice, start: CopyingStart) -> None:
    """Make the head attend to positions whose two previous tokens are the current two.

    The first halves of the slow rotary pairs compare the current token, the second the one before.
    """
    content, previous, before = start.places
    width, eye = rows.stop - rows.start, torch.eye(start.code_size)
    current, last = slice(SLOW_FROM, width // 2 - 1), slice(width // 2 + SLOW_FROM, width - 1)
    # Layer 1 sees the embedding (length about 1) and two codes, scaled by its norm.
    first_norm, second_norm = _rms(start, 0), _rms(start, 2)
    code = CODE_LENGTH / second_norm
    query, key = attention.q_proj.weight[rows], attention.k_proj.weight[rows]
    query.zero_()
    key.zero_()
    query[current, content] = MATCH_CURRENT * width**0.5 / code**2 * second_norm / first_norm * start.code
    query[last, previous] = MATCH_PREVIOUS * width**0.5 / code**2 * eye
    key[current, previous] = eye
    key[last, before] = eye
    constant = CONSTANT / second_norm
    query[width - 1, 0] = MATCH_NOTHING * width**0.5 / constant
    key[width - 1, -1] = second_norm


def _copy(attention: Any, head: int, start: CopyingStart) -> None:
    """Make the head add the attended token's whitened content; each head carries a part of it."""
    width = attention.head_dim
    rows = slice(head * width, (head + 1) * width)
    end = min((head + 1) * width, start.content - 1)
    part = torch.arange(head * width, end)
    root = start.whitening[part].sqrt()
    attention.v_proj.weight[rows] = 0
    attention.v_proj.weight[rows][part - head * width, part + 1] = root
    out = torch.zeros(len(start.embedding[0]), width)
    out[part + 1, part - head * width] = root
    # Whitened contents have length sqrt(content) before the norm.
    length = (start.content - 1) ** 0.5 / _rms(start, 2)
    attention.o_proj.weight[:, rows] = COPY_LENGTH / length * out


def _rms(start: CopyingStart, codes: int) -> float:
    """Root mean square of the residual stream with this many codes in it."""
    hidden = start.embedding.shape[1]
    square: float = start.embedding.square().sum(-1).mean().item() + codes * CODE_LENGTH**2
    return math.sqrt(square / hidden)
