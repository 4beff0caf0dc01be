"""Pairs that can be served, some with warnings, and pairs whose checkpoints are quantized."""

from __future__ import annotations

from tests.rules.matrix import BOS, CODE, FP8, LLAMA32, LLAMA_1B, PADDED, QWEN, TORCH, Pair, pair_of
from tests.rules.pairs import Model

__all__ = ["GOOD_PAIRS", "QUANTIZED_PAIRS"]

AWQ = Model("Llama-3.1-70B-Instruct-AWQ-INT4", dtype="I32")

GOOD_PAIRS: tuple[Pair, ...] = (
    pair_of(
        "llama 3.1 70b fp8, 3.2 1b",
        "Llama-3.1-70B-Instruct",
        LLAMA_1B,
        ["note pair kv-cache-dtypes-differ", "note spec calibration-fetched", *LLAMA32],
        target={**FP8, "tp": 4},
    ),
    pair_of("llama 3.3 70b, 3.2 3b", "Llama-3.3-70B-Instruct", "Llama-3.2-3B-Instruct", LLAMA32, target={"tp": 4}),
    pair_of(
        "llama 3.1 405b fp8, 8b",
        "Llama-3.1-405B-Instruct",
        "Llama-3.1-8B-Instruct",
        BOS,
        target={**FP8, "tp": 8},
        draft=FP8,
        calibration={"dataset": "cnn_dailymail"},
    ),
    pair_of(
        "llama 3.1 70b, 8b by logits",
        "Llama-3.1-70B-Instruct",
        "Llama-3.1-8B-Instruct",
        ["note pair logits-transfer", *BOS],
        target={"tp": 4},
        speculation={"acceptance": "logits"},
    ),
    pair_of(
        "llama 3.1 70b and 8b, base",
        "Llama-3.1-70B",
        "Llama-3.1-8B",
        ["warning target pp-unproven", "note target chat-template"],
        target={"tp": 2, "pp": 2},
    ),
    pair_of("qwen 2.5 72b, 0.5b", "Qwen2.5-72B-Instruct", "Qwen2.5-0.5B-Instruct", QWEN, target={"tp": 4}),
    pair_of("qwen 2.5 32b, 1.5b", "Qwen2.5-32B-Instruct", "Qwen2.5-1.5B-Instruct", QWEN, target={"tp": 2}),
    pair_of(
        "llama on sixteen ranks",
        "Llama-3.1-70B-Instruct",
        "Llama-3.1-8B-Instruct",
        ["note target kv-heads-copied", *BOS],
        target={"tp": 16},
        hardware={"count": 16},
    ),
    pair_of("qwen 3 32b, 0.6b", "Qwen3-32B", "Qwen3-0.6B", PADDED, target={"tp": 2}),
    pair_of("qwen 3 mixture, 0.6b", "Qwen3-30B-A3B", "Qwen3-0.6B", PADDED, target={"tp": 2}),
    pair_of("gemma 2 27b, 2b", "gemma-2-27b-it", "gemma-2-2b-it", BOS, target={"tp": 2}),
    pair_of(
        "gemma 2 9b, 2b in float16",
        "gemma-2-9b-it",
        "gemma-2-2b-it",
        ["warning draft float16-narrows-range", "note pair draft-costly", *BOS],
        draft={"dtype": "float16"},
    ),
    pair_of(
        "mixtral 8x22b, mistral 7b",
        "Mixtral-8x22B-Instruct-v0.1",
        "Mistral-7B-Instruct-v0.3",
        ["warning pair draft-shorter", *BOS],
        target={"tp": 8},
    ),
    pair_of(
        "llama 2 70b, tinyllama",
        "Llama-2-70b-chat",
        "TinyLlama-1.1B-Chat",
        ["warning pair draft-shorter", *LLAMA32],
        target={"tp": 4},
    ),
    pair_of("llama 2 13b, 7b", "Llama-2-13b-chat", "Llama-2-7b-chat", ["note pair draft-costly", *BOS]),
    pair_of(
        "phi 3 medium, mini",
        "Phi-3-medium-4k-instruct",
        "Phi-3-mini-4k-instruct",
        ["note pair draft-costly", *PADDED, *CODE],
        target={"tp": 2},
    ),
    pair_of(
        "falcon 40b, 7b",
        "falcon-40b",
        "falcon-7b",
        [
            "note draft config-incomplete",
            "note draft remote-code",
            "note target chat-template",
            "note target config-incomplete",
        ],
        target={"tp": 2},
    ),
    pair_of("smollm 2 1.7b, 135m in torch", "SmolLM2-1.7B-Instruct", "SmolLM2-135M-Instruct", [], **TORCH),
    pair_of(
        "deepseek v2, v2 lite",
        "DeepSeek-V2",
        "DeepSeek-V2-Lite",
        ["note draft length-relies-on-scaling", "note target length-relies-on-scaling", *BOS, *PADDED, *CODE],
        target={"tp": 8},
    ),
)

QUANTIZED_PAIRS: tuple[Pair, ...] = (
    pair_of("awq checkpoint", AWQ, LLAMA_1B, LLAMA32, target={"tp": 2}),
    pair_of(
        "gptq checkpoint",
        Model("Qwen2.5-72B-Instruct-GPTQ-Int4", dtype="I32"),
        "Qwen2.5-0.5B-Instruct",
        QWEN,
        target={"tp": 2},
    ),
    pair_of(
        "fp8 checkpoint",
        Model("Llama-3.1-405B-Instruct-FP8", dtype="F8_E4M3"),
        "Llama-3.1-8B-Instruct",
        BOS,
        target={"tp": 8},
    ),
    pair_of(
        "fp8 checkpoint without scales",
        Model("Llama-3.1-405B-Instruct-FP8", dtype="F8_E4M3", scales=False),
        "Llama-3.1-8B-Instruct",
        ["error target quantization-contradicted", *BOS],
        target={"tp": 8},
    ),
    pair_of(
        "gptq with act order",
        Model(
            "Llama-3.1-70B-Instruct",
            dtype="I32",
            config={"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}},
        ),
        LLAMA_1B,
        ["error target gptq-act-order", *LLAMA32],
        target={"tp": 2},
    ),
    pair_of(
        "compressed tensors",
        Model(
            "Llama-3.1-70B-Instruct",
            dtype="F8_E4M3",
            config={
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {
                        "group_0": {
                            "weights": {"type": "float", "num_bits": 8, "strategy": "tensor"},
                            "input_activations": {"type": "float", "num_bits": 8, "dynamic": False},
                        }
                    },
                }
            },
        ),
        LLAMA_1B,
        ["error target checkpoint-quantization-unsupported", *LLAMA32],
        target={"tp": 4},
    ),
    pair_of(
        "awq quantized again",
        AWQ,
        LLAMA_1B,
        ["error target quantized-twice", "note spec calibration-fetched", *LLAMA32],
        target={"quantization": "fp8"},
    ),
    pair_of(
        "awq in torch",
        AWQ,
        LLAMA_1B,
        ["error target quantized-checkpoint", *LLAMA32],
        **TORCH,
    ),
)
