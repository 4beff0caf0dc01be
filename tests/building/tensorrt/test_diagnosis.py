"""Lines that people have reported, and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trtspec.building.tensorrt.diagnosis import KNOWN_FAILURES, diagnose

# ruff: noqa: E501
# one line (or more) of real logs, shortened → the failure's id
REPORTED = [
    ("[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no further information)", "gpu-memory"),
    ("[TRT] [W] Requested amount of GPU memory (24793579520 bytes) could not be allocated.", "gpu-memory"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.", "gpu-memory"),
    ("requires 210571452800 bytes of scratch space, but only 47697362944 is available. Try increasing", "scratch-space"),
    ("ValueError: max_workers must be greater than 0", "no-gpu"),
    ("OSError: [Errno 27] File too large", "file-size"),
    ("RuntimeError: Unsupported model architecture: MPTForCausalLM", "architecture"),
    ("KeyError: 'lm_head.weight'", "missing-tensor"),
    ("safetensors_rust.SafetensorError: File does not contain tensor model.embed_tokens.weight", "missing-tensor"),
    ("RuntimeError: Required but not provided tensors:{'transformer.layers.61.attention.qkv.per_channel_scale', 'x'}", "quantization-mismatch"),
    ("KeyError: 'model.layers.0.self_attn.q_proj.qweight'", "quantization-mismatch"),
    ("Error Code 9: Internal Error (Networks with FP8 precision require hardware with FP8 support.)", "fp8-hardware"),
    ("Assertion failed: FP8 FMHA cannot be enabled except on Ada or Hopper or Blackwell Arch. (x.cpp:2357)", "fp8-hardware"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "wrong-sm"),
    ("Assertion failed: Unsupported architecture (/tensorrt_llm/cpp/fmhaRunner.cpp:89)", "wrong-sm"),
    ("trtllm-build: error: unrecognized arguments: --max_output_len 2048", "flag"),
    ("trtllm-build: error: argument --gemm_plugin: invalid choice: 'int3' (choose from auto)", "flag"),
    ("ModuleNotFoundError: No module named 'modelopt'", "modelopt"),
    ("ModuleNotFoundError: No module named 'tensorrt_llm'", "module"),
    ("datasets.exceptions.DatasetNotFoundError: Dataset 'cnn_dailymail' doesn't exist on the Hub", "calibration-data"),
    ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/datasets", "calibration-data"),
    ("safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization", "damaged-weights"),
    ("rotary_type = rotary_scaling['type']\nKeyError: 'type'", "rope-scaling"),
    ("AssertionError: Number of attention heads 25 must be divisible by tp_size 4", "divisible"),
    ("NotImplementedError: GPTQ checkpoints with desc_act=True are not supported", "gptq-act-order"),
    ("CUDA initialization: The NVIDIA driver on your system is too old: CUDA driver version is insufficient", "driver"),
    ("ERROR: This container was built for NVIDIA Driver Release 535.86 or later, compatibility mode is UNAVAILABLE.", "driver"),
    ("OSError: [Errno 28] No space left on device", "disk-full"),
    ("torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL", "worker-killed"),
    ("286it [00:50,  5.63it/s]\nKilled", "worker-killed"),
    ("Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[x]}.)", "no-implementation"),
    ("AssertionError: Each dimension must specify (min,opt,max), got dim=[1, 128, 64], min > opt", "profile"),
    ("ImportError: libmpi.so.40: cannot open shared object file: No such file or directory", "library"),
    ("PermissionError: [Errno 13] Permission denied: '/engines/rank0.engine'", "permission"),
    ("[TRT-LLM] [E] Engine building failed, please check the error log.", "engine-failed"),
]  # fmt: skip


def written(folder: Path, text: str) -> Path:
    path = folder / "build.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "failure"), REPORTED)
def test_reported_failures_are_known(tmp_path: Path, text: str, failure: str) -> None:
    found = diagnose(written(tmp_path, f"[TRT-LLM] [I] Set context_fmha to True.\n{text}\n"), 1)
    assert found.id == failure
    assert found.cause is not None
    assert "{" not in found.cause
    assert found.fix
    assert "{" not in found.fix


def test_the_root_of_a_chain_of_errors_is_named(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        "[TRT] [E] 2: Error Code 2: OutOfMemory (Requested size was 8589934592 bytes.)\n"
        "[TRT-LLM] [E] Engine building failed, please check the error log.\n"
        "TypeError: a bytes-like object is required, not 'NoneType'\n",
    )
    assert diagnose(log, 1).id == "gpu-memory"


def test_names_are_filled_in(tmp_path: Path) -> None:
    found = diagnose(written(tmp_path, "KeyError: 'lm_head.weight'\n"), 1)
    assert found.cause == "the tensor lm_head.weight is not in the checkpoint"


def test_sizes_are_told_in_a_readable_unit(tmp_path: Path) -> None:
    line = "plugin node requires 17179869184 bytes of scratch space, but only 8487501824 is available.\n"
    assert "(16 GiB) than the GPU has left (7.9 GiB)" in str(diagnose(written(tmp_path, line), 1).cause)


@pytest.mark.parametrize(
    ("code", "failure", "said"),
    [
        (-9, "host-memory", "signal 9"), (137, "host-memory", "signal 9"), (-11, "crash", "signal 11"),
        (-25, "disk-full", "signal 25"), (-4, "signal", "signal 4"), (1, None, None), (None, None, None),
        (255, None, None), (128, None, None), (193, None, None),  # no signals: they go up to 64
    ],
)  # fmt: skip
def test_what_an_exit_code_alone_tells(tmp_path: Path, code: int | None, failure: str | None, said: str | None) -> None:
    found = diagnose(written(tmp_path, "working\n"), code)
    assert found.id == failure
    assert (found.cause is None) if said is None else said in (found.cause or "")


def test_a_log_line_outweighs_the_signal(tmp_path: Path) -> None:
    assert diagnose(written(tmp_path, "CUDA out of memory\n"), -6).id == "gpu-memory"


def test_an_ordinary_log_is_no_failure(tmp_path: Path) -> None:
    text = (
        "[TRT-LLM] [W] Option --gather_generation_logits is deprecated, a build flag is not required anymore.\n"
        "[TRT] [W] Unused Input: position_ids\n[TRT-LLM] [I] Build TensorRT engine Unnamed Network 0\n"
        "[TRT] [I] [MemUsageStats] Peak memory usage of TRT CPU/GPU memory allocators: CPU 9 MiB, GPU 1215 MiB\n"
        "FutureWarning: the engine workflow is legacy\n  warnings.warn(\n"
        "[TRT-LLM] [I] Serializing engine to /engines/rank0.engine...\n"
    )
    assert diagnose(written(tmp_path, text), 1).id is None


def test_the_tail_is_short_without_noise_and_shows_the_last_state_of_a_bar(tmp_path: Path) -> None:
    bar = "".join(f"\rLoading: {percent}%" for percent in range(0, 101, 10))
    tail = diagnose(written(tmp_path, f"{'line' * 9}\n" * 50 + f"{bar}\nFutureWarning: x\n    ^^^^\nlast\n"), 1).tail
    assert tail[-2:] == ("Loading: 100%", "last")
    assert len(tail) == 12
    assert diagnose(tmp_path / "missing.log", 1).tail == ()


_FRAGMENTS = sorted({word for known in KNOWN_FAILURES for word in re.findall(r"[A-Za-z_' ]{4,}", known.pattern)})


@pytest.mark.parametrize(
    "unit",
    ["x", "^", " ", "1", "\r", "\x1b", "\x1b]", "KeyError: 'a", "AssertionError ", "Unable to find image 'x' locally\n", "y " * 2000],
    ids=repr,
)  # fmt: skip
def test_a_log_of_one_endless_line_is_read_all_the_same(tmp_path: Path, unit: str) -> None:
    """Patterns that look for a whole line take the square of its length: hours for what a progress bar writes."""
    found = diagnose(written(tmp_path, unit * (400_000 // len(unit))), 1)
    assert found.id is None
    assert all(len(line) < 600 for line in found.tail)


def test_the_end_of_an_endless_line_counts(tmp_path: Path) -> None:
    assert diagnose(written(tmp_path, "." * 400_000 + " CUDA out of memory"), 1).id == "gpu-memory"
    assert diagnose(written(tmp_path, " ".join(_FRAGMENTS) * 100), 1).id is not None


def test_what_a_terminal_would_obey_is_left_out(tmp_path: Path) -> None:
    log = written(tmp_path, "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m \x9b1mbold\x08\x00\n")
    assert diagnose(log, 1).tail == ("red bold",)


def test_every_known_failure_has_an_example_a_source_and_a_way_out() -> None:
    ids = [known.id for known in KNOWN_FAILURES]
    assert len(set(ids)) == len(ids)
    assert all(known.cause and known.fix and known.source for known in KNOWN_FAILURES)
    shown = {failure for _, failure in REPORTED} | {"docker-gpu", "docker-daemon", "docker-image"}
    assert set(ids) - shown == {"tensorrt-version", "host-memory"}
