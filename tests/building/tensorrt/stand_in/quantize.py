"""The stand-in's examples/quantization/quantize.py."""

from __future__ import annotations

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


def main(version: str, argv: list[str] | None = None) -> None:
    """Parse, check, write the quantized checkpoint; RuntimeError without a GPU."""
    log_start("quantize.py", version)
    table = facts("quantize")
    arguments = parser_of("quantize.py", table["flags"]).parse_args(argv if argv is not None else sys.argv[1:])
    if gpus() == 0 and arguments.device == "cuda":
        raise RuntimeError("No CUDA GPUs are available")
    config = hugging_face_config(arguments.model_dir)
    algorithm = table["algorithms"][arguments.qformat]
    quant: dict[str, Any] = {"quant_algo": algorithm, "group_size": arguments.awq_block_size}
    quant["kv_cache_quant_algo"] = arguments.kv_cache_dtype.upper() if arguments.kv_cache_dtype else None
    if algorithm is not None:
        quant["exclude_modules"] = ["lm_head"]
    parallel = Parallel(tp=arguments.tp_size, pp=arguments.pp_size)
    document = checkpoint_config(config, resolved_dtype(arguments.dtype, config), parallel, quant)
    log(f"calibrating with {arguments.calib_size} texts of {arguments.calib_dataset}")
    write_checkpoint("quantize", Path(arguments.output_dir), document)
    say(f"Quantized model exported to {arguments.output_dir}")
