"""What model families have that their config.json does not say: biases, norms, gates, tied heads.

Read from the model classes in huggingface/transformers (src/transformers/models/*/modeling_*.py) and, for families
that carry their own code, from that code; held against published parameter counts in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Family", "family_of"]


@dataclass(frozen=True)
class Family:
    """Traits of a model family where config.json is silent.

    `gated`: the MLP has gate and up projections (three matrices), else two. `tied`: the head is the embedding unless
    config.json says otherwise. `norms`: norms of the hidden size in a layer; `norm_bias`: they have a bias too;
    `final_norms`: norms behind the last layer, and one over the embedding where the family has it. `qk_norm`: weights
    of the query and key norms: none, one row of the head's width for each of the two, or the full width of all heads.
    `qkv_bias`, `out_bias`, `mlp_bias`, `head_bias`: as the class defaults to. `positions`: rows of a learned position
    table beyond `max_positions`, None without such a table.
    """

    name: str
    gated: bool = True
    tied: bool = False
    norms: int = 2
    norm_bias: bool = False
    final_norms: int = 1
    qk_norm: str = ""
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    positions: int | None = None


_BIASED = Family("gpt2", gated=False, tied=True, norm_bias=True, qkv_bias=True, out_bias=True, mlp_bias=True)
_LLAMA = Family("llama")

_FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _LLAMA,
        replace(_BIASED, positions=0),
        replace(_BIASED, name="gpt_bigcode", positions=0),
        replace(_BIASED, name="jais", gated=True, positions=0),
        replace(_BIASED, name="opt", positions=2),
        replace(_BIASED, name="bloom", final_norms=2),
        replace(_BIASED, name="starcoder2"),
        replace(_BIASED, name="gpt_neox", tied=False),
        replace(_BIASED, name="phi", tied=False, norms=1, head_bias=True),
        replace(_BIASED, name="phi3small", gated=True),
        replace(_BIASED, name="gptj", tied=False, norms=1, qkv_bias=False, out_bias=False, head_bias=True),
        Family("mpt", gated=False, tied=True),
        Family("falcon", gated=False, tied=True, norm_bias=True),
        Family("nemotron", gated=False, norm_bias=True),
        Family("stablelm", norm_bias=True),
        Family("cohere", tied=True, norms=1),
        Family("cohere2", tied=True, norms=1),
        Family("dbrx"),
        Family("olmo", norms=0, final_norms=0),
        Family("olmo2", qk_norm="all"),
        Family("olmoe", qk_norm="all"),
        Family("gemma", tied=True),
        Family("gemma2", tied=True, norms=4),
        Family("gemma3_text", tied=True, norms=4, qk_norm="head"),
        Family("qwen", qkv_bias=True),
        Family("qwen2", qkv_bias=True),
        Family("qwen2_moe", qkv_bias=True),
        Family("qwen3", qk_norm="head"),
        Family("qwen3_moe", qk_norm="head"),
        Family("chatglm", qkv_bias=True),
        Family("glm", qkv_bias=True),
        Family("glm4", qkv_bias=True, norms=4),
        Family("phimoe", norm_bias=True, qkv_bias=True, out_bias=True, head_bias=True),
        Family("grok-1", tied=True, norms=4),
        Family("gpt_oss", qkv_bias=True, out_bias=True),
        Family("smollm3", tied=True),
        Family("granitemoe"),
        Family("internlm"),
        *(
            Family(name)
            for name in (
                "mistral", "mixtral", "phi3", "granite", "internlm2", "baichuan", "exaone", "arctic",
                "deepseek", "deepseek_v2", "deepseek_v3", "nemotron-nas",
            )
        ),
    )
}  # fmt: skip

# model class → family, where model_type is another word or is missing
_CLASSES: dict[str, str] = {
    "RWForCausalLM": "falcon",
    "GPT2LMHeadCustomModel": "gpt_bigcode",
    "JAISLMHeadModel": "jais",
    "MptForCausalLM": "mpt",
    "MPTForCausalLM": "mpt",
    "GLMModel": "glm-10b",  # the first GLM is another model than the one that transformers calls glm
    "ChatGLMModel": "chatglm",
    "ChatGLMForConditionalGeneration": "chatglm",
    "BaiChuanForCausalLM": "baichuan",
    "SkyworkForCausalLM": "llama",
    "ExaoneForCausalLM": "exaone",
    "Grok1ModelForCausalLM": "grok-1",
    "DeciLMForCausalLM": "nemotron-nas",
    "Phi3SmallForCausalLM": "phi3small",
    "PhiMoEForCausalLM": "phimoe",
    "QWenLMHeadModel": "qwen",
    "Gemma3ForConditionalGeneration": "gemma3_text",
    "GPTForCausalLM": "gpt2-nemo",
}


def family_of(architecture: str | None, model_type: str | None) -> Family | None:
    """The family of a model class and model_type as config.json gives them; None for one that is not known here."""
    name = _CLASSES.get(architecture or "", model_type or "")
    return _FAMILIES.get(name)
