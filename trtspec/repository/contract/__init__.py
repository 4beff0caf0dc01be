"""What NVIDIA's C++ `tensorrt_llm` model takes, gives and reads, per release of TensorRT-LLM from 0.19 to 1.2."""

from trtspec.repository.contract.releases import (
    CONTRACTS,
    VERSIONS,
    Contract,
    contract_for,
)
from trtspec.repository.contract.rows import (
    ENCODER_FEATURES,
    LOGITS,
    PROMPT_TABLE,
    TYPE_CHOICES,
    LeafParameter,
    LeafTensor,
)

__all__ = [
    "CONTRACTS",
    "ENCODER_FEATURES",
    "LOGITS",
    "PROMPT_TABLE",
    "TYPE_CHOICES",
    "VERSIONS",
    "Contract",
    "LeafParameter",
    "LeafTensor",
    "contract_for",
]
