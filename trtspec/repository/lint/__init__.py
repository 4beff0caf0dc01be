"""Holding any model repository, ours or one made by hand, against what Triton and its backends will make of it."""

from trtspec.repository.lint.lint import LintResult, lint_repository
from trtspec.repository.lint.listeners import Listener, collisions, read_launch
from trtspec.repository.lint.paths import RootMap, parse_root_map

__all__ = [
    "LintResult",
    "Listener",
    "RootMap",
    "collisions",
    "lint_repository",
    "parse_root_map",
    "read_launch",
]
