"""The command that quantizes a Hugging Face folder into a TensorRT-LLM checkpoint: ModelOpt, through quantize.py.

It needs a GPU and loads the whole model (device_map auto spreads it over all that are visible), and reads the texts
that it calibrates with from the hub unless the spec names a folder. It writes every rank's file in one call, and knows
tensor and pipeline ranks but no expert ranks (examples/models/core/granite/README.md).
"""

from __future__ import annotations

from pathlib import Path

from trtspec.building.tensorrt.request import EngineRequest
from trtspec.building.tensorrt.tools import Tools
from trtspec.toolchain.flags import AWQ_TEXTS

__all__ = ["dataset_folder", "quantize_argv"]

_KV_WORDS = {"FP8": "fp8"}
_AWQ_BLOCK = 128


def quantize_argv(request: EngineRequest, source: str, output: str, tools: Tools) -> tuple[str, ...]:
    """`quantize.py` with the spec's format and calibration; embedding and head stay in the computation type."""
    calibration = request.calibration
    return (
        tools.python,
        tools.quantizer(),
        *("--model_dir", source),
        *("--output_dir", output),
        *("--dtype", request.dtype),
        *("--qformat", request.quantization if request.quantization != "none" else "full_prec"),
        *_kv_cache(request),
        *("--tp_size", str(request.tp)),
        *("--pp_size", str(request.pp)),
        *(("--awq_block_size", str(_AWQ_BLOCK)) if "awq" in request.quantization else ()),
        *_dataset(request),
        *("--calib_size", str(_texts(request))),
        *("--calib_max_seq_length", str(calibration.max_seq_length)),
        *("--batch_size", str(calibration.batch_size)),
    )


def _texts(request: EngineRequest) -> int:
    """Texts that are really used: a size that the quantizer lowers would change the key and nothing else."""
    size = request.calibration.size
    return min(size, AWQ_TEXTS) if "awq" in request.quantization else size


def _kv_cache(request: EngineRequest) -> tuple[str, ...]:
    word = _KV_WORDS.get(request.kv_cache_dtype or "")
    return ("--kv_cache_dtype", word) if word else ()


def _dataset(request: EngineRequest) -> tuple[str, ...]:
    """The folder made absolute, since the program runs elsewhere; a name of the hub as it is."""
    dataset = request.calibration.dataset
    return () if dataset is None else ("--calib_dataset", str(dataset_folder(request) or dataset))


def dataset_folder(request: EngineRequest) -> Path | None:
    """The folder with texts to calibrate with; None where the spec names none, or a data set of the hub."""
    dataset = request.calibration.dataset
    folder = request.root / Path(dataset).expanduser() if dataset is not None else None
    return folder if folder is not None and folder.is_dir() else None
