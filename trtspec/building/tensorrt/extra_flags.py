"""`build.extra_flags`: more trtllm-build flags, checked against those that the release has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trtspec.errors import Problem
from trtspec.toolchain.flags import GONE, NEVER_ON, OWN, FlagTable, build_flags

__all__ = ["extra_argv", "extra_flag_problems"]

_PATH = "build.extra_flags"
Value = str | int | float | bool


def extra_flag_problems(
    flags: Mapping[str, Value], minor: str, architectures: Mapping[str, str | None]
) -> list[Problem]:
    """Everything wrong with `build.extra_flags`; `architectures` by role, for flags that only some models have."""
    table = build_flags(minor)
    problems = [problem for name, value in flags.items() for problem in _problems(table, name, value, minor)]
    return [*problems, *_together(table, flags, architectures)]


def _problems(table: FlagTable, name: str, value: Value, minor: str) -> Iterator[Problem]:
    path, bare = f"{_PATH}.{name}", name.lstrip("-")
    flag = table.find(name)
    if bare in GONE:  # before the table: paged_kv_cache still parses, as a word that means nothing any more
        yield Problem(path, f"is no flag of trtllm-build {minor} any more: it {GONE[bare]}")
    elif flag is None:
        nearest = table.nearest(name)
        yield Problem(path, f"trtllm-build {minor} has no such flag", f"did you mean {nearest}?" if nearest else None)
    elif (own := flag.name.lstrip("-")) in OWN:
        yield Problem(path, f"is set by trtspec: {OWN[own]}")
    elif reason := flag.problem(value):
        yield Problem(path, reason)
    elif own in NEVER_ON and _is_on(value):
        yield Problem(path, NEVER_ON[own])


def _together(
    table: FlagTable, flags: Mapping[str, Value], architectures: Mapping[str, str | None]
) -> Iterator[Problem]:
    found = [(flag.name, value) for name, value in flags.items() if (flag := table.find(name)) is not None]
    given = dict(found)
    yield from (
        Problem(f"{_PATH}.{name.lstrip('-')}", "is given twice, in two spellings")
        for name, times in Counter(name for name, _ in found).items()
        if times > 1
    )
    if _is_on(given.get("--multiple_profiles", False)) and "--opt_num_tokens" in given:
        message = "the builder refuses it together with opt_num_tokens"
        yield Problem(f"{_PATH}.multiple_profiles", message, "leave one of them out")
    others = sorted(role for role, name in architectures.items() if name != "MixtralForCausalLM")
    if _is_on(given.get("--pp_reduce_scatter", False)) and others:
        message = (
            f"the builder takes it for Mixtral only, and flags go to every engine ({', '.join(others)} is another)"
        )
        yield Problem(f"{_PATH}.pp_reduce_scatter", message)


def _is_on(value: Value) -> bool:
    return value is True or value == "enable"


def extra_argv(flags: Mapping[str, Value], minor: str) -> dict[str, tuple[str, ...]]:
    """Flag → its arguments on the command line, in the order given; all of them known and allowed."""
    table = build_flags(minor)
    found = ((table.find(name), value) for name, value in flags.items())
    return {flag.name: flag.argv(value) for flag, value in found if flag is not None}
