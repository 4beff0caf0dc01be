"""Draft and verify: the loop, its accounting, stop words and incremental text. Standard library and numpy only.

This package is copied into the generated model repository and runs there as `speculation`, inside Triton.
"""

from .counters import Counters, Lookups
from .detokenize import Decode, IncrementalDecoder
from .drafting import Drafting, DraftLimits, Proposal
from .leaves import Cancelled, DraftLeaf, Expired, LeafError, TargetLeaf
from .loop import LENGTH, STOP, STOP_WORD, Chunk, Generation, Limits, Models, Surroundings
from .ngram import NgramDraft
from .policy import Adaptive, BySource, DraftPolicy, Fixed, Schedule, Wanted, clipped, fixed_length
from .settle import Settled, settle
from .stopping import StopWords
from .transcript import DRAFTED, LOOKED_UP, Piece, Source, Token, Transcript
from .words import completed_word, pack_words, unpack_words

__all__ = [
    "DRAFTED",
    "LENGTH",
    "LOOKED_UP",
    "STOP",
    "STOP_WORD",
    "Adaptive",
    "BySource",
    "Cancelled",
    "Chunk",
    "Counters",
    "Decode",
    "DraftLeaf",
    "DraftLimits",
    "DraftPolicy",
    "Drafting",
    "Expired",
    "Fixed",
    "Generation",
    "IncrementalDecoder",
    "LeafError",
    "Limits",
    "Lookups",
    "Models",
    "NgramDraft",
    "Piece",
    "Proposal",
    "Schedule",
    "Settled",
    "Source",
    "StopWords",
    "Surroundings",
    "TargetLeaf",
    "Token",
    "Transcript",
    "Wanted",
    "clipped",
    "completed_word",
    "fixed_length",
    "pack_words",
    "settle",
    "unpack_words",
]
