"""Speculation on the demo's pair, five ways in turn: same prompts, same machine, one run.

    python benchmarks/speculation/run.py [--fast] [--only …] [--prompts builtin] [--category code --category extraction]

* through Triton: both arms as clients see them; * in process: trtspec's loop over two engines in this process, both
arms; * transformers: plain, and its assisted generation with the same draft, with our draft length and with its own
heuristics (`--only` leaves some out).

Every prompt is asked of all contenders before the next one, in an order that turns, so that what else the machine does
falls on all. Costs of a step, a verification and a draft are taken inside the forward passes of the two arms in
process: `ideal` is the speed-up if nothing but those passes took time, and the table says what takes the rest. Decoding
is what comes after an answer's first text. `--levels 4 8` adds throughput of both arms with several streams.

--fast: 8 prompts, 32 tokens, no levels; about two minutes. The load average is printed: figures count on a quiet
machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from benchmarks.speculation.by_transformers import Apart
from benchmarks.speculation.in_process import InProcess
from benchmarks.speculation.pair import Pair, Question, build_pair, questions, serving
from benchmarks.speculation.report import report
from benchmarks.speculation.samples import Sample
from benchmarks.speculation.through_triton import Throughput, ThroughTriton, throughputs
from trtspec.spec import ARMS
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.loading import cpu_threads

Ask = Callable[[Question], Sample]
GROUPS = ("triton", "process", "transformers", "defaults")


def main() -> None:
    options = parsed()
    torch.set_num_threads(1)  # the engines and transformers have threads of their own
    with ExitStack() as stack:
        folder = options.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        section = {"weights": options.weights, **({"threads": options.threads} if options.threads else {})}
        pair = build_pair(folder, draft_length=options.draft_length, torch=section,
                          drafting=drafting(options))  # fmt: skip
        asked = questions(pair, options.prompts, options.category, options.count)
        print(f"{len(asked)} prompts, {options.max_tokens} tokens, draft length {options.draft_length}, "
              f"{threads(options, pair)} thread(s), weights {options.weights}, "
              f"draft {pair.draft.name}, {options.method}, confidence {options.confidence_threshold}")  # fmt: skip
        print(f"load average at the start: {os.getloadavg()[0]:.1f}", flush=True)
        samples, levels = measure(options, pair, asked, stack)
    print(f"load average at the end: {os.getloadavg()[0]:.1f}\n")
    print(report(samples, levels))
    if options.out:
        options.out.write_text("".join(json.dumps(sample.to_json()) + "\n" for sample in samples))


def drafting(options: argparse.Namespace) -> dict[str, Any]:
    """What the spec's `draft` says beside its checkpoint."""
    found: dict[str, Any] = {"method": options.method, "confidence_threshold": options.confidence_threshold}
    if options.draft is not None:
        found["checkpoint"] = str(options.draft.resolve())
    return found | ({"lookup_length": options.lookup_length} if options.method == "lookup" else {})


def threads(options: argparse.Namespace, pair: Pair) -> int:
    """CPU threads of a target's pass."""
    return cpu_threads(options.threads, pair.engine("target"))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--prompts", default="builtin", help="as `trtspec loadtest --prompts`")
    parser.add_argument("--category", action="append", default=[])
    parser.add_argument("--count", type=int, help="prompts; default 24, 0: all")
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--draft", type=Path, help="another draft than the demo's")
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--method", choices=("model", "lookup"), default="model", help="lookup: the text first")
    parser.add_argument("--lookup-length", type=int, default=6)
    parser.add_argument("--confidence-threshold", type=float, default=0.0, help="where a draft ends; trtspec's only")
    parser.add_argument(
        "--threads", type=int, help="CPU threads of a pass, for all contenders; default: as trtspec does"
    )
    parser.add_argument("--weights", choices=("exact", "float16", "int8"), default="exact", help="trtspec's, both arms")
    parser.add_argument("--transformers-dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--levels", type=int, nargs="*")
    parser.add_argument("--repeats", type=int, default=2, help="of each level and arm")
    parser.add_argument("--work", type=Path, help="folder for engines and repositories, to keep them")
    parser.add_argument("--out", type=Path, help="every answer's times, JSON lines")
    options = parser.parse_args()
    usual: dict[str, Any] = {"count": 24, "max_tokens": 64, "levels": [4, 8]}
    fast: dict[str, Any] = {"count": 8, "max_tokens": 32, "levels": []}
    for name, value in (fast if options.fast else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def measure(
    options: argparse.Namespace, pair: Pair, asked: list[Question], stack: ExitStack
) -> tuple[list[Sample], list[Throughput]]:
    """The samples of all contenders, and the throughputs."""
    contenders: dict[str, Ask] = {}
    servers = {}
    length, limit = options.draft_length, options.max_tokens
    if "triton" in options.only:
        servers = stack.enter_context(serving(pair, ARMS, pair.spec_file.root))
        for arm in ARMS:
            contenders[arm] = partial(ThroughTriton(servers[arm], arm).ask, max_tokens=limit)
    if "process" in options.only:
        own = InProcess(pair, RuntimeOptions("cpu", options.threads, weights=options.weights), length)
        stack.callback(own.close)
        contenders["process"] = partial(own.ask, max_tokens=limit, speculative=True)
        contenders["process baseline"] = partial(own.ask, max_tokens=limit, speculative=False)
    if "transformers" in options.only:
        dtype = getattr(torch, options.transformers_dtype)
        theirs = Apart(pair, threads(options, pair), dtype=dtype, draft_length=length)
        stack.callback(theirs.close)
        contenders["transformers"] = partial(theirs.ask, max_tokens=limit)
        contenders["assisted"] = partial(theirs.ask, max_tokens=limit, assisted="fixed")
        if "defaults" in options.only:
            contenders["defaults"] = partial(theirs.ask, max_tokens=limit, assisted="defaults")
    samples = in_turn(list(contenders.values()), asked)
    levels = throughputs(servers, asked, limit, options.levels, options.repeats) if servers else []
    return samples, levels


def in_turn(contenders: list[Ask], asked: list[Question]) -> list[Sample]:
    """Every prompt of all contenders, who begin in turn; the first prompt is asked twice, once to warm up."""
    for ask in contenders:
        ask(asked[0])
    samples: list[Sample] = []
    for number, question in enumerate(asked):
        begin = number % len(contenders)
        samples += [ask(question) for ask in (*contenders[begin:], *contenders[:begin])]
        print(f"\r{number + 1} of {len(asked)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    order = {name: place for place, name in enumerate(dict.fromkeys(_ORDER))}
    return sorted(samples, key=lambda sample: order[sample.contender])


_ORDER = (
    "through Triton", "through Triton, baseline", "in process", "in process, baseline", "transformers, assisted",
    "transformers, assisted (defaults)", "transformers",
)  # fmt: skip


if __name__ == "__main__":
    main()
