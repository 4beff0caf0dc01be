"""The demo's steps: which commands it runs, and the spec it runs them on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from trtspec.demo.models import draft_path
from trtspec.files import write_text

__all__ = ["DemoOptions", "Step", "demo_steps", "write_demo_spec"]

_LOOKUP_LENGTH = 6
SPEC_NAME = "trtspec-demo.yaml"
QUESTION = "Explain in three sentences why the sky is blue."


@dataclass(frozen=True)
class DemoOptions:
    """What the user may choose: the folder of all results and the size of the load test."""

    folder: Path
    requests: int
    concurrency: tuple[int, ...]
    max_tokens: int
    draft_length: int


@dataclass(frozen=True)
class Step:
    """One command of the demo: what it is for and what is typed after `trtspec`."""

    title: str
    arguments: tuple[str, ...]


def write_demo_spec(options: DemoOptions, target: Path) -> Path:
    """Write the demo's spec for the checkpoint `target` and the committed draft; return its path."""
    data = {
        "version": 1,
        "name": "demo",
        "runtime": "torch",
        # float16 weights: half the bytes to read in every pass, in both arms alike
        "target": {"checkpoint": str(target), "dtype": "float16"},
        # what stands in the text is looked up, which costs nothing; the model drafts the rest as far as it is sure
        "draft": {
            "method": "lookup",
            "lookup_length": _LOOKUP_LENGTH,
            "checkpoint": str(draft_path()),
            "confidence_threshold": 0.4,
        },
        "speculation": {
            "draft_length": options.draft_length,
            "max_draft_length": max(8, options.draft_length),
        },
        "build": {"max_batch_size": max(8, *options.concurrency), "max_seq_len": 1024},
        "loadtest": {
            # the draft's measured figures are of these
            "prompts": "builtin-60",
            "concurrency": list(options.concurrency),
            "requests": options.requests,
            "max_tokens": options.max_tokens,
        },
    }
    path = options.folder / SPEC_NAME
    write_text(path, "# Written by `trtspec demo`.\n" + yaml.safe_dump(data, sort_keys=False))
    return path


def demo_steps(spec: Path) -> list[Step]:
    """The commands in the order in which a user would type them."""
    name = str(spec)
    return [
        Step("Do target and draft belong together?", ("check", name)),
        Step("Build the three engines", ("build", name)),
        Step("Generate the Triton model repository of both arms", ("repo", name)),
        Step("Ask one question, with speculation", ("ask", name, QUESTION, "--max-tokens", "80")),
        Step("Measure: paired, interleaved A/B load test, and its report", ("loadtest", name)),
    ]
