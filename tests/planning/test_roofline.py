from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.planning.models import LLAMA_70B, ROUND_GPU, llama, mixtral, speed_model
from trtspec.errors import UsageError
from trtspec.planning.kv import KvLayout
from trtspec.planning.roofline import Assumptions, Machine, Pass, pass_time, prefill_time, with_assumptions

# nothing but the roofs
BARE = Assumptions(1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MACHINE = Machine(ROUND_GPU, BARE)
MODEL = llama(32, 4096, 32, 14336)


def test_one_sequence_waits_for_the_weights() -> None:
    found = pass_time(MODEL, MACHINE, Pass(1, 1, 0))
    assert found.memory_bound
    assert found.seconds == pytest.approx(MODEL.bytes_read(1) / ROUND_GPU.bandwidth)


def test_a_large_batch_waits_for_the_arithmetic() -> None:
    found = pass_time(MODEL, MACHINE, Pass(4096, 1, 0))
    assert not found.memory_bound
    assert found.matrices == pytest.approx(4096 * MODEL.flops_per_token / 1e14)


def test_the_ridge_lies_where_both_roofs_meet() -> None:
    """Two-byte weights: operations per byte = tokens; the ridge of this GPU is 100 operations a byte."""
    bytes_per_parameter = MODEL.bytes_read(1) / MODEL.active_parameters
    ridge = 1e14 / 1e12 * bytes_per_parameter / 2
    assert pass_time(MODEL, MACHINE, Pass(int(ridge) - 1, 1, 0)).memory_bound
    assert not pass_time(MODEL, MACHINE, Pass(int(ridge) + 2, 1, 0)).memory_bound


def test_verifying_a_few_tokens_costs_one_step_while_memory_is_the_limit() -> None:
    one, five = (pass_time(MODEL, MACHINE, Pass(1, tokens, 0)).seconds for tokens in (1, 5))
    assert five == pytest.approx(one, rel=1e-5)


def test_the_cache_is_read_once_for_all_tokens_of_a_sequence() -> None:
    context = 8192
    read = MODEL.kv.bytes_per_sequence(context)
    for tokens in (1, 4):
        assert pass_time(MODEL, MACHINE, Pass(8, tokens, context)).attention == pytest.approx(8 * read / 1e12)


def test_a_window_bounds_what_is_read() -> None:
    windowed = replace(MODEL, kv=KvLayout((8,) * 32, 128, "bfloat16", window=1024, windowed=32))
    assert pass_time(windowed, MACHINE, Pass(8, 1, 8192)).attention == pytest.approx(
        pass_time(MODEL, MACHINE, Pass(8, 1, 1024)).attention
    )


def test_experts_are_read_as_they_are_touched() -> None:
    model = mixtral()
    one, many = (pass_time(model, MACHINE, Pass(batch, 1, 0)).matrices for batch in (1, 64))
    expert = model.class_bytes("experts")
    assert many - one == pytest.approx(0.75 * expert / 1e12, rel=0.01)


def test_tensor_parallel_ranks_share_the_work_and_pay_for_it() -> None:
    split = replace(MODEL, tp=4)
    assert pass_time(split, MACHINE, Pass(1, 1, 0)).matrices == pytest.approx(
        pass_time(MODEL, MACHINE, Pass(1, 1, 0)).matrices / 4
    )
    slow = Machine(ROUND_GPU, replace(BARE, collective_latency=1e-5))
    # 2 all-reduces a layer; 4096 two-byte numbers through a ring of 4 at 100 GB/s
    expected = 2 * 32 * (1e-5 + 1.5 * 4096 * 2 / 1e11)
    assert pass_time(split, slow, Pass(1, 1, 0)).communication == pytest.approx(expected)


def test_stages_do_not_shorten_a_step() -> None:
    staged = replace(MODEL, pp=2)
    assert pass_time(staged, MACHINE, Pass(1, 1, 0)).matrices == pytest.approx(
        pass_time(MODEL, MACHINE, Pass(1, 1, 0)).matrices
    )


def test_a_type_without_tensor_cores_multiplies_in_two_bytes() -> None:
    quantized = replace(MODEL, quantization="nvfp4")
    assert pass_time(quantized, MACHINE, Pass(4096, 1, 0)).matrices == pytest.approx(
        pass_time(MODEL, MACHINE, Pass(4096, 1, 0)).matrices
    )
    assert pass_time(replace(MODEL, quantization="fp8"), MACHINE, Pass(4096, 1, 0)).matrices == pytest.approx(
        pass_time(MODEL, MACHINE, Pass(4096, 1, 0)).matrices / 2
    )


def test_a_prompt_in_pieces_reads_the_weights_for_each() -> None:
    whole, pieces = (prefill_time(MODEL, MACHINE, 64, limit) for limit in (64, 16))
    assert pieces == pytest.approx(4 * whole, rel=0.05)


def test_the_baseline_that_nvidia_published() -> None:
    """Llama 3.3 70B in FP8 on one H200 at batch 1: 51.14 tokens/s without a draft.

    developer.nvidia.com/blog, "Boost Llama 3.3 70B Inference Throughput 3x with NVIDIA TensorRT-LLM Speculative
    Decoding". The figure was known when
    the default assumptions were chosen: a check of the sums, no independent validation.
    """
    model = speed_model(LLAMA_70B, prompt=128, output=1024)
    assert model.baseline(1).tokens_per_second_per_user == pytest.approx(51.14, rel=0.05)


@pytest.mark.parametrize(
    "name",
    ["bandwidth_efficiency", "compute_efficiency", "layer_overhead", "step_overhead", "call_latency"],
)
def test_every_assumption_changes_the_result(name: str) -> None:
    plain = speed_model()
    changed = speed_model(assumptions=with_assumptions({name: 0.5 if "efficiency" in name else 0.01}))
    assert changed.speculative(1, 4, 2.5).request_latency != plain.speculative(1, 4, 2.5).request_latency


@pytest.mark.parametrize(
    ("name", "value"), [("call_cpu", 0.01), ("frontend_processes", 0.1), ("recomputed_tokens", 512)]
)
def test_assumptions_of_a_loaded_server_change_the_result(name: str, value: float) -> None:
    plain = speed_model()
    changed = speed_model(assumptions=with_assumptions({name: value}))
    assert changed.speculative(32, 4, 2.5).request_latency > plain.speculative(32, 4, 2.5).request_latency


def test_assumptions_of_links_and_tokens_change_the_result() -> None:
    split = replace(LLAMA_70B, tp=4)
    for changes in ({"interconnect_efficiency": 0.01}, {"collective_latency": 1e-3}, {"token_cpu": 0.01}):
        changed = speed_model(split, assumptions=with_assumptions(changes))
        assert changed.baseline(8).request_latency > speed_model(split).baseline(8).request_latency


def test_a_prompt_of_very_many_pieces_is_costed_at_once_and_nearly_the_same() -> None:
    """Twice as many pieces as are costed one by one: pairs of them, taken in their middle."""
    tokens = 2 * 256 * 64 + 7
    every = sum(
        pass_time(MODEL, MACHINE, Pass(1, min(64, tokens - done), done)).seconds for done in range(0, tokens, 64)
    )
    assert prefill_time(MODEL, MACHINE, tokens, 64) == pytest.approx(every, rel=1e-3)
    assert prefill_time(MODEL, MACHINE, 1 << 24, 16) > prefill_time(MODEL, MACHINE, 1 << 23, 16)


@pytest.mark.parametrize(
    ("name", "value"), [("speed", 1.0), ("bandwidth_efficiency", 1.2), ("bandwidth_efficiency", 0.0),
                        ("step_overhead", -1.0), ("call_cpu", float("nan")), ("call_latency", 1e308),
                        ("compute_efficiency", 1e-300), ("frontend_processes", 1e-300),
                        ("recomputed_tokens", float("inf"))]
)  # fmt: skip
def test_assumptions_that_make_no_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        with_assumptions({name: value})


def test_the_documented_assumptions_are_the_defaults() -> None:
    text = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
    units = {"": 1.0, "ms": 1e-3, "µs": 1e-6}
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) ?(ms|µs|) \|", text, re.MULTILINE)
    documented = {name: float(value) * units[unit] for name, value, unit in rows}
    assert documented == pytest.approx(asdict(Assumptions()))
