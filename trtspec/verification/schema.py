"""The JSON Schema of verification.json."""

from __future__ import annotations

from trtspec.loadtest.json_shapes import (
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    closed,
    items,
    maybe,
    one_of,
    shape,
)
from trtspec.verification.verdict import CODES

__all__ = ["closed_verification_schema", "verification_schema"]


def verification_schema() -> Schema:
    """What `trtspec verify --output json` prints; objects are open, since keys may be added."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "trtspec verification.json",
        **shape(
            {
                "schema": {"const": 1},
                "verdict_code": one_of(*CODES),
                "verdict": TEXT,
                "passed": FLAG,
                "temperature": NUMBER,
                "strict": FLAG,
                "answers": shape({"asked": COUNT, "failed": COUNT, "errors": items(TEXT)}),
                "equality": maybe(_equality()),
                "distribution": maybe(_distribution()),
                "tasks": maybe(_tasks()),
            },
            meaning="Whether both arms give the same answers. A section is null where it was not asked for.",
        ),
    }


def closed_verification_schema() -> Schema:
    """The schema with unknown keys forbidden."""
    found: Schema = closed(verification_schema())
    return found


def _equality() -> Schema:
    texts = dict.fromkeys(("pair", "prompt_id", "category", "load", "baseline_text", "speculative_text"), TEXT)
    verdicts = ("near-tie", "logic fault?", "not reproduced", "not examined")
    place = {**texts, "concurrency": COUNT, "character": COUNT, "token_index": maybe(COUNT)}
    examined = {
        "reason": maybe(TEXT),
        "baseline_token": COUNT,
        "speculative_token": COUNT,
        "two_best": items(shape({"token": COUNT, "logit": NUMBER})),
        "logit_gap": NUMBER,
        "arithmetic": maybe(TEXT),
        "threshold": NUMBER,
    }
    return shape(
        {
            "compared": COUNT,
            "identical": COUNT,
            "diverged": COUNT,
            "verdicts": shape(dict.fromkeys(verdicts, COUNT)),
            "divergences": items(shape({**place, "verdict": one_of(*verdicts)}, examined)),
        }
    )


def _distribution() -> Schema:
    noise = maybe(shape({"mean": NUMBER, "p95": NUMBER}))
    test = {
        "statistic": NUMBER,
        "degrees": COUNT,
        "p": NUMBER,
        "p_adjusted": NUMBER,
        "noise": noise,
        "total_variation": maybe(NUMBER),
        "detectable": maybe(NUMBER),
        "rejected": FLAG,
    }
    arms = {"baseline": COUNT, "speculative": COUNT}
    cell = shape({"begins": maybe(TEXT), "pooled": FLAG, **arms})
    prompt = {
        "prompt_id": TEXT,
        "category": TEXT,
        "samples": shape(arms),
        "cells": COUNT,
        "largest_differences": items(cell),
    }
    return shape(
        {
            "unit": one_of("tokens", "characters"),
            "samples": COUNT,
            "significance": NUMBER,
            "power": NUMBER,
            "pooled": shape(test),
            "prompts": items(shape({**prompt, **test})),
            "rejected": FLAG,
        }
    )


def _tasks() -> Schema:
    row = shape({"id": TEXT, "load": TEXT, "baseline": FLAG, "speculative": FLAG})
    return shape(
        {
            "tasks": COUNT,
            "right": shape({"baseline": COUNT, "speculative": COUNT}),
            "only_baseline": COUNT,
            "only_speculative": COUNT,
            "p": NUMBER,
            "significance": NUMBER,
            "rejected": FLAG,
            "differing": items(row),
        }
    )
