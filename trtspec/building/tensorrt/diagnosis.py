"""Why a build step failed: the end of its log, and cause and fix of the failures that are known."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.units import bytes_text, cut_text, plain_text

__all__ = ["KNOWN_FAILURES", "Diagnosis", "KnownFailure", "diagnose"]

_READ = 1 << 18
_LINES = 12
_LINE = 2000  # characters of a line that are looked at: patterns need the square of that in steps
_SHOWN = 500  # characters of a line that are shown
_ISSUES = "NVIDIA/TensorRT-LLM#"


@dataclass(frozen=True)
class KnownFailure:
    """A log pattern, what it means and what to do.

    `{name}` stands for a named group of the pattern, in a readable unit where the name ends in `_bytes`.
    """

    id: str
    pattern: str
    cause: str
    fix: str
    source: str


@dataclass(frozen=True)
class Diagnosis:
    """The last lines of a log and, where the failure is known, its id, cause and fix."""

    tail: tuple[str, ...]
    id: str | None = None
    cause: str | None = None
    fix: str | None = None


# The first match decides: the particular before the general. A build log is full of errors that follow from another
# one ("Engine building failed, please check the error log"), so those stand at the end.
KNOWN_FAILURES: tuple[KnownFailure, ...] = (
    KnownFailure(
        "docker-gpu",
        r"could not select device driver|nvidia-container-cli|unknown or invalid runtime name: nvidia",
        "docker has no access to the GPUs",
        "install the NVIDIA Container Toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker",
        "NVIDIA/nvidia-docker#1352, #1642",
    ),
    KnownFailure(
        "docker-daemon",
        r"Cannot connect to the Docker daemon|permission denied while trying to connect to the Docker",
        "docker is not running, or this user may not use it",
        "start docker, or add the user to the group docker",
        "docker's own messages",
    ),
    KnownFailure(
        "docker-image",
        r"manifest for \S+ not found|pull access denied|Unable to find image '(?P<image>[^']+)' locally[\s\S]{0,8000}?"
        r"(?:Error response from daemon|no basic auth|unauthorized)",
        "the image cannot be fetched",
        "check the name; for nvcr.io: docker login nvcr.io; without a network: docker load",
        "docker's own messages",
    ),
    KnownFailure(
        "disk-full",
        r"No space left on device|Errno 28|Disk quota exceeded|Errno 122|SafetensorError.*StorageFull",
        "the disk is full",
        "free some space, or put the folder of the spec on a larger disk; trtspec engines prune lists what is unused",
        "the system's own messages",
    ),
    KnownFailure(
        "file-size",
        r"File too large|\bErrno 27\b",
        "a file grew beyond what this user (ulimit -f) or the file system allows",
        "raise it: ulimit -f unlimited; FAT holds files of 4 GiB at most",
        "the system's own message",
    ),
    KnownFailure(
        "flag",
        r"error: unrecognized arguments: (?P<what>[^\n]+)|error: argument (?P<flag>[^\n]+: invalid [^\n]+)"
        r"|error: the following arguments are required: (?P<needed>[^\n]+)",
        "this program does not take what it was given ({what}): another version than the one that was planned for",
        "set tensorrt_llm.version to the installed one (trtspec doctor shows it); look at build.extra_flags",
        f"{_ISSUES}2143, #2057, #2008",
    ),
    KnownFailure(
        "architecture",
        r"Unsupported model architecture: (?P<name>\S+)|(?P<model>\S+) is not (?:a )?supported (?:model|architecture)"
        r"|KeyError: '(?P<key>\w+For(?:CausalLM|ConditionalGeneration))'"
        r"|Cannot export (?P<exported>\w+) to a TensorRT-LLM checkpoint"
        r"|does not recognize this architecture|[Uu]nrecognized configuration class",
        "TensorRT engines do not exist for this model class ({name}) in this version",
        "use runtime torch to measure the pair, or a model of a supported class",
        f"{_ISSUES}1021, #1026",
    ),
    KnownFailure(
        "gptq-act-order",
        r"(?:desc_act|act[-_]order)[^\n]*(?:[Tt]rue|not supported|unsupported)",
        "the GPTQ checkpoint was quantized with activation order (desc_act), which the converter refuses",
        "take a GPTQ checkpoint with desc_act false, an AWQ one, or the original weights with quantization: int4_awq",
        f"{_ISSUES}503",
    ),
    KnownFailure(
        "no-gpu",
        r"max_workers must be greater than 0|No CUDA GPUs are available|no CUDA-capable device is detected"
        r"|Found no NVIDIA driver|CUDA_ERROR_NO_DEVICE|Torch not compiled with CUDA enabled",
        "the program sees no GPU",
        "build where nvidia-smi shows one; in a container start it with --gpus all; look at CUDA_VISIBLE_DEVICES",
        f"{_ISSUES}1164, #1523",
    ),
    KnownFailure(
        "driver",
        r"CUDA driver version is insufficient|driver version is too old|compatibility mode is UNAVAILABLE"
        r"|forward compatibility was attempted on non supported HW|system has unsupported display driver",
        "the NVIDIA driver is older than this CUDA version needs",
        "update the driver (trtspec doctor names the version), or use an older image",
        f"{_ISSUES}331, #23",
    ),
    KnownFailure(
        "fp8-hardware",
        r"require hardware with FP8 support|[Ff][Pp]8 FMHA cannot be enabled|Unsupported SM version for FP8"
        r"|FP8 is (?:not supported|unsupported)|FP4 is (?:not supported|unsupported)|NVFP4 .*(?:SM|Blackwell)",
        "this GPU cannot compute in this quantization: fp8 needs SM 89 or newer, nvfp4 SM 100 or newer",
        "write another quantization and kv_cache_dtype, or build on the GPU that will serve",
        f"{_ISSUES}1428, #796, #2855",
    ),
    KnownFailure(
        "wrong-sm",
        r"no kernel image is available|Unsupported (?:architecture|Arch)\b|unsupported SM|SM\s?\d+ is not supported"
        r"|not supported on (?:this GPU|SM|device)|CUDA error: invalid device function"
        r"|[Tt]arget GPU SM \d+ is not supported",
        "this GPU's architecture has no kernels in this version of TensorRT-LLM",
        "use a GPU of SM 80 or newer that the version supports, or another version (tensorrt_llm.version)",
        f"{_ISSUES}1515, #159, #6158",
    ),
    KnownFailure(
        "scratch-space",
        r"requires (?P<needed_bytes>\d+) bytes of scratch space, but only (?P<free_bytes>\d+) is available",
        "the attention plugin needs more scratch memory ({needed_bytes}) than the GPU has left ({free_bytes})",
        "lower build.max_num_tokens, build.max_seq_len or build.max_batch_size",
        f"{_ISSUES}2688",
    ),
    KnownFailure(
        "gpu-memory",
        r"CUDA out of memory|OutOfMemoryError|Error Code 2: OutOfMemory|cudaErrorMemoryAllocation"
        r"|Requested amount of GPU memory \((?P<bytes>\d+) bytes\)|CUDA runtime error in [^\n]*out of memory"
        r"|insufficient memory on requested size",
        "the GPU's memory did not suffice",
        "stop what else uses the GPU (nvidia-smi); lower build.max_num_tokens and build.max_batch_size; raise tp",
        f"{_ISSUES}346, #1543, #2451",
    ),
    KnownFailure(
        "quantization-mismatch",
        r"(?:Required but not provided tensors|KeyError)[^\n]*(?:scaling_factor|per_channel_scale|_scale\b|qweight"
        r"|qzeros|scales)|does not contain tensor [^\n]*(?:scale|qweight|qzeros)"
        r"|[Qq]uantization config [^\n]*does not match|scaling_factor of [^\n]* unexpected"
        r"|not the same shape as the original",
        "the weights are not of the quantization that is asked for (scales are missing or shapes differ)",
        "quantize from the original weights (quantization: …), or leave out quantization for a checkpoint that "
        "carries its own; not every pair of weights and kv_cache_dtype exists",
        f"{_ISSUES}1677, #1634, #2602, NVIDIA/Model-Optimizer#500",
    ),
    KnownFailure(
        "missing-tensor",
        r"does not contain tensor (?P<tensor>[\w.]+)|KeyError: '(?P<key>[\w.]+\.(?:weight|bias))'"
        r"|Required but not provided tensors:\s*\{'(?P<name>[^']+)",
        "the tensor {tensor} is not in the checkpoint",
        "trtspec check names weight files that do not belong there; a model with tied embeddings has no lm_head of its "
        "own: update to the newest patch of this TensorRT-LLM version",
        f"{_ISSUES}1732, #1785, #2677, #2467",
    ),
    KnownFailure(
        "damaged-weights",
        r"InvalidHeaderDeserialization|MetadataIncompleteBuffer|HeaderTooLarge|HeaderTooSmall|UnpicklingError",
        "a weight file is damaged or a Git LFS pointer",
        "trtspec check names it; fetch the checkpoint again: hf download ORG/MODEL --local-dir FOLDER",
        f"{_ISSUES}1287, #2052",
    ),
    KnownFailure(
        "rope-scaling",
        r"rotary_scaling\['type'\]|KeyError: '(?:type|rope_type)'|rope_scaling` must be a dictionary",
        "the converter does not know this checkpoint's kind of rope scaling",
        "update TensorRT-LLM and transformers to the versions that belong together",
        f"{_ISSUES}2052, #2105, #2302",
    ),
    KnownFailure(
        "divisible",
        r"^(?P<what>[^\n]*not divisible[^\n]*)|^(?P<must>[^\n]*must be divisible[^\n]*)"
        r"|^(?P<multiple>[^\n]*must be a multiple of[^\n]*)|AssertionError[^\n]*(?P<tp>tp_size[^\n]*)",
        "a size of the model cannot be split: {what}",
        "choose a tp that divides attention heads, key/value heads, vocabulary and quantization groups",
        f"{_ISSUES}98, #374, #2200, #894",
    ),
    KnownFailure(
        "calibration-data",
        r"(?:ConnectionError|OfflineModeIsEnabled|LocalEntryNotFoundError|MaxRetryError|DatasetNotFoundError"
        r"|Couldn't (?:reach|find)[^\n]*(?:dataset|huggingface)|Temporary failure in name resolution)",
        "the calibration texts could not be fetched",
        "give a folder on this machine: calibration.dataset in the spec",
        "quantize.py fetches cnn_dailymail from the hub by default",
    ),
    KnownFailure(
        "modelopt",
        r"No module named '(?:modelopt|ammo)[\w.]*'",
        "ModelOpt, which quantizes, is not installed beside TensorRT-LLM",
        "use NVIDIA's image (--in-docker), or: pip install nvidia-modelopt",
        f"{_ISSUES}1895, #2078",
    ),
    KnownFailure(
        "module",
        r"No module named '(?P<module>[^']+)'",
        "the Python package {module} is not installed in TensorRT-LLM's environment",
        "use NVIDIA's image (--in-docker), or install it there",
        "Python's own message",
    ),
    KnownFailure(
        "library",
        r"error while loading shared libraries: (?P<library>[^:\s]+)|ImportError: (?P<file>lib[\w.+-]+):",
        "the shared library {library} is missing",
        "use NVIDIA's image (--in-docker); by pip TensorRT-LLM needs libopenmpi-dev and the matching CUDA and torch",
        "installation guide of TensorRT-LLM",
    ),
    KnownFailure(
        "tensorrt-version",
        r"[Ss]erialization (?:assertion|version)[^\n]*(?:version|Version)|TensorRT version[^\n]*(?:mismatch|expected)"
        r"|version mismatch[^\n]*TensorRT|undefined symbol: \S*nvinfer",
        "TensorRT and TensorRT-LLM do not belong together",
        "use an image in which they do (trtspec doctor lists them)",
        f"{_ISSUES}1695",
    ),
    KnownFailure(
        "profile",
        r"does not satisfy any optimization profile|optimization profile[^\n]*(?:invalid|error|kMAX|kOPT)"
        r"|got (?:dim|opt_num_tokens)[^\n]*min|opt_num_tokens[^\n]*(?:larger|greater|exceed)",
        "the sizes do not form a profile: the smallest, usual and largest number of tokens contradict each other",
        "raise build.max_num_tokens, at least to max_batch_size × (max_draft_length + 1)",
        f"{_ISSUES}1714, #1827",
    ),
    KnownFailure(
        "no-implementation",
        r"Could not find any implementation for node",
        "TensorRT found no kernel for a layer of this model (sizes, types or memory do not allow one)",
        "free GPU memory and try again; lower build.max_num_tokens; leave build.extra_flags at their defaults",
        f"{_ISSUES}1478, #54",
    ),
    KnownFailure(
        "worker-killed",
        r"terminated with signal SIGKILL|BrokenProcessPool|terminated abruptly|^Killed$",
        "a worker process was killed, most likely for want of host memory",
        "free memory, add swap, or build with --jobs 1; a conversion needs about the size of the checkpoint",
        f"{_ISSUES}102, #678, #1728, #2539",
    ),
    KnownFailure(
        "host-memory",
        r"MemoryError|Cannot allocate memory|std::bad_alloc|can't allocate memory",
        "the machine's memory did not suffice",
        "free memory, add swap, or build with --jobs 1; a conversion needs about the size of the checkpoint",
        f"{_ISSUES}217, #743",
    ),
    KnownFailure(
        "permission",
        r"Permission denied: '?(?P<path>[^'\n]+)'?|Errno 13",
        "a file may not be read or written: {path}",
        "look at the owner of the files (a container that ran as root leaves such files)",
        "the system's own message",
    ),
    KnownFailure(
        "engine-failed",
        r"Engine building failed|Failed to build engine|a bytes-like object is required, not 'NoneType'",
        "TensorRT gave up; the first line with [E] in the log tells why",
        "read the log from its first [E] line; free the GPU and try again",
        f"{_ISSUES}978, #1479",
    ),
)

_SIGNALS = {
    signal.SIGKILL: (
        "host-memory",
        "the system killed it (signal 9), most likely for want of host memory",
        "free memory, add swap, or build with --jobs 1; dmesg shows whether the kernel ended it",
    ),
    signal.SIGSEGV: (
        "crash",
        "it crashed (signal 11)",
        "check that driver, image and GPU belong together (trtspec doctor); then report the log to TensorRT-LLM",
    ),
    signal.SIGABRT: ("crash", "it aborted (signal 6)", "read the last [ERROR] line of the log"),
    signal.SIGXFSZ: ("disk-full", "a file grew beyond the limit of this user (signal 25)", "raise it: ulimit -f"),
    signal.SIGBUS: ("disk-full", "it lost memory mapped from a file (signal 7): a full disk or /dev/shm", "free space"),
}
_NOISE = re.compile(r"^\s*(?:\^+|~+)?\s*$|FutureWarning|DeprecationWarning|^\s*warnings\.warn\(|UserWarning")


def _end(log: Path) -> str:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _READ))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _lines(text: str) -> list[str]:
    """Lines without noise and control characters; of one that was drawn over (a progress bar) the last state."""
    whole = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    return [line for long in whole if not _NOISE.search(line := plain_text(cut_text(long, _LINE)))]


def diagnose(log: Path, exit_code: int | None) -> Diagnosis:
    """Tail, cause and fix for a program that ended with `exit_code` (negative: a signal; 128 + n from a shell).

    Reads only the end of the log, however long it is; the tail has its last informative lines.
    """
    lines = _lines(_end(log))
    tail, text = tuple(cut_text(line, _SHOWN) for line in lines[-_LINES:]), "\n".join(lines)
    for known in KNOWN_FAILURES:
        if match := re.search(known.pattern, text, re.MULTILINE):
            return Diagnosis(tail, known.id, _filled(known.cause, match), _filled(known.fix, match))
    return Diagnosis(tail, *_by_signal(exit_code))


def _by_signal(exit_code: int | None) -> tuple[str | None, str | None, str | None]:
    number = -exit_code if exit_code is not None and exit_code < 0 else (exit_code or 0) - 128
    if number not in signal.valid_signals():
        return None, None, None
    known = _SIGNALS.get(number)  # type: ignore[call-overload]  # an int finds its Signals member
    return known or ("signal", f"it was ended by signal {number}", None)


def _filled(template: str, match: re.Match[str]) -> str:
    groups: Sequence[str] = [value for value in match.groups() if value]
    names = re.findall(r"{(\w+)}", template)
    values = {name: (match.groupdict().get(name) or (groups[0] if groups else "?")).strip() for name in names}
    sizes = {name: bytes_text(int(value)) for name, value in values.items() if name.endswith("_bytes")}
    return template.format(**{**values, **sizes})
