"""What counts as a near-tie follows what the logits were computed in, not what is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trtspec.loadtest.divergence import NEAR_TIE, Examiner, arithmetic
from trtspec.loadtest.sender import SendOptions


def logits(dtype: str) -> NDArray[np.float32]:
    """Logits as a model of this type gives them, widened to float32."""
    values = np.random.default_rng(1).normal(0, 5, 300).astype(np.float32)
    if dtype == "bfloat16":
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(dtype).astype(np.float32)


@pytest.mark.parametrize(
    ("computed", "stored", "runtime", "expected"),
    [
        ("float32", "bfloat16", "torch", "float32"),  # on a CPU
        ("float32", "float16", "torch", "float32"),
        ("bfloat16", "bfloat16", "torch", "bfloat16"),  # on a GPU
        ("float32", "float32", "torch", "float32"),
        ("bfloat16", "float32", "torch", "float32"),
        ("float32", "bfloat16", "tensorrt_llm", "bfloat16"),  # only its last product is in float32
        ("bfloat16", None, None, "bfloat16"),
        ("float16", None, None, "float16"),
        ("float32", None, None, None),
    ],
)
def test_the_arithmetic(computed: str, stored: Any, runtime: Any, expected: str | None) -> None:
    assert arithmetic(logits(computed), stored, runtime) == expected


def test_logits_that_are_masked_do_not_count() -> None:
    masked = logits("bfloat16")
    masked[3] = -np.inf
    assert arithmetic(masked, "bfloat16", "torch") == "bfloat16"


def test_a_checkpoint_in_half_precision_hides_no_gap_that_float32_would_show() -> None:
    examiner = Examiner({}, SendOptions(), "bfloat16", "torch")
    assert examiner.threshold(logits("float32")) == {"arithmetic": "float32", "threshold": NEAR_TIE["float32"]}
    assert examiner.threshold(logits("bfloat16"))["threshold"] == NEAR_TIE["bfloat16"]
    assert Examiner({}, SendOptions()).threshold(logits("float32")) == {"arithmetic": None, "threshold": 0.1}
