"""Shapes of known models and a GPU with round numbers, for the planner's tests."""

from __future__ import annotations

from trtspec.hardware.catalogue import Gpu, find_gpu
from trtspec.planning.kv import KvLayout
from trtspec.planning.roofline import Assumptions, Machine
from trtspec.planning.shapes import ModelShape
from trtspec.planning.speedup import SpeedModel, Traffic

__all__ = ["LLAMA_1B", "LLAMA_70B", "ROUND_GPU", "llama", "mixtral", "speed_model"]

# 1 TB/s, 100 TFLOP/s in two bytes, 200 in one, 100 GB/s a direction
ROUND_GPU = Gpu(
    "round", 80 << 30, 1e12, 90, {"float16": 1e14, "bfloat16": 1e14, "fp8": 2e14}, 2e11, "made up for tests"
)


def llama(
    layers: int,
    hidden: int,
    heads: int,
    intermediate: int,
    *,
    kv_heads: int = 8,
    head_dim: int = 128,
    vocab: int = 128256,
    tied: bool = False,
    quantization: str = "none",
    tp: int = 1,
    pp: int = 1,
) -> ModelShape:
    """A Llama of these sizes, its parameters counted from them."""
    table = vocab * hidden
    attention = layers * (2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim)
    parameters = {
        "embedding": table,
        "head": 0 if tied else table,
        "attention": attention,
        "mlp": 3 * layers * hidden * intermediate,
        "experts": 0,
        "norms": hidden * (2 * layers + 1),
    }
    kv = KvLayout((kv_heads,) * layers, head_dim, "fp8" if quantization == "fp8" else "bfloat16")
    return ModelShape(
        "LlamaForCausalLM", "config", parameters, layers, hidden, heads, intermediate, True, vocab, "bfloat16",
        quantization, kv, tp=tp, pp=pp,
    )  # fmt: skip


def mixtral(*, tp: int = 1) -> ModelShape:
    """Mixtral 8x7B."""
    dense = llama(32, 4096, 32, 14336, vocab=32000, tp=tp)
    parameters = {**dense.parameters, "mlp": 32 * 8 * 4096, "experts": 8 * dense.parameters["mlp"]}
    return ModelShape(
        "MixtralForCausalLM", "config", parameters, 32, 4096, 32, 2 * 14336, True, 32000, "bfloat16", "none", dense.kv,
        tp=tp, experts=8, experts_per_token=2,
    )  # fmt: skip


LLAMA_70B = llama(80, 8192, 64, 28672, quantization="fp8")
LLAMA_1B = llama(16, 2048, 32, 8192, head_dim=64, tied=True, quantization="fp8")


def speed_model(
    target: ModelShape = LLAMA_70B,
    draft: ModelShape = LLAMA_1B,
    *,
    gpu: str | Gpu = "H200",
    assumptions: Assumptions | None = None,
    prompt: int = 512,
    output: int = 256,
) -> SpeedModel:
    """A pair on a GPU under a traffic."""
    found = find_gpu(gpu) if isinstance(gpu, str) else gpu
    return SpeedModel(target, draft, Machine(found, assumptions or Assumptions()), Traffic(prompt, output, 8192))
