"""A plan's memory on a terminal: a bar for each GPU, what fits, what to change."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from trtspec.planning.items import GpuMemory
from trtspec.planning.memory import MemoryPlan
from trtspec.reports.plan_bars import SEGMENTS, memory_bar, segment_bytes
from trtspec.reports.plan_text import flow, say
from trtspec.units import bytes_text, count_text

__all__ = ["alike", "gpu_label", "print_memory"]


def print_memory(console: Console, memory: MemoryPlan) -> None:
    """A bar for each kind of GPU, a legend with the fullest one's sizes, limits, and changes that help."""
    groups = alike(memory.per_gpu)
    labels = [gpu_label(group) for group in groups]
    size = max(map(len, labels))
    width = min(40, max(10, console.width - size - 30))
    console.print("\n[bold]memory[/]  [dim]speculative arm[/]")
    for label, group in zip(labels, groups, strict=True):
        say(console, Text.assemble(label.ljust(size), "  ", memory_bar(group[0], width), "  ", _use(group[0])))
    flow(console, _legend(memory))
    if limits := _limits(memory):
        flow(console, limits)
    for remedy in memory.remedies[:3]:
        verb = "makes it fit" if remedy.fits and not memory.fits else f"frees {bytes_text(remedy.frees)} a GPU"
        room = "" if remedy.concurrent is None else f", {remedy.concurrent} sequences at once"
        say(console, f"[yellow]change[/]  {escape(remedy.text)}: {verb}{room}")


def alike(gpus: Sequence[GpuMemory]) -> list[list[GpuMemory]]:
    """GPUs with the same contents together."""
    groups: dict[tuple[object, ...], list[GpuMemory]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.total, *segment_bytes(gpu)), []).append(gpu)
    return list(groups.values())


def gpu_label(group: Sequence[GpuMemory]) -> str:
    """E.g. `GPU 0`, `GPU 1,2,3`; `RAM` for system memory."""
    if group[0].gpu == "cpu":
        return "RAM"
    numbers = [str(gpu.gpu) for gpu in group]
    return f"GPU {numbers[0]}" if len(numbers) == 1 else f"GPU {','.join(numbers)}"


def _use(gpu: GpuMemory) -> str:
    if gpu.total is None:
        return f"{bytes_text(gpu.used)}"
    return f"{bytes_text(gpu.used)} of {bytes_text(gpu.total)}"


def _legend(memory: MemoryPlan) -> list[Text]:
    fullest = max(memory.per_gpu, key=lambda gpu: gpu.used)
    pieces = [
        Text.assemble((segment.glyph, segment.style), f" {segment.name} {bytes_text(size)}")
        for segment, size in zip(SEGMENTS, segment_bytes(fullest), strict=True)
    ]
    free = fullest.free
    if free is not None and free < 0:
        pieces.append(Text(f"| end of the GPU, {bytes_text(-free)} too much", "bold red"))
    elif free is not None:
        pieces.append(Text(f"· free {bytes_text(free)}", "dim"))
    return pieces


def _limits(memory: MemoryPlan) -> list[Text]:
    limits = memory.limits
    parts = [
        f"{room.at_once} sequences of {count_text(room.tokens)} tokens ({room.what}) at once"
        for room in limits.rooms
        if room.at_once is not None
    ]
    if limits.max_prompt_tokens is not None:
        parts.append(f"prompts up to {count_text(limits.max_prompt_tokens)} tokens")
    caches = [
        f"{role} {cache.fraction:.3f}"
        for role, cache in memory.kv_cache.items()
        if cache.fraction is not None and role in memory.load_order
    ]
    if caches:
        parts.append(f"kv_cache_free_gpu_mem_fraction {', '.join(caches)}")
    return [Text(part, "dim") for part in parts]
