"""`build.extra_flags`: more trtllm-build flags, checked against those that the release has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtspec.errors import Problem
from trtspec.toolchain.flags import GONE, FlagTable, build_flags

__all__ = ["extra_argv", "extra_flag_problems"]

_PATH = "build.extra_flags"
_NEEDED = "must be on for draft tokens and is set by trtspec"
_FOLDERS = "trtspec chooses the folders"
_REPLACES = "it would replace sizes and modes that trtspec sets"

# flag → where its value comes from
_OWN: dict[str, str] = {
    "--checkpoint_dir": _FOLDERS,
    "--output_dir": _FOLDERS,
    "--model_config": _REPLACES,
    "--build_config": _REPLACES,
    "--max_batch_size": "write build.max_batch_size",
    "--max_input_len": "write build.max_input_len",
    "--max_seq_len": "write build.max_seq_len",
    "--max_num_tokens": "write build.max_num_tokens",
    "--max_beam_width": "it is 1: beam search and draft tokens exclude each other",
    "--max_draft_len": "write speculation.max_draft_length",
    "--speculative_decoding_mode": "it follows the role: draft_tokens_external for the target, none otherwise",
    "--tokens_per_block": "write build.tokens_per_block",
    "--logits_dtype": "write build.logits_dtype",
    "--context_fmha": _NEEDED,
    "--use_paged_context_fmha": _NEEDED,
    "--remove_input_padding": _NEEDED,
    "--use_fp8_context_fmha": "it follows target.kv_cache_dtype and draft.kv_cache_dtype",
    "--kv_cache_type": "the cache is paged, which draft tokens need",
    "--paged_kv_cache": "the cache is paged, which draft tokens need",
    "--workers": "one for each rank, at most hardware.count",
    "--output_timing_cache": "each build has its own, so that two builds do not write one file",
    "--log_level": "it is info: trtspec reads the log",
    "--dry_run": "it compiles no engine; use trtspec build --dry-run",
}
_FORBIDDEN: dict[str, str] = {
    "--gather_context_logits": "the builder refuses it together with max_draft_len",
    "--gather_all_token_logits": "it includes context logits, which the builder refuses together with max_draft_len",
    "--gather_generation_logits": "it does nothing at build time since 1.0; generation logits are a run-time choice",
}
_REFUSED_ON: dict[str, str] = {"--streamingllm": "the builder aborts: attention sinks are no longer supported"}
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
    elif flag.name in _OWN:
        yield Problem(path, f"is set by trtspec: {_OWN[flag.name]}")
    elif flag.name in _FORBIDDEN:
        yield Problem(path, _FORBIDDEN[flag.name])
    elif reason := flag.problem(value):
        yield Problem(path, reason)
    elif flag.name in _REFUSED_ON and _is_on(value):
        yield Problem(path, _REFUSED_ON[flag.name])


def _together(
    table: FlagTable, flags: Mapping[str, Value], architectures: Mapping[str, str | None]
) -> Iterator[Problem]:
    given = {flag.name: value for name, value in flags.items() if (flag := table.find(name)) is not None}
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
