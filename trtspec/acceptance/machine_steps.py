"""Steps that look at the machine: what it is, its GPUs, and the flags that its TensorRT-LLM really has."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from trtspec.acceptance.context import Context, Skip, StepFailure, last_words
from trtspec.provenance import provenance
from trtspec.toolchain.detect import installed_version
from trtspec.toolchain.families import FAMILIES
from trtspec.toolchain.flags import FlagTable, build_flags, converter_flags, quantize_flags
from trtspec.toolchain.releases import is_supported, minor_of

__all__ = ["compare_flags", "doctor", "flags", "gpus", "machine", "tools"]

_QUICK = 300.0  # seconds for a program that only says something
_EXAMPLES = (Path("/app/examples"), Path("/app/tensorrt_llm/examples"))
_FAMILIES = ("llama", "qwen", "gemma")


def machine(context: Context) -> None:
    """Versions, system, disk and image, without names of users."""
    usage = shutil.disk_usage(context.options.work)
    facts = {
        **provenance(),
        "cpus": os.cpu_count(),
        "disk_free_bytes": usage.free,
        "kernel": platform.release(),
        "triton_image": os.environ.get("NVIDIA_TRITON_SERVER_VERSION"),
        "tensorrt_llm": installed_version(),
    }
    context.save("machine.json", facts)
    context.notes["triton_image"], context.notes["tensorrt_llm"] = facts["triton_image"], facts["tensorrt_llm"]


def gpus(context: Context) -> None:
    """The GPUs as nvidia-smi lists them."""
    if shutil.which("nvidia-smi", path=context.environment().get("PATH")) is None:
        raise Skip("no GPU: nvidia-smi is not on PATH (in a container: --gpus all)")
    query = "--query-gpu=name,memory.total,compute_cap,driver_version"
    done = context.run("nvidia-smi", ("nvidia-smi", query, "--format=csv,noheader"), timeout=_QUICK)
    found = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.exit_code != 0 or not found:
        raise Skip(f"no GPU: nvidia-smi says {last_words(done)}")
    context.notes["gpus"] = found
    context.run("nvidia-smi-full", ("nvidia-smi", "-q"), timeout=_QUICK)


def doctor(context: Context) -> None:
    """trtspec's own view of the machine."""
    context.save("doctor.json", context.must("doctor", "doctor", "--output", "json").document())


def tools(context: Context) -> None:
    """A TensorRT-LLM that trtspec supports must be installed."""
    version = installed_version()
    if version is None or shutil.which("trtllm-build", path=context.environment().get("PATH")) is None:
        raise Skip("TensorRT-LLM is not installed here: trtllm-build is not on PATH")
    if not is_supported(version):
        raise Skip(f"TensorRT-LLM {version} is not one that trtspec supports")


def flags(context: Context) -> None:
    """Hold trtspec's flag tables against the help of the programs that are installed; `tools` has passed."""
    version = installed_version() or ""
    minor = minor_of(version)
    report = {name: _compared(context, name, argv, table) for name, (argv, table) in _programs(minor).items()}
    context.save("flags.json", {"tensorrt_llm": version, "programs": report})
    missing = {name: entry["missing"] for name, entry in report.items() if entry["missing"]}
    if missing:
        raise StepFailure(f"flags that trtspec knows and the program has not: {missing}")


def _programs(minor: str) -> dict[str, tuple[tuple[str, ...], FlagTable]]:
    """Name → command line that prints its help, and the flags that trtspec believes it has."""
    programs: dict[str, tuple[tuple[str, ...], FlagTable]] = {
        "trtllm-build": (("trtllm-build", "--help"), build_flags(minor))
    }
    examples = next((folder for folder in _EXAMPLES if folder.is_dir()), None)
    if examples is None:
        return programs
    scripts = {
        f"convert-{name}": (examples / FAMILIES[name].script, converter_flags(name, minor)) for name in _FAMILIES
    }
    scripts["quantize"] = (examples / "quantization" / "quantize.py", quantize_flags(minor))
    for name, (script, table) in scripts.items():
        if script.is_file():
            programs[name] = (("python3", str(script), "--help"), table)
    return programs


def _compared(context: Context, name: str, argv: tuple[str, ...], table: FlagTable) -> dict[str, Any]:
    done = context.run(f"help-{name}", argv, timeout=_QUICK)
    if done.exit_code != 0:
        raise StepFailure(f"{name} --help ends with {done.exit_code}: {last_words(done)}")
    return compare_flags(done.stdout, table)


def compare_flags(text: str, table: FlagTable) -> dict[str, Any]:
    """Flags of the table that a program's help has not (`missing`), and those it has beyond the table (`unknown`)."""
    there = set(re.findall(r"(?<![\w-])--[A-Za-z][\w-]*", text))
    known = {name for flag in table.flags for name in flag.names}
    missing = [flag.name for flag in table.flags if not there & set(flag.names)]
    return {"missing": missing, "unknown": sorted(there - known - {"--help"})}
