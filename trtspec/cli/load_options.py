"""The options of `trtspec loadtest`, in the groups in which its help shows them, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from trtspec.cli.numbers import FiniteRange
from trtspec.spec import ARMS
from trtspec.spec.model import LoadTestOptions, ServiceLevel

__all__ = ["HEADINGS", "arm_options", "load_options", "read_concurrency", "read_seconds", "read_share"]

Function = TypeVar("Function", bound=Callable[..., Any])
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_ADDRESS = re.compile(r"(?:(?:grpcs|https?)://\S+|[^\s/]+:\d+)")


def load_options(function: Function) -> Function:
    """Give a command all options of the load test."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def arm_options(function: Function) -> Function:
    """Give a command the options that say which two servers are asked."""
    for option in reversed([option for option in _WHERE if option is not _AA]):
        function = option(function)
    return function


def read_concurrency(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Callback: "1,4,16" as numbers."""
    if value is None:
        return None
    parts = value.replace(" ", "").split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= 4096 for part in parts):
        raise click.BadParameter("numbers from 1 to 4096 separated by commas, e.g. 1,4,16")
    return tuple(map(int, parts))


def _rate(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    parts = [part.removesuffix("/s") for part in value.replace(" ", "").split(",")]
    try:
        rates = tuple(map(float, parts))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate <= 1e6 for rate in rates):
        raise click.BadParameter("requests per second separated by commas, e.g. 0.5,2,8")
    return rates


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter("names separated by commas, e.g. code,extraction")
    return names


def _arm_urls(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    urls: dict[str, str] = {}
    for value in values:
        arm, _, address = value.partition("=")
        if arm not in ARMS or not _ADDRESS.fullmatch(address):
            raise click.BadParameter(f"{value!r} is not ARM=HOST:PORT or ARM=http://… with ARM {' or '.join(ARMS)}")
        urls[arm] = address
    return urls or None


def _address(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _ADDRESS.fullmatch(value):
        raise click.BadParameter(f"{value!r} is neither http(s)://HOST:PORT[/v1] nor HOST:PORT (gRPC)")
    return value


def read_share(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Callback: "5%" or "0.05" as a share."""
    if value is None:
        return None
    number, percent = value.strip().removesuffix("%"), value.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise click.BadParameter(f"{value!r} is no share, e.g. 5% or 0.05")
    return share


def read_seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Callback: "90", "90s", "5m" or "1h" in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip())
    seconds = float(match[1]) * _UNITS.get(match[2], 0.0) if match else 0.0
    if seconds <= 0:
        raise click.BadParameter(f"{value!r} is no time, e.g. 90, 90s or 5m")
    return seconds


def _levels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float] | None:
    levels: dict[str, float] = {}
    for part in (part for value in values for part in value.replace(" ", "").split(",")):
        name, _, text = part.partition("=")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)?", text)
        if name not in get_args(ServiceLevel) or match is None or float(match[1]) <= 0:
            known = ", ".join(get_args(ServiceLevel))
            raise click.BadParameter(f"{part!r} is no service level: {known}, e.g. ttft=500ms,tpot=0.05")
        levels[name] = float(match[1]) / (1000 if match[2] == "ms" else 1)
    return levels or None


def _help(field: str) -> str:
    """The spec's own words for a field, as a sentence."""
    text = LoadTestOptions.model_fields[field].description or ""
    return f"{text[0].upper()}{text[1:]}."


def _default(field: str) -> str:
    """What holds where the spec says nothing else."""
    value = LoadTestOptions.model_fields[field].get_default(call_default_factory=True)
    shown = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else f"{value:g}"
    return f"Default: {shown}."


def _kinds() -> click.Choice[str]:
    from trtspec.wire import Kind

    return click.Choice(get_args(Kind))


_PATH = click.Path(path_type=Path)
_POSITIVE = FiniteRange(min=0, min_open=True)

_AA = click.option("--aa", is_flag=True, help="Both arms are the baseline: how much difference is noise?")
_WHERE = (
    click.option("--a", "a_url", metavar="URL", callback=_address, help="First of any two servers: the baseline arm."),
    click.option("--b", "b_url", metavar="URL", callback=_address, help="Second one: the arm under test."),
    click.option("--a-name", metavar="TEXT", help="What people call it. Default: its address."),
    click.option("--b-name", metavar="TEXT", help="What people call it. Default: its address."),
    click.option("--a-model", metavar="NAME", help="Model to ask there. Default: the only one."),
    click.option("--b-model", metavar="NAME", help="Model to ask there. Default: as --a-model."),
    click.option("--kind", type=_kinds(), help="What answers at the addresses. Default: found out."),
    click.option(
        "--arm-url", "urls", multiple=True, metavar="ARM=URL", callback=_arm_urls,
        help="Address of a running server, once for each arm. Default: both servers are started and stopped.",
    ),
    _AA,
    click.option("--protocol", type=click.Choice(["http", "grpc"]), help=_help("protocol")),
    click.option("--servers", type=click.Choice(["both", "one"]), help=_help("servers")),
)  # fmt: skip

_LOAD = (
    click.option(
        "--concurrency",
        metavar="N,…",
        callback=read_concurrency,
        help=f"Requests in flight, one level each. {_default('concurrency')}",
    ),
    click.option("--rate", metavar="R,…", callback=_rate, help="Open loop: requests per second, one level each."),
    click.option("--arrivals", type=click.Choice(["constant", "poisson", "gamma", "burst"]), help=_help("arrivals")),
    click.option("--burstiness", type=_POSITIVE, help=_help("burstiness")),
    click.option("--burst", type=click.IntRange(min=1), help=_help("burst")),
    click.option("--profile", metavar="R:S,…", help=_help("profile")),
    click.option("--trace", metavar="FILE", type=_PATH, help=_help("trace")),
    click.option("--trace-speed", type=_POSITIVE, help=_help("trace_speed")),
    click.option("--max-in-flight", type=click.IntRange(min=1), help=_help("max_in_flight")),
    click.option(
        "--requests", type=click.IntRange(min=1), help=f"Measured requests per arm and level. {_default('requests')}"
    ),
    click.option("--duration", metavar="TIME", callback=read_seconds, help=_help("duration")),
    click.option(
        "--until",
        metavar="WIDTH",
        callback=read_share,
        help="Goes on until the speed-up's interval is so narrow, e.g. 5%.",
    ),
    click.option(
        "--warmup", type=click.IntRange(min=0), help=f"Requests per arm before measuring starts. {_default('warmup')}"
    ),
    click.option("--disconnect", metavar="SHARE", callback=read_share, help=_help("disconnect")),
    click.option("--workers", type=click.IntRange(1, 256), help=_help("workers")),
)

_WHAT = (
    click.option(
        "--prompts", metavar="FILE", help="builtin, builtin-60, human-eval, random, or a file (docs/prompts.md)."
    ),
    click.option("--categories", metavar="NAME,…", callback=_names, help="Only these, e.g. code,extraction."),
    click.option("--language", metavar="NAME,…", callback=_names, help="Only these, e.g. en,zh."),
    click.option("--min-prompt-chars", type=click.IntRange(min=1), help=_help("min_prompt_chars")),
    click.option("--max-prompt-chars", type=click.IntRange(min=1), help=_help("max_prompt_chars")),
    click.option("--min-prompt-tokens", type=click.IntRange(min=1), help=_help("min_prompt_tokens")),
    click.option("--max-prompt-tokens", type=click.IntRange(min=1), help=_help("max_prompt_tokens")),
    click.option("--turns", type=click.IntRange(min=1), help=_help("turns")),
    click.option("--system-prompt", metavar="TEXT|@FILE", help=_help("system_prompt")),
    click.option("--input-length", metavar="N[-M]", help=_help("input_length")),
    click.option("--output-length", metavar="N[-M]", help=_help("output_length")),
)

_HOW = (
    click.option("--max-tokens", type=click.IntRange(min=1), help="Output limit. Default: each prompt's own."),
    click.option("--draft-length", type=click.IntRange(1, 64), help="Tokens drafted per round. Default: the server's."),
    click.option("--temperature", type=FiniteRange(0, 10), help="0 (default): greedy, so that both arms must agree."),
    click.option("--chat-template", type=click.Choice(["auto", "never"]), help="auto: the target's, when it has one."),
    click.option("--unique-prefixes", is_flag=True, default=None, help=_help("unique_prefixes")),
    click.option(
        "--tokenizer", metavar="FOLDER", type=_PATH,
        help="Checkpoint whose tokenizer counts what a server does not, and whose chat template is used.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Order of prompts and arms, arrivals, sampling."),
    click.option(
        "--timeout", type=_POSITIVE, help=f"Seconds until a request is cancelled and has failed. {_default('timeout')}"
    ),
)  # fmt: skip

_RESULT = (
    click.option(
        "--slo",
        multiple=True,
        metavar="NAME=S,…",
        callback=_levels,
        help="Service levels of goodput and capacity: ttft, tpot, e2e, stall, e.g. ttft=500ms,tpot=50ms.",
    ),
    click.option("--reading-speed", type=_POSITIVE, help=_help("reading_speed")),
    click.option("--calibration", metavar="RUN", type=_PATH, help="An earlier --aa run whose noise counts here."),
    click.option(
        "--fail-if",
        "gates",
        multiple=True,
        metavar="CONDITION",
        help="Exit with 7 when it holds, e.g. 'arms.speculative.error_rate > 0.01' (docs/report.md).",
    ),
)

_RUN = (
    click.option("--dry-run", is_flag=True, help="Show levels, blocks and requests; send and start nothing."),
    click.option("--resume", "resumed", metavar="RUN", type=_PATH, help="Go on with an interrupted run."),
    click.option(
        "--out", type=_PATH, help="Folder of this run. Default: a new one in runs/<name>/, where `report` looks."
    ),
    click.option(
        "--report/--no-report", default=True, show_default=True, help="Render report.html and CSV afterwards."
    ),
    click.option(
        "--progress", type=click.Choice(["auto", "plain", "json", "none"]), default="auto", show_default=True,
        help="On stderr: a live view on a terminal, lines now and then, one JSON object a line, or nothing.",
    ),
)  # fmt: skip

_SECTIONS = {
    "Servers": _WHERE, "Load": _LOAD, "Prompts": _WHAT, "Requests": _HOW, "Judgement": _RESULT, "The run": _RUN,
}  # fmt: skip
_OPTIONS = tuple(option for options in _SECTIONS.values() for option in options)


def _parameters(options: Iterable[Callable[[Function], Function]]) -> list[str]:
    """What the options are called in Python, in their order."""
    probe = click.Command("probe")
    for option in options:
        option(probe)  # type: ignore[arg-type]  # click adds an option to a function or to a command
    return [param.name or "" for param in probe.params]


HEADINGS = {name: heading for heading, options in _SECTIONS.items() for name in _parameters(options)}
