"""Drawing many short answers of both arms, every one with a seed of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO

from trtspec.loadtest.arms import ArmServer
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.sender import SendOptions
from trtspec.spec.names import ARMS, BASELINE_ARM, SPECULATIVE, Arm
from trtspec.verification.answers import Sample, SamplePlan, sample_arm
from trtspec.verification.comparing import job_seed
from trtspec.verification.distribution import Drawn
from trtspec.verification.options import VerifyOptions

__all__ = ["Sampling", "sample_jobs"]


def sample_jobs(jobs: Sequence[Job], options: VerifyOptions, arm: Arm) -> list[tuple[int, Job]]:
    """(number of the prompt, job) of an arm, prompt after prompt in turn.

    No seed comes twice, not in the other arm either: with equal seeds both arms would draw the same tokens, and the
    test would see no difference whatever the distributions are.
    """
    rows = []
    for turn in range(options.samples):
        for number, job in enumerate(jobs):
            index = 2 * (turn * len(jobs) + number) + ARMS.index(arm)
            rows.append((number, replace(job, seed=job_seed(options.load.seed, index), max_tokens=options.tokens)))
    return rows


@dataclass
class Sampling:
    """Draws the samples of `jobs` from both arms; each is a line of `file` too, and `tell` is called after it."""

    servers: Mapping[Arm, ArmServer]
    send: SendOptions
    jobs: Sequence[Job]
    options: VerifyOptions
    file: Path
    tell: Callable[[], None]
    errors: list[str] = field(default_factory=list)

    async def draw(self) -> list[Drawn]:
        """Both arms' samples of every prompt; those that failed are in `errors` only."""
        kept: dict[Arm, list[list[Sample]]] = {arm: [[] for _ in self.jobs] for arm in ARMS}
        with self.file.open("w", encoding="utf-8") as stream:
            for arm in ARMS:
                plan = SamplePlan(sample_jobs(self.jobs, self.options, arm), self.options.load.concurrency[0])
                await sample_arm(arm, self.servers[arm], self.send, plan, partial(self._take, stream, arm, kept[arm]))
        return [
            Drawn(job.prompt.id, job.prompt.category, kept[BASELINE_ARM][number], kept[SPECULATIVE][number])
            for number, job in enumerate(self.jobs)
        ]

    def _take(self, stream: IO[str], arm: Arm, kept: list[list[Sample]], sample: Sample) -> None:
        if sample.error is None:
            kept[sample.prompt].append(sample)
        else:
            self.errors.append(sample.error)
        stream.write(json.dumps(_line(sample, arm, self.jobs)) + "\n")
        self.tell()


def _line(sample: Sample, arm: Arm, jobs: Sequence[Job]) -> dict[str, object]:
    prompt = jobs[sample.prompt].prompt.id
    ids = None if sample.ids is None else list(sample.ids)
    return {"arm": arm, "prompt_id": prompt, "ids": ids, "text": sample.text, "error": sample.error}
