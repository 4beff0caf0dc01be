"""The catalogue of GPUs as `trtspec plan --gpus` shows it."""

from __future__ import annotations

from rich.console import Console

from trtspec.cli.output import Sink
from trtspec.hardware.catalogue import GPUS
from trtspec.reports.plan_text import plain_table, say
from trtspec.units import bytes_text

__all__ = ["print_gpus", "show_gpus"]


def show_gpus(sink: Sink) -> None:
    """Hand the catalogue to the output sink."""
    rows = [{**vars(gpu), "flops": dict(gpu.flops), "aliases": list(gpu.aliases)} for gpu in GPUS]
    sink.result({"schema": 1, "gpus": rows}, print_gpus, "\n".join(gpu.name for gpu in GPUS))


def print_gpus(console: Console) -> None:
    """The catalogue of GPUs."""
    table = plain_table()
    table.add_column("GPU", no_wrap=True)
    for label in ("memory", "GB/s", "SM", "16 bit", "fp8", "nvfp4", "link"):
        table.add_column(label, justify="right", no_wrap=True)
    for gpu in GPUS:
        rates = [_tera(gpu.flops.get(name)) for name in ("float16", "fp8", "nvfp4")]
        sm = f"{gpu.sm // 10}.{gpu.sm % 10}"
        table.add_row(
            gpu.name, bytes_text(gpu.memory_bytes), f"{gpu.bandwidth / 1e9:.0f}", sm, *rates,
            f"{gpu.interconnect / 1e9:.0f}",
        )  # fmt: skip
    say(console, table)
    say(console, "[dim]dense TFLOP/s; link: GB/s to other GPUs, both directions; sources: --output json[/]")


def _tera(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e12:.0f}"
