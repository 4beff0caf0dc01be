"""Requests from metadata alone: precision, families, ranks, and everything that is refused before a program starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.building.tensorrt.contract import options, violations
from tests.building.tensorrt.metadata import metadata_folder, pair_spec, real_config
from tests.building.tensorrt.pairs import TOOLS, requests_of, toolchain
from trtspec.building.tensorrt.commands import Command, build_commands, checkpoint_commands
from trtspec.building.tensorrt.precision import resolved_dtype
from trtspec.building.tensorrt.request import EngineRequest, engine_request, engine_requests
from trtspec.errors import Problem, SpecError
from trtspec.spec import load_spec

TARGET, DRAFT = "Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct"


def request_of(folder: Path, config: dict[str, Any] | str = TARGET, **options: Any) -> EngineRequest:
    """The target's request for a model with these options in the spec."""
    return requests_of(pair_spec(folder, config, DRAFT, target_options=options))["target"]


def conversion(request: EngineRequest) -> Command:
    (command,) = checkpoint_commands(request, "SOURCE", "OUTPUT", TOOLS)
    assert violations(command.argv, request.minor) == []
    return command


def problems_of(folder: Path, config: dict[str, Any] | str = TARGET, **options: Any) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        request_of(folder, config, **options)
    return caught.value.problems


def with_changes(model: str, **changes: Any) -> dict[str, Any]:
    return {**real_config(model), **changes}


@pytest.mark.parametrize(
    ("asked", "checkpoint", "dtype"),
    [
        ("auto", "bfloat16", "bfloat16"),
        ("auto", "float16", "float16"),
        ("auto", "float32", "float16"),
        ("auto", None, "float16"),
        ("bfloat16", "float32", "bfloat16"),
    ],
)
def test_the_computation_type(asked: str, checkpoint: str | None, dtype: str) -> None:
    assert resolved_dtype(asked, checkpoint) == dtype


@pytest.mark.parametrize(
    ("quantization", "stage", "algo"),
    [
        ("fp8", "quantize", "FP8"),
        ("nvfp4", "quantize", "NVFP4"),
        ("int4_awq", "quantize", "W4A16_AWQ"),
        ("w4a8_awq", "quantize", "W4A8_AWQ"),
        ("int8_sq", "quantize", "W8A8_SQ_PER_CHANNEL"),
        ("int8_wo", "convert", "W8A16"),
        ("int4_wo", "convert", "W4A16"),
        ("none", "convert", None),
    ],
)
def test_each_quantization_has_its_program(tmp_path: Path, quantization: str, stage: str, algo: str | None) -> None:
    request = request_of(tmp_path, quantization=quantization, tp=2)
    command = conversion(request)
    assert (command.stage, request.quant_algo) == (stage, algo)
    given = options(command.argv)
    if stage == "quantize":
        assert given["--qformat"] == quantization
        assert ("--awq_block_size" in given) == ("awq" in quantization)
        assert given["--calib_size"] == ("32" if "awq" in quantization else "512")  # quantize.py takes no more for AWQ
    (build,) = build_commands(request, "CHECKPOINT", "OUTPUT", TOOLS)
    assert options(build.argv)["--gemm_plugin"] == ("nvfp4" if quantization == "nvfp4" else "auto")


def test_calibration_goes_to_the_quantizer(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    calibration = {"dataset": "texts", "size": 64, "max_seq_length": 256, "batch_size": 4}
    spec_file = pair_spec(tmp_path, TARGET, DRAFT, target_options={"quantization": "fp8"}, calibration=calibration)
    given = options(conversion(requests_of(spec_file)["target"]).argv)
    assert given["--calib_dataset"] == str(tmp_path / "texts")
    assert [given[f"--{name}"] for name in ("calib_size", "calib_max_seq_length", "batch_size")] == ["64", "256", "4"]


def test_a_dataset_that_the_quantizer_cannot_load(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"calibration\.dataset"):
        requests_of(pair_spec(tmp_path, TARGET, DRAFT, calibration={"dataset": "org/texts"}))


@pytest.mark.parametrize(
    ("options_given", "path", "words"),
    [
        ({"kv_cache_dtype": "int8"}, "target.kv_cache_dtype", "paged context FMHA off"),
        ({"kv_cache_dtype": "fp8"}, "target.kv_cache_dtype", "over unquantized weights"),
        ({"kv_cache_dtype": "fp8", "quantization": "int8_wo"}, "target.kv_cache_dtype", "over W8A16 weights"),
        ({"dtype": "float32"}, "target.dtype", "no context FMHA"),
        ({"tp": 3}, "target.tp", "cannot be shared by 3 ranks"),
        ({"pp": 33}, "target.pp", "32 layers cannot be dealt to 33 pipeline ranks"),
    ],
)
def test_what_is_refused_of_a_plain_checkpoint(
    tmp_path: Path, options_given: dict[str, Any], path: str, words: str
) -> None:
    problems = problems_of(tmp_path, **options_given)
    assert {problem.path for problem in problems} == {path}
    assert words in problems[0].message
    assert problems[0].hint


@pytest.mark.parametrize("quantization", ["fp8", "nvfp4", "w4a8_awq"])
def test_an_fp8_cache_over_fp8_weights(tmp_path: Path, quantization: str) -> None:
    request = request_of(tmp_path, quantization=quantization, kv_cache_dtype="fp8")
    assert request.kv_cache_dtype == "FP8"
    assert options(conversion(request).argv)["--kv_cache_dtype"] == "fp8"
    (build,) = build_commands(request, "CHECKPOINT", "OUTPUT", TOOLS)
    assert options(build.argv)["--use_fp8_context_fmha"] == "enable"


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("DeepseekV3ForCausalLM", "not in the model map"),
        ("Llama4ForConditionalGeneration", "not in the model map"),
        ("GptOssForCausalLM", "not in the model map"),
        ("Gemma3ForConditionalGeneration", "not in the model map"),
        ("NobodyKnowsForCausalLM", "not in the model map"),
        ("Qwen3NextForCausalLM", "recurrent state"),
        ("BertForMaskedLM", "no language model"),
        ("Grok1ModelForCausalLM", "JAX"),
    ],
)
def test_models_outside_the_engine_path(tmp_path: Path, architecture: str, words: str) -> None:
    (problem,) = problems_of(tmp_path, with_changes(TARGET, architectures=[architecture]))
    assert problem.path == "target.checkpoint"
    assert words in problem.message
    assert problem.hint


def test_all_problems_of_all_roles_at_once(tmp_path: Path) -> None:
    spec_file = pair_spec(
        tmp_path, TARGET, "Qwen2.5-0.5B-Instruct", target_options={"tp": 3}, draft_options={"tp": 4},
        build={"extra_flags": {"max_output_len": 3}},
    )  # fmt: skip
    with pytest.raises(SpecError) as caught:
        requests_of(spec_file)
    assert {problem.path for problem in caught.value.problems} == {
        "target.tp",
        "draft.tp",
        "build.extra_flags.max_output_len",
    }
    assert any(problem.hint == "write tp: 2 or 4" for problem in caught.value.problems)


def test_groups_of_awq_are_not_cut(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "Qwen2.5-0.5B-Instruct", quantization="int4_awq", tp=2)
    assert "896 columns of the attention output over 2 ranks are 448 each" in problem.message
    assert problem.hint == "write tp: 1"


def test_a_mixture_of_experts_says_how_experts_are_split(tmp_path: Path) -> None:
    given = options(conversion(request_of(tmp_path, "Mixtral-8x7B-Instruct-v0.1", tp=4)).argv)
    assert (given["--tp_size"], given["--moe_tp_size"], given["--moe_ep_size"]) == ("4", "4", "1")


def test_gemma_knows_tensor_parallelism_only(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "gemma-2-9b-it", pp=2)
    assert (problem.path, problem.hint) == ("target.pp", "write pp: 1 and tp: 2")


@pytest.mark.parametrize(
    ("model", "section", "algo", "flags"),
    [
        (TARGET, {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "W4A16_GPTQ", set()),
        (TARGET, {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}, "W4A16_GPTQ", set()),
        (TARGET, {"quant_method": "fbgemm_fp8"}, "FP8_PER_CHANNEL_PER_TOKEN", set()),
        ("Qwen2.5-7B-Instruct", {"quant_method": "gptq", "bits": 8, "group_size": 128}, "W8A16_GPTQ", set()),
        (TARGET, {"quant_method": "modelopt", "quant_algo": "FP8"}, "FP8", {"--use_fp8"}),
        (TARGET, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4", {"--use_nvfp4"}),
    ],
)
def test_a_checkpoint_that_is_quantized_already(
    tmp_path: Path, model: str, section: dict[str, Any], algo: str, flags: set[str]
) -> None:
    request = request_of(tmp_path, with_changes(model, quantization_config=section))
    given = options(conversion(request).argv)
    assert (request.quant_algo, request.precision.route) == (algo, "converter")
    assert {flag for flag in given if flag.startswith("--use_")} == flags


@pytest.mark.parametrize(
    ("model", "section", "words"),
    [
        (TARGET, {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, "desc_act"),
        (TARGET, {"quant_method": "gptq", "bits": 8, "group_size": 128}, "to W8A16_GPTQ"),
        (TARGET, {"quant_method": "compressed-tensors", "config_groups": {}}, "the converter for llama reads"),
        (TARGET, {"quant_method": "bitsandbytes", "load_in_4bit": True}, "the converter for llama reads"),
        ("Qwen2.5-7B-Instruct", {"quant_method": "modelopt", "quant_algo": "FP8"}, "for qwen reads awq, gptq"),
        ("gemma-2-9b-it", {"quant_method": "awq", "bits": 4, "group_size": 128}, "for gemma reads plain weights only"),
    ],
)
def test_quantized_checkpoints_that_no_converter_reads(
    tmp_path: Path, model: str, section: dict[str, Any], words: str
) -> None:
    (problem,) = problems_of(tmp_path, with_changes(model, quantization_config=section))
    assert problem.path == "target.checkpoint"
    assert words in problem.message


def test_nothing_is_quantized_twice(tmp_path: Path) -> None:
    section = {"quant_method": "awq", "bits": 4, "group_size": 128}
    (problem,) = problems_of(tmp_path, with_changes(TARGET, quantization_config=section), quantization="fp8")
    assert (problem.path, problem.hint) == ("target.quantization", "leave it out to use the checkpoint as it is")


def test_modelopts_own_file_counts(tmp_path: Path) -> None:
    spec_file = pair_spec(tmp_path, TARGET, DRAFT)
    quantization = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    document = {"producer": {"name": "modelopt"}, "quantization": quantization}
    (tmp_path / "target" / "hf_quant_config.json").write_text(json.dumps(document))
    request = engine_request(spec_file, "target", toolchain())
    assert (request.quant_algo, request.kv_cache_dtype) == ("FP8", "FP8")
    assert {"--use_fp8", "--fp8_kv_cache"} <= set(options(conversion(request).argv))


def test_a_gguf_folder_is_refused(tmp_path: Path) -> None:
    spec_file = pair_spec(tmp_path, TARGET, DRAFT)
    (tmp_path / "draft" / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(SpecError, match="holds a GGUF file"):
        engine_requests(spec_file, ("draft",), toolchain())


def test_a_prompt_that_leaves_no_room(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"build.max_input_len: 8192 leaves no room .* max_seq_len is 8192"):
        requests_of(pair_spec(tmp_path, TARGET, DRAFT, build={"max_input_len": 8192}))


def test_no_more_workers_than_gpus(tmp_path: Path) -> None:
    hardware = {"gpu": "H100-80GB-SXM", "count": 2}
    spec_file = pair_spec(tmp_path, TARGET, DRAFT, target_options={"tp": 4}, hardware=hardware)
    assert requests_of(spec_file)["target"].workers == 2


def test_weights_need_not_be_there(tmp_path: Path) -> None:
    folder = metadata_folder(tmp_path / "model", real_config(TARGET))
    assert not list(folder.glob("*.safetensors"))
    assert request_of(tmp_path / "pair").config.layers == 32


def test_an_engine_that_is_given_needs_no_length_of_its_own(tmp_path: Path) -> None:
    spec_file = pair_spec(tmp_path, TARGET, DRAFT)
    text = spec_file.path.read_text().replace("draft:\n  checkpoint: draft", "draft:\n  engine: elsewhere")
    spec_file.path.write_text(text)
    assert engine_request(load_spec(spec_file.path), "target", toolchain()).sizes.max_seq_len == 8192
