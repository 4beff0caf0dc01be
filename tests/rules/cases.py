"""All inputs for the rules about pairs."""

from __future__ import annotations

from tests.rules.build_cases import BUILD_CASES
from tests.rules.engine_cases import ENGINE_CASES
from tests.rules.model_cases import MODEL_CASES

__all__ = ["PAIR_CASES"]

PAIR_CASES = (*MODEL_CASES, *ENGINE_CASES, *BUILD_CASES)
