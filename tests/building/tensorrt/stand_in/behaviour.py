"""What the stand-in's programs share: the environment that tells them how to behave, their log, tiny tensor files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Stage", "gpus", "log", "log_start", "merged", "say", "sm", "write_slowly", "write_tensors"]

Stage = str

# what the tools say when they fail this way: convert and quantize are transformers and torch, build is TensorRT
_TORCH_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.20 GiB is free."
)
_TRT_OOM = (
    "[TRT] [E] [virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory "
    "(Requested size was 8589934592 bytes.)\n[TRT] [E] IBuilder::buildSerializedNetwork: Error Code 4: Internal Error "
    "(Internal error: plugin node requires 17179869184 bytes of scratch space, but only 8487501824 is available.)"
)
_ERRORS: dict[str, dict[str, str]] = {
    "out_of_memory": {
        "convert": _TORCH_OOM, "quantize": _TORCH_OOM,
        "build": f"{_TRT_OOM}\nAssertionError: Engine building failed, please check the error log.",
    },
    "unsupported_architecture": {
        "convert": "ValueError: The checkpoint you are trying to load has model type `later_model` but Transformers "
        "does not recognize this architecture.",
        "quantize": "NotImplementedError: Cannot export LaterForCausalLM to a TensorRT-LLM checkpoint",
        "build": "AssertionError: Unsupported model architecture: LaterForCausalLM",
    },
    "missing_tensor": {
        "convert": "KeyError: 'lm_head.weight'",
        "quantize": "KeyError: 'lm_head.weight'",
        "build": "RuntimeError: Required but not provided tensors:"
        "{'transformer.layers.0.attention.qkv.activation_scaling_factor'}",
    },
    "wrong_sm": {
        "convert": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "quantize": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "build": "RuntimeError: INT8/INT4 quantization is not supported on SM>=100.",
    },
    "quantization_mismatch": {
        "convert": "AssertionError: Quantization config of the checkpoint does not match the given one",
        "quantize": "RuntimeError: weight_scaling_factor of transformer.layers.0.attention.qkv has an unexpected shape",
        "build": "RuntimeError: Encounter error 'The value updated is not the same shape as the original. "
        "Updated: (4096, 2048), original: (4096, 4096)' for parameter 'transformer.layers.0.attention.qkv.weight'",
    },
    "no_gpu": {
        "convert": "RuntimeError: No CUDA GPUs are available",
        "quantize": "RuntimeError: No CUDA GPUs are available",
        "build": "ValueError: max_workers must be greater than 0",
    },
    "disk_full": dict.fromkeys(("convert", "quantize", "build"), "OSError: [Errno 28] No space left on device"),
}  # fmt: skip


def gpus() -> int:
    """GPUs that the stand-in sees."""
    return int(os.environ.get("STAND_IN_GPUS", "8"))


def sm() -> int:
    """Compute capability of its GPUs, 90 for 9.0."""
    return int(os.environ.get("STAND_IN_SM", "90"))


def say(text: str) -> None:
    """One line on standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def log(text: str, level: str = "I") -> None:
    """One line as TensorRT-LLM's logger prints it."""
    say(f"[{time.strftime('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [{level}] {text}")


def log_start(program: str, version: str) -> None:
    """The line that importing TensorRT-LLM prints, and a record of this start in STAND_IN_LOG."""
    say(f"[TensorRT-LLM] TensorRT LLM version: {version}")
    path = os.environ.get("STAND_IN_LOG")
    if path:
        record = {
            "program": program, "argv": sys.argv, "cwd": str(Path.cwd()), "pid": os.getpid(), "time": time.time(),
            "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "cuda_device_order": os.environ.get("CUDA_DEVICE_ORDER"),
        }  # fmt: skip
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def write_slowly(stage: Stage, half: Callable[[], None], whole: Callable[[], None]) -> None:
    """Write half of the output, work as long as the environment says or fail as it says, then write all of it."""
    mine = os.environ.get("STAND_IN_STAGE", stage) == stage
    half()
    end = time.monotonic() + float(os.environ.get("STAND_IN_SECONDS", "0")) * mine
    step = 0
    while time.monotonic() < end:
        step += 1
        log(f"{stage}: step {step}")
        time.sleep(min(0.05, max(0.0, end - time.monotonic())))
    if mine and os.environ.get("STAND_IN_FAIL"):
        _fail(os.environ["STAND_IN_FAIL"], stage)
    whole()


def _fail(kind: str, stage: Stage) -> None:
    if kind == "crash":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "hang":
        log("Building the engine")
        time.sleep(3600)
    sys.stderr.write(f'Traceback (most recent call last):\n  File "{sys.argv[0]}", line 1, in <module>\n')
    raise SystemExit(_ERRORS[kind][stage])  # argparse's sibling: the text on stderr, exit status 1


def merged(base: Any, over: Any) -> Any:
    """`over` laid over `base`, objects key by key."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {key: merged(base.get(key), over[key]) if key in over else base[key] for key in {**base, **over}}


def write_tensors(path: Path, names: list[str]) -> None:
    """A safetensors file with one small tensor for each name."""
    header = {
        name: {"dtype": "F16", "shape": [16], "data_offsets": [32 * index, 32 * index + 32]}
        for index, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with contextlib.closing(path.open("wb")) as file:
        file.write(len(text).to_bytes(8, "little") + text + bytes(32 * len(names)))
