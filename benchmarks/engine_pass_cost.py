"""What a forward pass costs by its number of rows: `python benchmarks/engine_pass_cost.py ENGINE_FOLDER`.

Rows are a sequence's new tokens (1: plain decoding, k + 1: verifying k draft tokens) behind `--context` known ones.
`--clock cpu` counts the time that this thread ran, which a busy machine disturbs less; it is only honest with one
thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.kv import SequenceKV
from trtspec.torch_runtime.loading import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6, 8, 9])
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--passes", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exact-rows", action="store_true")
    parser.add_argument("--weights", choices=("exact", "float16", "int8"), default="exact")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    options = RuntimeOptions(device="cpu", exact_rows=arguments.exact_rows, weights=arguments.weights)
    model = load_model(arguments.engine, options)
    clock = time.thread_time if arguments.clock == "cpu" else time.perf_counter
    samples: dict[int, list[float]] = {rows: [] for rows in arguments.rows}
    with torch.inference_mode():
        kv = SequenceKV(model.kv_shape)
        device = model.kv_shape.device
        model.forward(PackedBatch.build([(kv, [7] * arguments.context)], [1], device))
        for _ in range(arguments.passes):
            for rows in arguments.rows:
                kv.truncate(arguments.context)
                started = clock()
                batch = PackedBatch.build([(kv, [11] * rows)], [rows], device)
                model.forward(batch).argmax(-1).tolist()
                samples[rows].append(clock() - started)
    first = statistics.median(samples[arguments.rows[0]])
    print(
        f"threads {arguments.threads}, context {arguments.context}, clock {arguments.clock}, {arguments.passes} passes"
    )
    print("rows   median ms   least ms   relative")
    for rows, times in samples.items():
        middle = statistics.median(times)
        print(f"{rows:4}  {middle * 1e3:10.2f} {min(times) * 1e3:10.2f} {middle / first:10.2f}")


if __name__ == "__main__":
    main()
