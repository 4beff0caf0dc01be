"""Command-line flags of TensorRT-LLM's programs, as data, for each minor release that is supported.

What the sources do not tell apart between 1.0, 1.1 and 1.2 is the same in all three; each table's `note` says so.
"""

from __future__ import annotations

from dataclasses import replace

from trtspec.toolchain.flags.converters import CONVERTERS
from trtspec.toolchain.flags.migrations import GONE
from trtspec.toolchain.flags.model import MINORS, Flag, FlagTable
from trtspec.toolchain.flags.quantize import AWQ_TEXTS, FORMATS, FP8_FAMILY, QUANTIZE
from trtspec.toolchain.flags.reserved import NEVER_ON, OWN
from trtspec.toolchain.flags.trtllm_build import TRTLLM_BUILD

__all__ = [
    "AWQ_TEXTS",
    "FORMATS",
    "FP8_FAMILY",
    "GONE",
    "MINORS",
    "NEVER_ON",
    "OWN",
    "Flag",
    "FlagTable",
    "build_flags",
    "converter_flags",
    "quantize_flags",
]


def build_flags(minor: str) -> FlagTable:
    """Flags of `trtllm-build` in a minor release (`1.2`)."""
    return _of(TRTLLM_BUILD, minor)


def converter_flags(family: str, minor: str) -> FlagTable:
    """Flags of a family's convert_checkpoint.py; KeyError for a family without one."""
    return _of(CONVERTERS[family], minor)


def quantize_flags(minor: str) -> FlagTable:
    """Flags of examples/quantization/quantize.py."""
    return _of(QUANTIZE, minor)


def _of(table: FlagTable, minor: str) -> FlagTable:
    return replace(table, flags=tuple(flag for flag in table.flags if minor in flag.versions))
