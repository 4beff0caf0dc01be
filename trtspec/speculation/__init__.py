"""Draft and verify: the loop, its accounting, stop words and incremental text. Standard library and numpy only.

This package is copied into the generated model repository and runs there as `speculation`, inside Triton.
"""

from .counters import Counters
from .detokenize import Decode, IncrementalDecoder
from .leaves import Cancelled, DraftLeaf, Expired, LeafError, TargetLeaf
from .loop import LENGTH, STOP, STOP_WORD, Chunk, Generation, Limits, Models, Surroundings
from .policy import Adaptive, DraftPolicy, Fixed, Schedule, clipped, fixed_length
from .settle import Settled, settle
from .stopping import StopWords
from .transcript import Piece, Token, Transcript
from .words import completed_word, pack_words, unpack_words

__all__ = [
    "LENGTH",
    "STOP",
    "STOP_WORD",
    "Adaptive",
    "Cancelled",
    "Chunk",
    "Counters",
    "Decode",
    "DraftLeaf",
    "DraftPolicy",
    "Expired",
    "Fixed",
    "Generation",
    "IncrementalDecoder",
    "LeafError",
    "Limits",
    "Models",
    "Piece",
    "Schedule",
    "Settled",
    "StopWords",
    "Surroundings",
    "TargetLeaf",
    "Token",
    "Transcript",
    "clipped",
    "completed_word",
    "fixed_length",
    "pack_words",
    "settle",
    "unpack_words",
]
