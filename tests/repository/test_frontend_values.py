"""What the spec says about speculation and limits reaches the frontend, in a form that it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from trtspec.repository.models import FrontendValues, frontend_model
from trtspec.speculation import Adaptive, DraftPolicy, Fixed, Schedule
from trtspec.triton_models.frontend_deployment import Deployment

VALUES = FrontendValues("/tokenizer", (2, 0), 512, 8, 320, 8)


def deployment(folder: Path, **overrides: Any) -> Deployment:
    model = frontend_model(toy_spec(folder, **overrides), "speculative", VALUES)
    return Deployment.from_parameters(model.parameters)


@pytest.mark.parametrize(
    ("speculation", "policy"),
    [
        ({"draft_length": 3}, Fixed(3)),
        ({"policy": "schedule", "schedule": {4: 8, 8: 4, 32: 1}}, Schedule(((4, 8), (8, 4), (32, 1)))),
        (
            {"policy": "adaptive", "draft_length": 5, "min_draft_length": 2, "off_below": 0.25},
            Adaptive(now=5, shortest=2, longest=8, off_below=0.25),
        ),
    ],
    ids=["fixed", "schedule", "adaptive"],
)
def test_the_policy(tmp_path: Path, speculation: dict[str, Any], policy: DraftPolicy) -> None:
    made = deployment(tmp_path, speculation=speculation)
    assert made.draft_policy(None) == policy
    assert made.draft_policy(2) == Fixed(2)


def test_the_limits(tmp_path: Path) -> None:
    limits = {"max_prompt_bytes": 1000, "max_output_tokens": 50, "max_words": 3, "request_timeout": 2.5}
    made = deployment(tmp_path, serving=limits)
    assert (made.max_prompt_bytes, made.max_output_tokens, made.max_words, made.request_timeout) == (1000, 50, 3, 2.5)


def test_no_limits(tmp_path: Path) -> None:
    made = deployment(tmp_path)
    assert (made.max_output_tokens, made.request_timeout) == (None, None)


def test_use_draft_logits_is_an_input_where_logits_are_used(tmp_path: Path) -> None:
    speculation = {"acceptance": "logits"}
    with_logits = toy_spec(tmp_path, runtime="tensorrt_llm", speculation=speculation)
    inputs = [tensor.name for tensor in frontend_model(with_logits, "speculative", VALUES).inputs]
    assert "use_draft_logits" in inputs
    assert "use_draft_logits" not in [tensor.name for tensor in frontend_model(with_logits, "baseline", VALUES).inputs]
