"""The stand-in's trtllm-build."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.building.tensorrt.stand_in.arguments import facts, parser_of
from tests.building.tensorrt.stand_in.behaviour import gpus, log, log_start, merged, write_slowly
from tests.building.tensorrt.stand_in.engines import build_config_of

__all__ = ["main"]


def main(version: str, argv: list[str] | None = None) -> None:
    """Parse, check as `tensorrt_llm.commands.build` does, write the engine folder; exceptions where that one raises."""
    log_start("trtllm-build", version)
    table = facts("trtllm_build")
    parser = parser_of("trtllm-build", [*_spelt(table["flags"], version), *table["plugin_flags"]])
    arguments = parser.parse_args(argv if argv is not None else sys.argv[1:])
    _refuse_combinations(arguments)
    log("Option --gather_generation_logits is deprecated, a build flag is not required anymore.", "W")
    output = Path(arguments.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    workers = min(gpus(), arguments.workers)
    source = Path(arguments.checkpoint_dir or arguments.model_config)
    model = json.loads((source if source.suffix == ".json" else source / "config.json").read_text(encoding="utf-8"))
    if workers < 1:
        raise ValueError("max_workers must be greater than 0")
    _refuse_model(arguments, model)
    if arguments.logits_dtype:
        model["logits_dtype"] = arguments.logits_dtype
    if source.suffix != ".json":
        _require_ranks(source, model["mapping"]["world_size"])
    document = {"version": version, "pretrained_config": model, "build_config": build_config_of(arguments, model)}
    if version.startswith(("1.0", "1.1")):
        for key in ("gather_context_logits", "gather_generation_logits"):
            document["build_config"][key] = int(document["build_config"][key])
    document["build_config"]["kv_cache_type"] = _cache_type(arguments, table, version)
    document = merged(document, json.loads(os.environ.get("STAND_IN_CONFIG", "{}")))
    _write(output, document, arguments)
    log("Total time of building all engines: 00:00:00")


def _spelt(rows: list[dict[str, Any]], version: str) -> list[dict[str, Any]]:
    """The flags with the words that this version takes: before 1.2 a cache type is the name of an enum, in capitals."""
    if not version.startswith(("1.0", "1.1")):
        return rows
    upper = {"--kv_cache_type": ["CONTINUOUS", "PAGED", "DISABLED"]}
    return [{**row, "choices": upper[row["flag"]]} if row["flag"] in upper else row for row in rows]


def _cache_type(arguments: argparse.Namespace, table: dict[str, Any], version: str) -> str:
    written: str = table["kv_cache_type_written"][".".join(version.split(".")[:2])]
    given: str | None = vars(arguments).get("kv_cache_type")
    return written if given is None else given.lower() if written.islower() else given.upper()


def _refuse_combinations(arguments: argparse.Namespace) -> None:
    if arguments.gather_all_token_logits:
        arguments.gather_context_logits = arguments.gather_generation_logits = True
    if arguments.gather_context_logits and arguments.max_draft_len > 0:
        raise RuntimeError(
            "Gather context logits is not support with draft len > 0. If want to get the accepted tokens' logits from "
            "target model, please just enable gather_generation_logits"
        )
    if arguments.build_config is None and arguments.multiple_profiles == "enable" and arguments.opt_num_tokens:
        raise RuntimeError(
            "multiple_profiles is enabled, while opt_num_tokens is set. "
            "They are not supposed to be working in the same time for now."
        )


def _refuse_model(arguments: argparse.Namespace, model: dict[str, Any]) -> None:
    architecture = model["architecture"]
    assert arguments.streamingllm == "disable", "StreamingLLM is no longer supported"
    assert arguments.pp_reduce_scatter == "disable" or architecture == "MixtralForCausalLM", (
        "PP reduce scatter is only supported in the mixtral model."
    )
    assert architecture in facts("model_map")["classes"], f"Unsupported model architecture: {architecture}"


def _require_ranks(source: Path, world_size: int) -> None:
    for rank in range(world_size):
        if not (source / f"rank{rank}.safetensors").is_file():
            raise FileNotFoundError(f"No such file or directory: {source}/rank{rank}.safetensors")


def _write(output: Path, document: dict[str, Any], arguments: argparse.Namespace) -> None:
    ranks = range(document["pretrained_config"]["mapping"]["world_size"])

    def whole() -> None:
        (output / "config.json").write_text(json.dumps(document, indent=4), encoding="utf-8")
        if arguments.dry_run:
            return
        for rank in ranks:
            (output / f"rank{rank}.engine").write_bytes(f"engine of rank {rank}\n".encode() * 200)
            if arguments.fast_build:
                (output / f"rank{rank}_managed_weights.safetensors").write_bytes(b"weights\n" * 200)
        Path(arguments.output_timing_cache).write_bytes(b"timing cache\n" * 10)

    def half() -> None:
        (output / "rank0.engine").write_text("half an engine")

    write_slowly("build", half, whole)
