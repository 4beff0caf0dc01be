"""What the frontend adds to its two inner calls a round, beside a bare BLS that makes the same calls and no more.

Both run in one server, on one pair of leaves that answer at once, and are asked in turn, so that what else the machine
does falls on both. A request makes ROUNDS rounds; its time over ROUNDS is one sample.

On 2 CPUs: p50 1.26 ms beside 1.08 ms with one request at a time and 5.92 ms beside 4.77 ms with eight at once (1.16
and 1.24 times the bare one) at load 1; 1.54 beside 1.20 and 6.98 beside 5.56 (1.28 and 1.26 times) after lookups and
admission limits had come, at load 2.5. One instance makes 640 to 770 rounds/s alone, 1 130 to 1 320 with eight at once.

    python benchmarks/frontend_overhead.py [--rounds 40] [--requests 16] [--prompt 64] [--concurrency 1 8]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.triton_models.deployment import make_deployment, write_model
from trtspec.repository.config import ModelSpec
from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS, LEAF_INPUTS, LEAF_OUTPUTS
from trtspec.serving import free_ports, repository_plan, start_server

MODELS = Path(__file__).parent / "models"
FRONTEND, BARE = "tensorrt_llm_bls", "bare_bls"
LENGTH = 4
BLOCKS = 6  # the two are asked in turn


def repository(folder: Path) -> Path:
    """The frontend and the bare BLS in front of one pair of instant leaves."""
    deployment = make_deployment(folder, max_seq_len="100000", end_ids="2")
    leaf = {"model.py": (MODELS / "instant_leaf.py").read_bytes()}
    for name in ("tensorrt_llm", "tensorrt_llm_draft"):
        write_model(deployment.repository, ModelSpec(name, 64, LEAF_INPUTS, LEAF_OUTPUTS, {}), leaf)
    bare = {"model.py": (MODELS / "bare_bls.py").read_bytes()}
    write_model(deployment.repository, ModelSpec(BARE, 64, FRONTEND_INPUTS, FRONTEND_OUTPUTS, {}), bare)
    return deployment.repository


def ask(url: str, model: str, rounds: int, prompt: int) -> float:
    """Milliseconds a round of one request."""
    body = {"text_input": "a" * prompt, "max_tokens": rounds * (LENGTH + 1), "num_draft_tokens": LENGTH}
    data = json.dumps(body).encode()
    start = time.perf_counter()
    with urllib.request.urlopen(f"{url}/v2/models/{model}/generate", data, timeout=120) as response:
        answer = json.loads(response.read())
    seconds = time.perf_counter() - start
    if model == FRONTEND and answer["num_spec_steps"] != rounds:
        raise SystemExit(f"{answer['num_spec_steps']} rounds instead of {rounds}")
    return 1000 * seconds / rounds


def measure(url: str, options: argparse.Namespace, concurrency: int) -> None:
    samples: dict[str, list[float]] = {FRONTEND: [], BARE: []}
    busy = dict.fromkeys(samples, 0.0)
    with ThreadPoolExecutor(concurrency) as pool:
        for _ in range(BLOCKS):
            for model in samples:
                start = time.perf_counter()
                asked = [pool.submit(ask, url, model, options.rounds, options.prompt) for _ in range(options.requests)]
                samples[model] += [answer.result() for answer in asked]
                busy[model] += time.perf_counter() - start
    rates = {model: options.rounds * len(found) / busy[model] for model, found in samples.items()}
    for model, found in samples.items():
        p50, p99 = statistics.median(found), statistics.quantiles(found, n=100)[98]
        timing = f"round p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
        print(f"{model:>16}  concurrency {concurrency:>2}  {timing}  {rates[model]:7.0f} rounds/s")
    ratio = statistics.median(samples[FRONTEND]) / statistics.median(samples[BARE])
    print(f"{'ratio':>16}  p50 {ratio:.2f}  rounds/s {rates[BARE] / rates[FRONTEND]:.2f}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[1, 8])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan = repository_plan(repository(Path(folder)), free_ports(), log=Path(folder) / "server.log")
        server = start_server(plan, ready_timeout=120)
        try:
            url = f"http://{server.http_url}"
            for model in (FRONTEND, BARE):
                ask(url, model, options.rounds, options.prompt)
            for concurrency in options.concurrency:
                measure(url, options, concurrency)
        finally:
            server.stop(now=True)


if __name__ == "__main__":
    main()
