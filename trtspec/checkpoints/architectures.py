"""Which model classes each runtime can serve.

TensorRT-LLM: the model map of its 1.0 to 1.2 releases (tensorrt_llm/models/__init__.py), language models only.
torch: the causal language models of transformers. A class in no list may still load; it is only not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trtspec.spec.names import Runtime

__all__ = ["RECURRENT", "TENSORRT_LLM", "TORCH_ONLY", "Support", "architecture_support"]

# Hugging Face class → the TensorRT-LLM class that builds it
TENSORRT_LLM: dict[str, str] = {
    hf: trt
    for trt, names in {
        "GPTForCausalLM": "GPT2LMHeadModel GPT2LMHeadCustomModel GPTBigCodeForCausalLM Starcoder2ForCausalLM "
        "JAISLMHeadModel GPTForCausalLM NemotronForCausalLM",
        "OPTForCausalLM": "OPTForCausalLM",
        "BloomForCausalLM": "BloomForCausalLM",
        "FalconForCausalLM": "RWForCausalLM FalconForCausalLM",
        "PhiForCausalLM": "PhiForCausalLM",
        "Phi3ForCausalLM": "Phi3ForCausalLM Phi3SmallForCausalLM PhiMoEForCausalLM",
        "GPTNeoXForCausalLM": "GPTNeoXForCausalLM",
        "GPTJForCausalLM": "GPTJForCausalLM",
        "MPTForCausalLM": "MptForCausalLM MPTForCausalLM",
        "ChatGLMForCausalLM": "GLMModel ChatGLMModel ChatGLMForCausalLM ChatGLMForConditionalGeneration",
        "LLaMAForCausalLM": "LlamaForCausalLM ExaoneForCausalLM MistralForCausalLM MixtralForCausalLM "
        "ArcticForCausalLM InternLMForCausalLM InternLM2ForCausalLM GraniteForCausalLM GraniteMoeForCausalLM "
        "SkyworkForCausalLM",
        "GrokForCausalLM": "Grok1ModelForCausalLM",
        "BaichuanForCausalLM": "BaichuanForCausalLM BaiChuanForCausalLM",
        "GemmaForCausalLM": "GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM",
        "QWenForCausalLM": "QWenLMHeadModel QWenForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM "
        "Qwen3MoeForCausalLM",
        "DbrxForCausalLM": "DbrxForCausalLM",
        "DeepseekForCausalLM": "DeepseekForCausalLM",
        "DeepseekV2ForCausalLM": "DeepseekV2ForCausalLM",
        "DeciLMForCausalLM": "DeciLMForCausalLM",
        "CohereForCausalLM": "CohereForCausalLM",
    }.items()
    for hf in names.split()
}

# known to transformers, without a class in the TensorRT backend of TensorRT-LLM
_TORCH_ONLY = """
    AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM BioGptForCausalLM BitNetForCausalLM CodeGenForCausalLM
    Cohere2ForCausalLM CohereCompassForCausalLM CTRLLMHeadModel CwmForCausalLM DeepseekV3ForCausalLM
    DeepseekV32ForCausalLM DiffLlamaForCausalLM DogeForCausalLM Dots1ForCausalLM Ernie4_5ForCausalLM
    Ernie4_5_MoeForCausalLM Exaone4ForCausalLM ExaoneMoeForCausalLM FlexOlmoForCausalLM Gemma3ForConditionalGeneration
    Gemma3nForCausalLM Gemma4ForCausalLM Gemma4ForConditionalGeneration GPTNeoForCausalLM GPTNeoXJapaneseForCausalLM
    Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM GlmForCausalLM GptOssForCausalLM
    GraniteMoeSharedForCausalLM HeliumForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
    HyperCLOVAXForCausalLM Jais2ForCausalLM JetMoeForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration
    LongcatFlashForCausalLM MellumForCausalLM MiMoV2FlashForCausalLM MiniCPM3ForCausalLM MiniMaxM2ForCausalLM
    Ministral3ForCausalLM MinistralForCausalLM Mistral3ForConditionalGeneration NanoChatForCausalLM OlmoForCausalLM
    Olmo2ForCausalLM Olmo3ForCausalLM OlmoeForCausalLM OpenAIGPTLMHeadModel PersimmonForCausalLM PhimoeForCausalLM
    SeedOssForCausalLM SmolLM3ForCausalLM SolarOpenForCausalLM StableLmForCausalLM VaultGemmaForCausalLM
    XGLMForCausalLM YoutuForCausalLM
"""
TORCH_ONLY: frozenset[str] = frozenset(_TORCH_ONLY.split())

# their state runs along with the tokens and cannot go back to before a rejected draft token
_RECURRENT = """
    BailingHybridForCausalLM BambaForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM GraniteMoeHybridForCausalLM
    JambaForCausalLM KimiLinearForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Mamba2ForCausalLM MambaForCausalLM
    MiniMaxForCausalLM NemotronHForCausalLM OlmoHybridForCausalLM Qwen3NextForCausalLM Qwen3_5ForCausalLM
    Qwen3_5MoeForCausalLM RecurrentGemmaForCausalLM RwkvForCausalLM ZambaForCausalLM Zamba2ForCausalLM
    ZayaForCausalLM xLSTMForCausalLM
"""
RECURRENT: frozenset[str] = frozenset(_RECURRENT.split())

_NOT_CAUSAL = (
    "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForPreTraining",
    "ForImageClassification", "ForSpeechSeq2Seq", "ForCTC", "Transformer2DModel",
)  # fmt: skip
_ENCODER_DECODER = (
    "T5ForConditionalGeneration", "MT5ForConditionalGeneration", "BartForConditionalGeneration",
    "MBartForConditionalGeneration", "PegasusForConditionalGeneration", "WhisperForConditionalGeneration",
    "MarianMTModel", "BertModel", "RobertaModel", "T5EncoderModel", "EncoderModel", "WhisperEncoder",
)  # fmt: skip

Support = Literal["supported", "unknown", "recurrent", "not_causal", "other_runtime"]


def architecture_support(architecture: str, runtime: Runtime) -> Support:
    """How `runtime` stands to a model class.

    supported, unknown (in no list), recurrent (cannot roll back), not_causal (no language model that continues text),
    other_runtime (the torch runtime has it, TensorRT-LLM has not).
    """
    if architecture in RECURRENT:
        return "recurrent"
    if architecture in _ENCODER_DECODER or architecture.endswith(_NOT_CAUSAL):
        return "not_causal"
    if architecture in TENSORRT_LLM:
        return "supported"
    if architecture in TORCH_ONLY:
        return "supported" if runtime == "torch" else "other_runtime"
    return "unknown"
