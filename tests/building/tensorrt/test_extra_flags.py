"""build.extra_flags: what passes, what is refused and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.building.tensorrt.contract import options, violations
from tests.building.tensorrt.metadata import pair_spec
from tests.building.tensorrt.pairs import TOOLS, requests_of
from trtspec.building.tensorrt.commands import build_commands
from trtspec.building.tensorrt.extra_flags import extra_flag_problems

LLAMAS = {"target": "LlamaForCausalLM", "draft": "LlamaForCausalLM"}


def test_flags_that_pass_reach_every_engine(tmp_path: Path) -> None:
    flags = {
        "reduce_fusion": "enable", "--user_buffer": True, "monitor_memory": True, "strip_plan": False,
        "max_lora_rank": 8, "lora_target_modules": "attn_q attn_k", "gemm_plugin": "disable", "fast_build": True,
    }  # fmt: skip
    spec_file = pair_spec(tmp_path, "Llama-3.1-8B-Instruct", "Llama-3.2-1B-Instruct", build={"extra_flags": flags})
    for request in requests_of(spec_file).values():
        (command,) = build_commands(request, "CHECKPOINT", "OUTPUT", TOOLS)
        argv = list(command.argv)
        modules = argv.index("--lora_target_modules")
        assert argv[modules + 1 : modules + 3] == ["attn_q", "attn_k"]
        del argv[modules : modules + 3]  # several words: more than the reader of options knows
        given = options(argv)
        assert violations(argv, "1.2") == []
        assert (given["--reduce_fusion"], given["--user_buffer"], given["--gemm_plugin"]) == (
            "enable",
            "enable",
            "disable",
        )
        assert "--monitor_memory" in given
        assert "--strip_plan" not in given
        assert "rank0_managed_weights.safetensors" in command.outputs


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"max_output_len": 2048}, "counts prompt and answer together"),
        ({"use_custom_all_reduce": True}, "decided at run time"),
        ({"multi_block_mode": "enable"}, "decided at run time"),
        ({"enable_xqa": "enable"}, "removed in 0.16"),
        ({"paged_kv_cache": "enable"}, "became kv_cache_type"),
        ({"reduce_fusio": "enable"}, "did you mean --reduce_fusion?"),
        ({"nothing_like_it": 1}, "has no such flag"),
        ({"reduce_fusion": "on"}, "'on' is not one of enable, disable"),
        ({"max_lora_rank": "many"}, "is not a whole number"),
        ({"strip_plan": "enable"}, "takes no value"),
        ({"max_lora_rank": True}, "takes a value"),
        ({"lora_target_modules": "attn_q nothing"}, "'nothing' is not one of"),
        ({"lora_target_modules": " "}, "takes at least one word"),
        ({"max_batch_size": 8}, "write build.max_batch_size"),
        ({"max_decoder_seq_len": 8}, "write build.max_seq_len"),
        ({"max_draft_len": 8}, "write speculation.max_draft_length"),
        ({"speculative_decoding_mode": "medusa"}, "follows the role"),
        ({"use_paged_context_fmha": "disable"}, "must be on"),
        ({"kv_cache_type": "continuous"}, "the cache is paged"),
        ({"build_config": "a.json"}, "would replace sizes"),
        ({"gather_context_logits": True}, "refuses it together with max_draft_len"),
        ({"gather_all_token_logits": True}, "includes context logits"),
        ({"gather_generation_logits": True}, "run-time choice"),
        ({"streamingllm": "enable"}, "aborts"),
        ({"reduce_fusion": "enable", "--reduce_fusion": "disable"}, "given twice"),
        ({"input_timing_cache": "model.cache"}, "begins without one"),
        ({"model_cls_file": "own.py"}, "the class is the checkpoint's"),
        ({"visualize_network": "out"}, "go with the build's working directory"),
        ({"lora_dir": "adapter"}, "merge it into the checkpoint"),
        ({"multiple_profiles": "enable", "opt_num_tokens": 8}, "together with opt_num_tokens"),
        ({"pp_reduce_scatter": True}, "for Mixtral only"),
    ],
)
def test_flags_that_are_refused(flags: dict[str, Any], words: str) -> None:
    (problem,) = extra_flag_problems(flags, "1.2", LLAMAS)
    assert problem.path == f"build.extra_flags.{next(iter(flags))}"
    assert words in str(problem)


@pytest.mark.parametrize(
    "flags", [{"multiple_profiles": "enable"}, {"opt_num_tokens": 8}, {"streamingllm": "disable"}, {}]
)
def test_halves_of_a_forbidden_pair_pass(flags: dict[str, Any]) -> None:
    assert extra_flag_problems(flags, "1.2", LLAMAS) == []


def test_pp_reduce_scatter_of_two_mixtrals() -> None:
    both = {"target": "MixtralForCausalLM", "draft": "MixtralForCausalLM"}
    assert extra_flag_problems({"pp_reduce_scatter": "enable"}, "1.0", both) == []
