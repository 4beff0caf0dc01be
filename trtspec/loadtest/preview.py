"""What a load test would do: its levels, blocks and requests, before anything is sent or started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trtspec.cores import usable_cores
from trtspec.loadtest.arms import check_repositories, placement
from trtspec.loadtest.jobs import Shape
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.plan import Level, few_blocks, make_plan
from trtspec.loadtest.prompts import PromptSet
from trtspec.loadtest.sequential import earliest_stop
from trtspec.loadtest.what import prepare
from trtspec.spec import SpecFile
from trtspec.spec.names import ARMS, BASELINE_ARM

__all__ = ["load_processes", "preview", "run_notes"]

_CONNECTIONS_PER_PROCESS = 256


def load_processes(options: RunOptions, shape: Shape) -> int:
    """Processes that send: as asked, else by the number of connections as far as half of the CPUs allow."""
    if options.workers is not None:
        return options.workers
    most = max((traffic.concurrency for traffic in shape.levels), default=1)
    return max(1, min(usable_cores() // 2, -(-most // _CONNECTIONS_PER_PROCESS)))


def run_notes(prompts: PromptSet, shape: Shape, options: RunOptions) -> list[str]:
    """What to know beforehand: levels with too few blocks for a sound interval, prompts too few to stop early."""
    found = [] if prompts.note is None else [prompts.note]
    if not options.patience.open_ended:
        return [*found, *filter(None, map(few_blocks, make_plan(prompts.prompts, shape)))]
    needed, count = earliest_stop(alone=True), len({one.session or one.id for one in prompts.prompts})
    alone = any(traffic.closed and traffic.concurrency == 1 for traffic in shape.levels)
    if options.until is not None and alone and count < needed:
        found.append(f"--until: {count} prompts are too few to stop by at concurrency 1, which wants {needed}")
    return found


def preview(spec_file: SpecFile | None, options: RunOptions) -> dict[str, Any]:
    """The plan as `loadtest --dry-run` prints it; the errors are those of the run itself before its first request."""
    questions = prepare(spec_file, options)
    if not options.urls and spec_file is not None:
        check_repositories(spec_file, options)
    prompts, shape = questions.prompts, questions.shape
    levels = make_plan(prompts.prompts, shape)
    open_ended = options.patience.open_ended
    return {
        "schema": 1,
        "arms": {arm: options.urls.get(arm) for arm in ARMS},
        "placement": placement(options),
        "prompts": prompts.as_json(),
        "levels": [_level(level) for level in levels],
        "requests": sum(level.requests for level in levels),
        "until": {"duration": options.duration, "width": options.until} if open_ended else None,
        "processes": load_processes(options, shape),
        "options": options.as_json(),
        "notes": run_notes(prompts, shape, options),
    }


def _level(level: Level) -> dict[str, Any]:
    """Requests are those of each arm in the first round, `order` the arm that begins each block (b or s)."""
    traffic = level.traffic
    return {
        "load": level.label,
        "kind": traffic.kind,
        "value": traffic.value,
        "requests": level.requests,
        "blocks": len(level.blocks),
        "order": "".join("b" if block.order[0] == BASELINE_ARM else "s" for block in level.blocks),
        "warm_up": sum(len(block.lead_in) for block in level.blocks) if traffic.closed else None,
        "seconds": None if traffic.closed else max(_due(level), default=0.0),
    }


def _due(level: Level) -> Iterator[float]:
    """When each block's last request is due, in seconds of its own load, added up."""
    total = 0.0
    for block in level.blocks:
        total += max((job.at or 0.0 for job in block.jobs), default=0.0)
        yield total
