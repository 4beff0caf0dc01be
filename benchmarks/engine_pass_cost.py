"""What a forward pass costs by its number of rows: `python benchmarks/engine_pass_cost.py ENGINE_FOLDER`.

Rows are a sequence's new tokens (1: plain decoding, k + 1: verifying k draft tokens) behind `--context` known ones.
`--sequences N` computes so many sequences in one pass, each with these rows; 8 sequences of 1 row and 1 sequence of 8
rows differ by what reading the keys and values of all of them costs.
`--clock cpu` counts the time that this thread ran, which a busy machine disturbs less; it is only honest with one
thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from trtspec.errors import TrtspecError
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.engine import Model
from trtspec.torch_runtime.kv import SequenceKV
from trtspec.torch_runtime.loading import load_model
from trtspec.torch_runtime.pool import KVPool


def _filled(model: Model, sequences: int, context: int, longest: int) -> list[SequenceKV]:
    """Sequences of `context` tokens, side by side as an engine keeps them."""
    pool = KVPool.create(model.kv_shape, sequences, context + longest)
    kvs = [SequenceKV(model.kv_shape) if pool is None else pool.new(context, 0) for _ in range(sequences)]
    for kv in kvs:
        model.forward(PackedBatch.build([(kv, [7] * context)], [1], model.kv_shape.device))
    return kvs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6, 8, 9])
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1, help="default: 1; servers take all cores")
    parser.add_argument("--exact-rows", action="store_true")
    parser.add_argument("--weights", choices=("exact", "float16", "int8"), default="exact")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    options = RuntimeOptions(device="cpu", exact_rows=arguments.exact_rows, weights=arguments.weights)
    try:
        model = load_model(arguments.engine, options)
    except TrtspecError as error:
        parser.error(f"{error} (an engine folder has a config.json: engines/NAME/target/KEY)")
    clock = time.thread_time if arguments.clock == "cpu" else time.perf_counter
    samples: dict[int, list[float]] = {rows: [] for rows in arguments.rows}
    with torch.inference_mode():
        kvs = _filled(model, arguments.sequences, arguments.context, max(arguments.rows))
        for _ in range(arguments.passes):
            for rows in arguments.rows:
                for kv in kvs:
                    kv.truncate(arguments.context)
                started = clock()
                parts = [(kv, [11] * rows) for kv in kvs]
                batch = PackedBatch.build(parts, [rows] * len(kvs), model.kv_shape.device)
                model.forward(batch).argmax(-1).tolist()
                samples[rows].append(clock() - started)
    first = statistics.median(samples[arguments.rows[0]])
    print(
        f"threads {arguments.threads}, sequences {arguments.sequences}, context {arguments.context}, "
        f"clock {arguments.clock}, {arguments.passes} passes"
    )
    print("rows   median ms   least ms   relative")
    for rows, times in samples.items():
        middle = statistics.median(times)
        print(f"{rows:4}  {middle * 1e3:10.2f} {min(times) * 1e3:10.2f} {middle / first:10.2f}")


if __name__ == "__main__":
    main()
