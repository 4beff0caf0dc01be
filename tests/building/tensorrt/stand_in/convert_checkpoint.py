"""The stand-in's convert_checkpoint.py of a model family."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tests.building.tensorrt.stand_in.arguments import facts, parser_of
from tests.building.tensorrt.stand_in.behaviour import gpus, log, log_start, say
from tests.building.tensorrt.stand_in.checkpoints import (
    Parallel,
    checkpoint_config,
    hugging_face_config,
    resolved_dtype,
    write_checkpoint,
)

__all__ = ["main"]

_WEIGHT_ONLY = {
    "int8": "W8A16", "int4": "W4A16", "int8_gptq": "W8A16_GPTQ", "int4_gptq": "W4A16_GPTQ", "int4_awq": "W4A16_AWQ",
    "w4a8_awq": "W4A8_AWQ", "w4a16_awq": "W4A16_AWQ",
}  # fmt: skip
# a quantization that the Hugging Face folder carries and a converter takes over by itself
_CARRIED = {
    "llama": {"awq": "W4A16_GPTQ", "gptq": "W4A16_GPTQ", "fbgemm_fp8": "FP8_PER_CHANNEL_PER_TOKEN"},
    "qwen": {"awq": "W4A16_GPTQ", "gptq": "W4A16_GPTQ"},
}


def main(version: str, family: str, argv: list[str] | None = None) -> None:
    """Parse, check as the script does, write the checkpoint; SystemExit or an exception where that one fails."""
    log_start("convert_checkpoint.py", version)
    rows = facts("converters")[family]
    arguments = parser_of("convert_checkpoint.py", rows).parse_args(argv if argv is not None else sys.argv[1:])
    given = vars(arguments)
    if family == "gemma":
        assert arguments.ckpt_type == "hf", "the stand-in reads Hugging Face folders only"
    table = facts("converters")
    for flag in table["needs"].get(family, ()):
        assert given[flag.removeprefix("--")], f"checkpoints of this family require {flag}"
    config = hugging_face_config(arguments.model_dir)
    parallel = Parallel(
        tp=given.get("tp_size") or given.get("world_size") or 1,
        pp=given.get("pp_size") or 1,
        moe_tp=given.get("moe_tp_size") or -1,
        moe_ep=given.get("moe_ep_size") or -1,
    )
    if family in table["one_pipeline_rank"]:
        assert parallel.pp == 1, "Pipeline parallelism is not supported."
    if gpus() == 0 and (given.get("smoothquant") or given.get("int8_kv_cache")):
        raise RuntimeError("No CUDA GPUs are available")
    document = checkpoint_config(
        config, resolved_dtype(arguments.dtype, config), parallel, _quant(arguments, config, family)
    )
    log(f"{family}: {document['architecture']} as {document['dtype']} on {parallel.tp * parallel.pp} ranks")
    write_checkpoint("convert", Path(given.get("output_dir") or given["output_model_dir"]), document)
    say("Total time of converting checkpoints: 00:00:00")


def _quant(arguments: argparse.Namespace, config: dict[str, Any], family: str) -> dict[str, Any]:
    given = vars(arguments)
    quant: dict[str, Any] = {}
    carried = config.get("quantization_config") or {}
    if carried.get("quant_method") in (known := _CARRIED.get(family, {})):
        if carried.get("desc_act"):
            raise ValueError("GPTQ with desc_act=True is not implemented!")
        quant["quant_algo"] = known[carried["quant_method"]]
    if given.get("use_weight_only"):
        quant["quant_algo"] = _WEIGHT_ONLY[given["weight_only_precision"] or "int8"]
    if given.get("smoothquant"):
        quant["quant_algo"] = "W8A8_SQ_PER_CHANNEL"
    if given.get("use_fp8") or given.get("enable_fp8"):
        quant["quant_algo"] = "FP8"
    if given.get("use_nvfp4"):
        quant["quant_algo"] = "NVFP4"
    if given.get("int8_kv_cache"):
        quant["kv_cache_quant_algo"] = "INT8"
    if given.get("fp8_kv_cache"):
        quant["kv_cache_quant_algo"] = "FP8"
    return quant
