"""The command that makes a TensorRT-LLM checkpoint of a Hugging Face folder with the family's converter.

One call writes the files of all ranks: the scripts loop over them by themselves (`convert_and_save_rank`), one after
the other, so that memory holds one rank's weights at a time.
"""

from __future__ import annotations

from trtspec.building.tensorrt.request import EngineRequest
from trtspec.building.tensorrt.tools import Tools

__all__ = ["convert_argv", "convert_env"]

_BAICHUAN_SECOND_VOCABULARY = 125696  # rows of Baichuan 2's vocabulary; the first one has 64000


def convert_argv(request: EngineRequest, source: str, output: str, tools: Tools) -> tuple[str, ...]:
    """`convert_checkpoint.py` of the family; the computation type is always given, since not all scripts know auto."""
    script = (tools.python, tools.converter(request.family))
    if request.family == "gemma":
        return (*script, *_gemma(request, source, output), *_weight_only(request))
    return (
        *script,
        *("--model_dir", source),
        *("--output_dir", output),
        *("--dtype", request.dtype),
        *("--tp_size", str(request.tp)),
        *("--pp_size", str(request.pp)),
        *_experts(request),
        *_weight_only(request),
        *request.precision.carried_flags,
        *_family_flags(request),
    )


def convert_env(request: EngineRequest) -> dict[str, str]:
    """Environment variables that the converter needs for this family."""
    return dict(request.converter.env)


def _gemma(request: EngineRequest, source: str, output: str) -> tuple[str, ...]:
    """Gemma's script names its folders in its own way, knows tensor parallelism only and must be told the format."""
    return (
        *("--ckpt-type", "hf"),
        *("--model-dir", source),
        *("--output-model-dir", output),
        *("--world-size", str(request.tp)),
        *("--dtype", request.dtype),
    )


def _experts(request: EngineRequest) -> tuple[str, ...]:
    """Experts are split like the MLP, moe_tp_size × moe_ep_size being tp_size: one expert on all ranks, part by part.

    ModelOpt's quantizer can do nothing else, and so baseline and target of either route are alike.
    """
    if not request.config.experts or not request.converter.experts:
        return ()
    return ("--moe_tp_size", str(request.tp), "--moe_ep_size", "1")


def _weight_only(request: EngineRequest) -> tuple[str, ...]:
    precision = request.precision.weight_only
    return ("--use_weight_only", "--weight_only_precision", precision) if precision else ()


def _family_flags(request: EngineRequest) -> tuple[str, ...]:
    if request.family == "nemotron_nas":
        return ("--trust_remote_code",)
    if request.family == "baichuan":
        generation = "v2" if request.config.vocab_size == _BAICHUAN_SECOND_VOCABULARY else "v1"
        return ("--model_version", f"{generation}_{'7b' if request.config.hidden == 4096 else '13b'}")
    return ()
