"""Finding a GPU model by any usual name."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace

from trtspec.errors import UsageError
from trtspec.hardware.models import GPUS, Gpu

__all__ = ["GPUS", "Gpu", "find_gpu", "known_gpu", "like_gpu"]


def find_gpu(name: str, memory_gib: float | None = None) -> Gpu:
    """The GPU meant by `name` in any usual spelling (`h100`, `NVIDIA A100-SXM4-80GB`, `rtx4090`).

    `memory_gib` picks the form with about that memory and replaces its size. UsageError names the nearest models.
    """
    found = _matching(name)
    if not found:
        raise _unknown(name)
    if memory_gib is None:
        return found[0]
    wanted = int(memory_gib * (1 << 30))
    nearest = min(found, key=lambda gpu: abs(gpu.memory_bytes - wanted))
    return replace(nearest, memory_bytes=wanted, memory_from="given")


def known_gpu(name: str, memory_bytes: int | None = None) -> Gpu | None:
    """The catalogue's row for a device name as the driver says it, of about that memory; None when there is none."""
    found = _matching(name)
    if not found or memory_bytes is None:
        return found[0] if found else None
    return min(found, key=lambda gpu: abs(gpu.memory_bytes - memory_bytes))


def like_gpu(name: str, sm: int) -> Gpu | None:
    """A row of the same compute capability under the device's name, for what only that decides; None without one."""
    row = next((gpu for gpu in GPUS if gpu.sm == sm), None)
    return None if row is None else replace(row, name=name, aliases=())


# words of device names that tell no two models apart
_NOISE = frozenset(
    re.findall(
        r"\w+",
        "nvidia geforce tesla quadro gpu tensor core graphics generation edition workstation blackwell hopper hgx dgx "
        "nvl72 ac with hbm hbm2 hbm2e hbm3 hbm3e gddr6 gddr6x gddr7",
    )
)


def _matching(name: str) -> list[Gpu]:
    asked = _words(name)
    if not asked:
        return []
    exact = [gpu for gpu in GPUS if any(asked == _words(known) for known in (gpu.name, *gpu.aliases))]
    within = [gpu for gpu in GPUS if any(_fits(asked, _words(known)) for known in (gpu.name, *gpu.aliases))]
    return exact or within


def _fits(asked: frozenset[str], known: frozenset[str]) -> bool:
    """True when nothing was asked that the model has not, and the model's own number was asked."""
    return asked <= known and any(re.search(r"[a-z]?\d", word) and not word.endswith("gb") for word in asked)


def _words(name: str) -> frozenset[str]:
    text = name.lower().replace("(r)", " ").replace("(tm)", " ")
    text = re.sub(r"(\d+)\s*g(i?b)?\b", r"\1gb", text)
    text = re.sub(r"\brtx(?=\d|a\d)", "rtx ", text)
    text = re.sub(r"\b(sxm|pcie)\d?\b", r"\1", text)
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word and word not in _NOISE]
    return frozenset(_with_gb(word) for word in words)


_SIZES = frozenset({"16", "32", "40", "80", "94", "96", "141", "180", "186", "279", "288"})


def _with_gb(word: str) -> str:
    return f"{word}gb" if word in _SIZES else word


def _unknown(name: str) -> UsageError:
    names = {gpu.name.lower(): gpu.name for gpu in GPUS}
    near = difflib.get_close_matches(name.lower(), names, n=4, cutoff=0.5)
    what = f"; nearest: {', '.join(names[key] for key in near)}" if near else ""
    fix = "`trtspec plan --gpus` lists all; for another one take the most similar and set hardware.memory_gib"
    return UsageError(f"GPU {name!r} is not known{what}", where="hardware.gpu", fix=fix)
