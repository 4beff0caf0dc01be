"""The contract of TensorRT-LLM's programs, checked on a command line; from tests/facts alone, not from the product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from tests.building.tensorrt.stand_in.arguments import facts

__all__ = ["options", "rows_of", "violations"]

_FIRST = ("--checkpoint_dir", "--model_dir", "--ckpt-type")
_SECOND = ("--output_dir", "--model-dir")
_SIZES = ("--max_batch_size", "--max_input_len", "--max_seq_len", "--max_num_tokens", "--max_beam_width")
_CONTEXT_LOGITS = {"--gather_context_logits", "--gather_all_token_logits"}


def rows_of(argv: Sequence[str], minor: str) -> list[dict[str, Any]]:
    """The facts about the program that `argv` starts, as it is in a minor release."""
    if PurePath(argv[0]).name == "trtllm-build":
        table = facts("trtllm_build")
        rows = [*table["flags"], *table["plugin_flags"]]
    elif argv[1].endswith("quantization/quantize.py"):
        table = facts("quantize")
        rows = table["flags"]
    else:
        table = facts("converters")
        family = next(
            name for name, place in table["places"].items() if argv[1].endswith(f"{place}/convert_checkpoint.py")
        )
        rows = table[family]
    assert minor in table["versions"]
    return list(rows)


def options(argv: Sequence[str]) -> dict[str, str | None]:
    """Flag → its value, None for one without; AssertionError for a flag that stands twice."""
    words = list(argv[1:] if PurePath(argv[0]).name == "trtllm-build" else argv[2:])
    found: dict[str, str | None] = {}
    while words:
        flag = words.pop(0)
        assert flag.startswith("-"), f"{flag} is no flag"
        assert flag not in found, f"{flag} is given twice"
        found[flag] = words.pop(0) if words and not words[0].startswith("--") else None
    return found


def violations(argv: Sequence[str], minor: str) -> list[str]:
    """Everything in a command that a minor release would refuse, or that no careful person would write."""
    rows = {name: row for row in rows_of(argv, minor) for name in (row["flag"], *row.get("aliases", ()))}
    given = options(argv)
    found = [problem for flag, value in given.items() for problem in _wrong(flag, value, rows)]
    names = {rows[flag]["flag"] for flag in given if flag in rows}
    required = [row["flag"] for row in rows.values() if row.get("required") and row["flag"] not in names]
    found += [f"{flag} is required" for flag in dict.fromkeys(required)]
    order = list(given)
    if order[0] not in _FIRST or order[1] not in _SECOND:
        found.append(f"begins with {order[:2]}, not with the model and the output")
    return [*found, *_together(given, argv)]


def _wrong(flag: str, value: str | None, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    row = rows.get(flag)
    if row is None:
        yield f"{flag} is unknown"
        return
    if (row["takes"] == "nothing") != (value is None):
        yield f"{flag} takes {row['takes']}, got {value}"
        return
    if "choices" in row and value not in [str(choice) for choice in row["choices"]]:
        yield f"{flag} {value} is none of {row['choices']}"
    if row["takes"] in ("int", "float"):
        try:
            {"int": int, "float": float}[row["takes"]](str(value))
        except ValueError:
            yield f"{flag} {value} is no {row['takes']}"


def _together(given: dict[str, str | None], argv: Sequence[str]) -> Iterator[str]:
    """Combinations that the programs refuse, and what draft tokens cannot do without."""
    if PurePath(argv[0]).name == "trtllm-build":
        yield from (problem for problem, holds in _build_combinations(given).items() if holds)
        return
    experts = [int(given[flag] or 0) for flag in ("--moe_tp_size", "--moe_ep_size") if flag in given]
    if experts and experts[0] * experts[1] != int(given["--tp_size"] or 0):
        yield "moe_tp_size × moe_ep_size is not tp_size"
    if "--weight_only_precision" in given and "--use_weight_only" not in given:
        yield "--weight_only_precision without --use_weight_only does nothing"


def _build_combinations(given: dict[str, str | None]) -> dict[str, bool]:
    drafts = int(given.get("--max_draft_len") or 0)
    missing = [flag for flag in _SIZES if flag not in given]
    return {
        "context logits with max_draft_len": drafts > 0 and not _CONTEXT_LOGITS.isdisjoint(given),
        "a speculative mode needs max_draft_len, and the other way round": ("--speculative_decoding_mode" in given)
        != (drafts > 0),
        "multiple_profiles with opt_num_tokens": given.get("--multiple_profiles") == "enable"
        and "--opt_num_tokens" in given,
        "streamingllm aborts": given.get("--streamingllm") == "enable",
        "paged context FMHA is off": "disable" in (given.get("--context_fmha"), given.get("--use_paged_context_fmha")),
        f"left to the tool's defaults: {missing}": bool(missing),
        "beam search with draft tokens": given.get("--max_beam_width") != "1",
    }
