"""Eight requests at once against one after another, through Triton: how much sooner, and the same answers?

    python benchmarks/batching/run.py [--fast] [--requests 8] [--max-tokens 64] [--repeats 5] [--arm baseline]

Both ways are taken in turn, each `--repeats` times; the ratio is of the sums. Prefix caches are cold: every repeat has
prompts of its own (a line of its own before the question). The load average is printed: figures count on a quiet
machine only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.speculation.pair import Question, build_pair, questions, serving
from benchmarks.speculation.through_triton import Throughput, ThroughTriton


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="32 tokens, 2 repeats")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--arm", choices=("baseline", "speculative"), default="baseline")
    parser.add_argument("--weights", choices=("exact", "float16", "int8"), default="exact")
    parser.add_argument("--exact-rows", action="store_true", help="a token's bits do not depend on its company")
    parser.add_argument("--work", type=Path, help="folder for engines and repositories, to keep them")
    options = parser.parse_args()
    limit = options.max_tokens or (32 if options.fast else 64)
    repeats = options.repeats or (2 if options.fast else 5)
    with ExitStack() as stack:
        folder = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        section = {"weights": options.weights, "exact_rows": options.exact_rows}
        pair = build_pair(folder, draft_length=4, torch=section, batch=options.requests)
        asked = questions(pair, "builtin", [], options.requests)
        servers = stack.enter_context(serving(pair, (options.arm,), pair.spec_file.root))
        server = ThroughTriton(servers[options.arm], options.arm)
        server.together(asked[:1], 4, 1)
        print(f"{options.requests} requests, {limit} tokens, {options.arm} arm, weights {options.weights}; "
              f"load average {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
        runs = [measured(server, fresh(asked, turn), limit, turn) for turn in range(repeats)]
        texts = [server.together(asked, limit, level).texts for level in (1, len(asked))]
    print(f"load average at the end {os.getloadavg()[0]:.1f}\n")
    show(runs)
    same = sum(alone == beside for alone, beside in zip(*texts, strict=True))
    print(f"\nthe same answer at once as alone: {same} of {len(asked)}")


def fresh(asked: list[Question], turn: int) -> list[Question]:
    """The same questions behind a line that no prompt had before."""
    return [replace(question, text=f"{turn}{number}.\n{question.text}") for number, question in enumerate(asked)]


def measured(server: ThroughTriton, asked: list[Question], limit: int, turn: int) -> dict[int, Throughput]:
    """Seconds of both ways by number of streams; which comes first turns."""
    levels = [1, len(asked)]
    found = {}
    for level in levels if turn % 2 else levels[::-1]:
        marked = [replace(question, text=f"{level} {question.text}") for question in asked]
        found[level] = server.together(marked, limit, level)
    return found


def show(runs: list[dict[int, Throughput]]) -> None:
    one, many = 1, max(runs[0])
    print("| | one after another | at once | sooner |\n| --- | --: | --: | --: |")
    for number, run in enumerate(runs):
        print(f"| run {number + 1} | {run[one].seconds:.2f} s | {run[many].seconds:.2f} s "
              f"| × {run[one].seconds / run[many].seconds:.2f} |")  # fmt: skip
    total = {level: sum(run[level].seconds for run in runs) for level in (one, many)}
    rates = {level: sum(run[level].tokens for run in runs) / total[level] for level in (one, many)}
    print(f"| all | {rates[one]:.1f} tokens/s | {rates[many]:.1f} tokens/s | **× {total[one] / total[many]:.2f}** |")


if __name__ == "__main__":
    main()
