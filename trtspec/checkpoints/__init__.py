"""Reading checkpoints without loading them: configuration, tensors, tokenizer, chat template, and pairs of them."""

from trtspec.checkpoints.architectures import Support, architecture_support
from trtspec.checkpoints.chat import chat_template, leading_bos, render_messages, render_user
from trtspec.checkpoints.checkpoint import Checkpoint, Failure, Survey, read_checkpoint, survey_checkpoint
from trtspec.checkpoints.config import ModelConfig, RopeScaling
from trtspec.checkpoints.evidence import QuantizationEvidence, quantization_evidence
from trtspec.checkpoints.pairing import Pairing, TokenizerMatch, compare_tokenizers, pair_facts
from trtspec.checkpoints.parameters import ParameterCount, parameter_count
from trtspec.checkpoints.quantization import QuantizationFacts
from trtspec.checkpoints.side import Side
from trtspec.checkpoints.tensors import Tensor
from trtspec.checkpoints.tokenizer import TokenizerFacts
from trtspec.checkpoints.weights import WeightIndex, Weights

__all__ = [
    "Checkpoint",
    "Failure",
    "ModelConfig",
    "Pairing",
    "ParameterCount",
    "QuantizationEvidence",
    "QuantizationFacts",
    "RopeScaling",
    "Side",
    "Support",
    "Survey",
    "Tensor",
    "TokenizerFacts",
    "TokenizerMatch",
    "WeightIndex",
    "Weights",
    "architecture_support",
    "chat_template",
    "compare_tokenizers",
    "leading_bos",
    "pair_facts",
    "parameter_count",
    "quantization_evidence",
    "read_checkpoint",
    "render_messages",
    "render_user",
    "survey_checkpoint",
]
