"""A plan's memory on a terminal: a bar for each GPU, what fits, what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from trtspec.planning.items import GpuMemory, SequenceRoom
from trtspec.planning.memory import MemoryPlan
from trtspec.planning.placement import Launch, Placement
from trtspec.reports.plan_bars import SEGMENTS, memory_bar, segment_bytes
from trtspec.reports.plan_text import flow, say
from trtspec.units import bytes_text, count_text

__all__ = ["alike", "gpu_label", "launch_text", "print_memory"]


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
    if memory.inputs.spec.runtime == "tensorrt_llm":
        flow(console, [Text(part, "dim") for part in _placement(memory.placement)])
    for remedy in memory.remedies[:3]:
        verb = "makes it fit" if remedy.fits and not memory.fits else f"frees {bytes_text(remedy.frees)} a GPU"
        room = "" if remedy.concurrent is None else f", {remedy.concurrent} sequences at once"
        say(console, f"[yellow]change[/]  {escape(remedy.text)}: {verb}{room}")


def _placement(placement: Placement) -> Iterator[str]:
    """Where the models lie, and how the server of the speculative arm is started."""
    for role in placement.models:
        placed = placement.roles[role]
        split = f" (tp {placed.tp}" + (f", pp {placed.pp})" if placed.pp > 1 else ")")
        yield f"{role} on GPU {placement.gpu_device_ids[role]}{split if len(placed.gpus) > 1 else ''}"
    yield launch_text(placement.launch)


def launch_text(launch: Launch) -> str:
    """Mode, world size and, where nothing is spawned, the MPI ranks of each model."""
    ids = ", ".join(f"{role} {ranks}" for role, ranks in launch.participant_ids.items())
    return f"launch mode {launch.mode}, world size {launch.world_size}{f', participant_ids {ids}' if ids else ''}"


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
        if size
    ]
    free = fullest.free
    if free is not None and free < 0:
        pieces.append(Text(f"| end of the GPU, {bytes_text(-free)} too much", "bold red"))
    elif free is not None:
        pieces.append(Text(f"· free {bytes_text(free)}", "dim"))
    return pieces


def _limits(memory: MemoryPlan) -> list[Text]:
    if not memory.limits.max_prompt_tokens:  # unknown, or not even one token fits: the verdict says so
        return []
    rooms = {room.tokens: room for room in memory.limits.rooms if room.at_once is not None}
    parts = [_room_text(room) for room in rooms.values()]
    return [Text(part, "dim") for part in (*parts, *_prompts(memory), *_caches(memory))]


def _room_text(room: SequenceRoom) -> str:
    plural = "" if room.at_once == 1 else "s"
    more = f", {room.by_memory} by memory" if room.by_memory != room.at_once else ""
    return f"{room.at_once} sequence{plural} of {count_text(room.tokens)} tokens ({room.what}) at once{more}"


def _prompts(memory: MemoryPlan) -> Iterator[str]:
    limits, answer = memory.limits, memory.inputs.spec.expectations.output_tokens
    whole, chunked, short = limits.max_prompt_tokens, limits.max_prompt_tokens_chunked, limits.max_prompt_with_answer
    if whole is None or chunked is None or short is None:
        return
    yield f"prompts up to {count_text(chunked)} tokens, {count_text(short)} with an answer of {count_text(answer)}"
    if whole < chunked:
        yield f"{count_text(whole)} in one pass: the limit of a server without chunked context"


def _caches(memory: MemoryPlan) -> Iterator[str]:
    """The fraction and the cap of each model that is loaded, for the planned order and for any."""
    known = [(role, memory.kv_cache[role]) for role in memory.load_order if memory.kv_cache[role].fraction is not None]
    if not known:
        return
    fractions = ", ".join(f"{role} {cache.fraction:.3f}" for role, cache in known)
    order = f" ({known[0][0]} loaded first)" if len(known) > 1 else ""
    yield f"kv_cache_free_gpu_mem_fraction {fractions}{order}"
    if any(cache.fraction_any_order != cache.fraction for _, cache in known):
        free = ", ".join(f"{cache.fraction_any_order:.3f}" for _, cache in known)
        caps = ", ".join(count_text(cache.max_tokens or 0) for _, cache in known)
        yield f"in any order: {free} with max_tokens_in_paged_kv_cache {caps}"
