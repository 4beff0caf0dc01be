"""What the repository says about this arm: the frontend's model parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:  # in a repository these files lie side by side, in no package
    from trtspec.speculation import Adaptive, DraftPolicy, Fixed, Schedule
else:
    from speculation import Adaptive, DraftPolicy, Fixed, Schedule

__all__ = ["BIRTH", "Deployment", "reachable"]

# A leaf's answer to a request to stop what it does not know: this, then seconds and milliseconds of the system's
# monotonic clock when its process began. NVIDIA's backend answers nothing.
BIRTH = -0x7472_7473


def reachable(folder: str) -> Path:
    """A path by which this process can open `folder`.

    The interpreter of a model's process takes file names as ASCII, whatever the locale; a folder with another name is
    opened once, and known by its descriptor from then on.
    """
    if folder.isascii() or sys.getfilesystemencoding() != "ascii":
        return Path(folder)
    return Path(f"/proc/self/fd/{os.open(folder.encode(), os.O_RDONLY)}")


@dataclass(frozen=True)
class Deployment:
    """Model names, limits, end ids, and how drafts are made."""

    target_model: str
    draft_model: str  # empty: no second model drafts
    tokenizer_dir: str
    num_draft_tokens: int
    max_draft_length: int
    end_ids: tuple[int, ...]
    max_seq_len: int
    vocab_size: int
    draft_timeout: float
    policy: str = "fixed"
    schedule: tuple[tuple[int, int], ...] = ()
    min_draft_length: int = 1
    off_below: float = 0.1
    logits: bool = False  # acceptance by the draft's logits
    fast_logits: bool = False  # the logits are a handle
    max_prompt_bytes: int = 1 << 20
    max_output_tokens: int | None = None
    max_words: int = 64
    request_timeout: float | None = None
    min_tokens_name: str = "min_tokens"  # of the leaves; min_length up to TensorRT-LLM 0.19
    seed_name: str = "seed"  # random_seed up to 0.19
    seed_per_call: bool = False  # the leaves draw the same random numbers again in every call with the same seed
    shared_noise: bool = False  # a draft that draws as the target does sees the same random numbers
    lookup: bool = False  # drafts are looked up in the text first
    lookup_match: int = 2
    lookup_length: int | None = None  # None: as many tokens as the policy wants

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Deployment:
        """Read the model parameters of config.pbtxt; KeyError or ValueError when one is missing or says nothing."""
        given = {key: value for key, value in parameters.items() if value.strip()}
        return cls(
            target_model=parameters["tensorrt_llm_model_name"],
            draft_model=parameters["tensorrt_llm_draft_model_name"],
            tokenizer_dir=parameters["tokenizer_dir"],
            num_draft_tokens=int(parameters["num_draft_tokens"]),
            max_draft_length=int(parameters["max_draft_length"]),
            end_ids=tuple(int(part) for part in parameters["end_ids"].split(",") if part.strip()),
            max_seq_len=int(parameters["max_seq_len"]),
            vocab_size=int(parameters["vocab_size"]),
            draft_timeout=float(parameters["draft_timeout_seconds"]),
            policy=_one_of(given, "draft_policy", "fixed", "schedule", "adaptive"),
            schedule=_schedule(given.get("draft_schedule", "")),
            min_draft_length=int(given.get("min_draft_length", 1)),
            off_below=float(given.get("draft_off_below", 0.1)),
            logits=_one_of(given, "acceptance", "tokens", "logits") == "logits",
            fast_logits=_one_of(given, "fast_logits", "false", "true") == "true",
            max_prompt_bytes=int(given.get("max_prompt_bytes", 1 << 20)),
            max_output_tokens=int(given["max_output_tokens"]) if "max_output_tokens" in given else None,
            max_words=int(given.get("max_words", 64)),
            request_timeout=float(given["request_timeout_seconds"]) if "request_timeout_seconds" in given else None,
            min_tokens_name=given.get("min_tokens_input", "min_tokens"),
            seed_name=given.get("seed_input", "seed"),
            seed_per_call=_one_of(given, "seed_per_call", "false", "true") == "true",
            shared_noise=_one_of(given, "draft_sampling", "greedy", "shared") == "shared",
            lookup=_one_of(given, "lookup", "false", "true") == "true",
            lookup_match=int(given.get("lookup_match", 2)),
            lookup_length=int(given["lookup_length"]) if "lookup_length" in given else None,
        )

    @property
    def drafts(self) -> bool:
        """Whether this arm speculates."""
        return bool(self.draft_model) or self.lookup

    def draft_policy(self, asked: int | None) -> DraftPolicy:
        """The policy of a request: the number that it asks for, else the deployment's."""
        if asked is not None or not self.drafts or self.policy == "fixed":
            return Fixed(self.num_draft_tokens if asked is None else asked)
        if self.policy == "schedule":
            return Schedule(self.schedule)
        return Adaptive(self.num_draft_tokens, self.min_draft_length, self.max_draft_length, self.off_below)


def _one_of(given: Mapping[str, str], key: str, *known: str) -> str:
    """The value of `key`, the first of `known` where it is not given."""
    value = given.get(key, known[0])
    if value not in known:
        raise ValueError(f"{key} is {value!r}, not {' or '.join(known)}")
    return value


def _schedule(text: str) -> tuple[tuple[int, int], ...]:
    """The steps of "4:8,16:4", ascending."""
    steps = (part.split(":") for part in text.split(",") if part.strip())
    return tuple(sorted((int(bound), int(length)) for bound, length in steps))
