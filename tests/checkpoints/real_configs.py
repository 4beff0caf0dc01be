"""Sizes from the config.json of public models, and the parameters that their weights have.

Counts are those that the hub shows for the safetensors files (half of an index's total_size for 16 bit weights, where
no tensor is stored twice), or the papers' where they are marked `about`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["MODELS", "PublicModel", "config_of"]


@dataclass(frozen=True)
class PublicModel:
    """A public model: its config.json's sizes, its parameters, and what else is known of it."""

    name: str
    config: dict[str, Any] = field(repr=False)
    parameters: int
    active: int | None = None
    about: bool = False


def _llama(sizes: str, **more: Any) -> dict[str, Any]:
    """hidden, intermediate, layers, heads, KV heads, vocabulary."""
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    values = [int(part) for part in sizes.split()]
    base = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return {**base, **dict(zip((*names, "vocab_size"), values, strict=True)), **more}


def _as(architecture: str, model_type: str, sizes: str, **more: Any) -> dict[str, Any]:
    return _llama(sizes, **{"architectures": [architecture], "model_type": model_type, **more})


def _own(architecture: str, model_type: str, **more: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, **more}


TIED = {"tie_word_embeddings": True}
_FALCON = {"bias": False, "alibi": False, "parallel_attn": True, "multi_query": True, "vocab_size": 65024}
_LATENT = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

MODELS: tuple[PublicModel, ...] = (
    PublicModel("Llama-2-7b", _llama("4096 11008 32 32 32 32000"), 6_738_415_616),
    PublicModel("Llama-2-70b", _llama("8192 28672 80 64 8 32000"), 68_976_648_192),
    PublicModel("Llama-3.1-8B", _llama("4096 14336 32 32 8 128256"), 8_030_261_248),
    PublicModel("Llama-3.1-70B", _llama("8192 28672 80 64 8 128256"), 70_553_706_496),
    PublicModel("Llama-3.1-405B", _llama("16384 53248 126 128 8 128256"), 405_853_388_800),
    PublicModel("Llama-3.2-1B", _llama("2048 8192 16 32 8 128256", head_dim=64, **TIED), 1_235_814_400),
    PublicModel("Llama-3.2-3B", _llama("3072 8192 28 24 8 128256", head_dim=128, **TIED), 3_212_749_824),
    PublicModel("SmolLM2-135M", _llama("576 1536 30 9 3 49152", **TIED), 134_515_008),
    PublicModel("SmolLM2-360M", _llama("960 2560 32 15 5 49152", **TIED), 361_821_120),
    PublicModel("SmolLM2-1.7B", _llama("2048 8192 24 32 32 49152", **TIED), 1_711_376_384),
    PublicModel(
        "Mistral-7B-v0.1",
        _as("MistralForCausalLM", "mistral", "4096 14336 32 32 8 32000", sliding_window=4096), 7_241_732_096,
    ),
    PublicModel(
        "Mixtral-8x7B",
        _as("MixtralForCausalLM", "mixtral", "4096 14336 32 32 8 32000", sliding_window=None, num_local_experts=8,
            num_experts_per_tok=2), 46_702_792_704, active=12_879_925_248,
    ),
    PublicModel(
        "Mixtral-8x22B",
        _as("MixtralForCausalLM", "mixtral", "6144 16384 56 48 8 32768", num_local_experts=8, num_experts_per_tok=2),
        140_630_071_296,
    ),
    PublicModel(
        "Qwen2.5-0.5B",
        _as("Qwen2ForCausalLM", "qwen2", "896 4864 24 14 2 151936", use_sliding_window=False, sliding_window=32768,
            max_window_layers=24, **TIED), 494_032_768,
    ),
    PublicModel("Qwen2.5-1.5B", _as("Qwen2ForCausalLM", "qwen2", "1536 8960 28 12 2 151936", **TIED), 1_543_714_304),
    PublicModel("Qwen2.5-7B", _as("Qwen2ForCausalLM", "qwen2", "3584 18944 28 28 4 152064"), 7_615_616_512),
    PublicModel(
        "Qwen2.5-72B",
        _as("Qwen2ForCausalLM", "qwen2", "8192 29568 80 64 8 152064", use_sliding_window=False, sliding_window=131072,
            max_window_layers=80), 72_706_203_648,
    ),
    PublicModel(
        "Qwen3-0.6B", _as("Qwen3ForCausalLM", "qwen3", "1024 3072 28 16 8 151936", head_dim=128, **TIED), 596_049_920
    ),
    PublicModel("Qwen3-8B", _as("Qwen3ForCausalLM", "qwen3", "4096 12288 36 32 8 151936", head_dim=128), 8_190_735_360),
    PublicModel(
        "Qwen3-30B-A3B",
        _as("Qwen3MoeForCausalLM", "qwen3_moe", "2048 6144 48 32 4 151936", head_dim=128, num_experts=128,
            num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]),
        30_532_122_624, active=3_353_032_704,
    ),
    PublicModel(
        "Qwen1.5-MoE-A2.7B",
        _as("Qwen2MoeForCausalLM", "qwen2_moe", "2048 5632 24 16 16 151936", num_experts=60, num_experts_per_tok=4,
            moe_intermediate_size=1408, shared_expert_intermediate_size=5632, decoder_sparse_step=1),
        14_315_784_192,
    ),
    PublicModel("Gemma-2b", _as("GemmaForCausalLM", "gemma", "2048 16384 18 8 1 256000", head_dim=256), 2_506_172_416),
    PublicModel(
        "Gemma-7b", _as("GemmaForCausalLM", "gemma", "3072 24576 28 16 16 256000", head_dim=256), 8_537_680_896
    ),
    PublicModel(
        "Gemma-2-2b",
        _as("Gemma2ForCausalLM", "gemma2", "2304 9216 26 8 4 256000", head_dim=256, sliding_window=4096,
            query_pre_attn_scalar=256), 2_614_341_888,
    ),
    PublicModel(
        "Gemma-2-9b",
        _as("Gemma2ForCausalLM", "gemma2", "3584 14336 42 16 8 256000", head_dim=256, sliding_window=4096),
        9_241_705_984,
    ),
    PublicModel(
        "Gemma-2-27b",
        _as("Gemma2ForCausalLM", "gemma2", "4608 36864 46 32 16 256000", head_dim=128, sliding_window=4096),
        27_227_128_320,
    ),
    PublicModel(
        "Gemma-3-1b",
        _as("Gemma3ForCausalLM", "gemma3_text", "1152 6912 26 4 1 262144", head_dim=256, sliding_window=512,
            sliding_window_pattern=6, rope_theta=1_000_000, rope_local_base_freq=10_000), 999_885_952,
    ),
    PublicModel(
        "Phi-3-mini-4k",
        _as("Phi3ForCausalLM", "phi3", "3072 8192 32 32 32 32064", sliding_window=2047), 3_821_079_552,
    ),
    PublicModel("Phi-3-medium", _as("Phi3ForCausalLM", "phi3", "5120 17920 40 40 10 32064"), 13_960_238_080),
    PublicModel(
        "Phi-3-small",
        _own("Phi3SmallForCausalLM", "phi3small", hidden_size=4096, ff_intermediate_size=14336, num_hidden_layers=32,
             num_attention_heads=32, num_key_value_heads=8, vocab_size=100352), 7_392_272_384,
    ),
    PublicModel(
        "Phi-3.5-MoE",
        _as("PhiMoEForCausalLM", "phimoe", "4096 6400 32 32 8 32064", attention_bias=True, lm_head_bias=True,
            num_local_experts=16, num_experts_per_tok=2), 41_873_153_344,
    ),
    PublicModel("phi-2", _as("PhiForCausalLM", "phi", "2560 10240 32 32 32 51200"), 2_779_683_840),
    PublicModel(
        "falcon-7b",
        _own("FalconForCausalLM", "falcon", hidden_size=4544, num_attention_heads=71, num_kv_heads=71,
             num_hidden_layers=32, new_decoder_architecture=False, **_FALCON), 6_921_720_704,
    ),
    PublicModel(
        "falcon-40b",
        _own("FalconForCausalLM", "falcon", hidden_size=8192, num_attention_heads=128, num_kv_heads=8,
             num_hidden_layers=60, new_decoder_architecture=True, **_FALCON), 41_303_293_952,
    ),
    PublicModel(
        "gpt2", _own("GPT2LMHeadModel", "gpt2", n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257),
        124_439_808,
    ),
    PublicModel(
        "gpt-j-6b",
        _own("GPTJForCausalLM", "gptj", n_embd=4096, n_layer=28, n_head=16, n_positions=2048, vocab_size=50400,
             rotary_dim=64, tie_word_embeddings=False), 6_050_882_784,
    ),
    PublicModel(
        "gpt-neox-20b",
        _own("GPTNeoXForCausalLM", "gpt_neox", hidden_size=6144, intermediate_size=24576, num_hidden_layers=44,
             num_attention_heads=64, vocab_size=50432, rotary_pct=0.25, rotary_emb_base=10000), 20_554_567_680,
    ),
    PublicModel(
        "bloom-560m",
        _own("BloomForCausalLM", "bloom", n_embed=1024, hidden_size=1024, n_layer=24, num_attention_heads=16,
             vocab_size=250880), 559_214_592,
    ),
    PublicModel(
        "bloom",
        _own("BloomForCausalLM", "bloom", hidden_size=14336, n_layer=70, num_attention_heads=112, vocab_size=250880),
        176_247_271_424,
    ),
    PublicModel(
        "opt-125m",
        _own("OPTForCausalLM", "opt", hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12,
             vocab_size=50272, max_position_embeddings=2048, word_embed_proj_dim=768), 125_239_296,
    ),
    PublicModel(
        "opt-350m",
        _own("OPTForCausalLM", "opt", hidden_size=1024, ffn_dim=4096, num_hidden_layers=24, num_attention_heads=16,
             vocab_size=50272, max_position_embeddings=2048, word_embed_proj_dim=512, do_layer_norm_before=False),
        331_196_416,
    ),
    PublicModel(
        "mpt-7b",
        _own("MPTForCausalLM", "mpt", d_model=4096, expansion_ratio=4, n_layers=32, n_heads=32, vocab_size=50432,
             no_bias=True, max_seq_len=2048, attn_config={"alibi": True, "clip_qkv": None}), 6_649_286_656,
    ),
    PublicModel(
        "starcoder",
        _own("GPTBigCodeForCausalLM", "gpt_bigcode", n_embd=6144, n_inner=24576, n_layer=40, n_head=48,
             n_positions=8192, vocab_size=49152, multi_query=True), 15_517_456_384,
    ),
    PublicModel(
        "starcoder2-3b",
        _as("Starcoder2ForCausalLM", "starcoder2", "3072 12288 30 24 2 49152", use_bias=True, sliding_window=4096),
        3_030_371_328,
    ),
    PublicModel(
        "dbrx",
        _own("DbrxForCausalLM", "dbrx", d_model=6144, n_heads=48, n_layers=40, vocab_size=100352, max_seq_len=32768,
             attn_config={"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000},
             ffn_config={"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
             tie_word_embeddings=False), 131_596_523_520,
    ),
    PublicModel(
        "DeepSeek-V2-Lite",
        _as("DeepseekV2ForCausalLM", "deepseek_v2", "2048 10944 27 16 16 102400", moe_intermediate_size=1408,
            n_shared_experts=2, n_routed_experts=64, num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1,
            q_lora_rank=None, **_LATENT), 15_706_484_224,
    ),
    PublicModel(
        "DeepSeek-V2",
        _as("DeepseekV2ForCausalLM", "deepseek_v2", "5120 12288 60 128 128 102400", moe_intermediate_size=1536,
            n_shared_experts=2, n_routed_experts=160, num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1,
            q_lora_rank=1536, **_LATENT), 235_741_434_880, active=21_375_800_320,
    ),
    PublicModel(
        "deepseek-moe-16b",
        _as("DeepseekForCausalLM", "deepseek", "2048 10944 28 16 16 102400", moe_intermediate_size=1408,
            n_shared_experts=2, n_routed_experts=64, num_experts_per_tok=6, first_k_dense_replace=1, moe_layer_freq=1),
        16_375_728_128,
    ),
    PublicModel(
        "internlm2-7b", _as("InternLM2ForCausalLM", "internlm2", "4096 14336 32 32 8 92544", bias=False), 7_737_708_544
    ),
    PublicModel(
        "Baichuan2-7B",
        _own("BaichuanForCausalLM", "baichuan", hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
             num_attention_heads=32, vocab_size=125696), 7_505_973_248,
    ),
    PublicModel(
        "chatglm3-6b",
        _own("ChatGLMModel", "chatglm", hidden_size=4096, ffn_hidden_size=13696, num_layers=28, num_attention_heads=32,
             kv_channels=128, multi_query_attention=True, multi_query_group_num=2, padded_vocab_size=65024,
             add_bias_linear=False, add_qkv_bias=True, seq_length=8192), 6_243_584_000,
    ),
    PublicModel(
        "c4ai-command-r-v01", _as("CohereForCausalLM", "cohere", "8192 22528 40 64 64 256000"), 34_980_831_232
    ),
    PublicModel(
        "EXAONE-3.0-7.8B",
        _own("ExaoneForCausalLM", "exaone", hidden_size=4096, intermediate_size=14336, num_layers=32,
             num_attention_heads=32, num_key_value_heads=8, vocab_size=102400), 7_818_448_896,
    ),
    PublicModel(
        "granite-3.1-2b", _as("GraniteForCausalLM", "granite", "2048 8192 40 32 8 49155", **TIED), 2_533_531_648
    ),
    PublicModel(
        "Qwen-7B",
        _own("QWenLMHeadModel", "qwen", hidden_size=4096, intermediate_size=22016, num_hidden_layers=32,
             num_attention_heads=32, kv_channels=128, vocab_size=151936, no_bias=True, seq_length=8192), 7_721_324_544,
    ),
    PublicModel(
        "Minitron-4B",
        _as("NemotronForCausalLM", "nemotron", "3072 9216 32 24 8 256000", head_dim=128), 4_190_000_000, about=True,
    ),
    PublicModel(
        "grok-1",
        _as("Grok1ModelForCausalLM", "grok-1", "6144 32768 64 48 8 131072", num_experts=8, num_experts_per_tok=2),
        314_000_000_000, about=True,
    ),
    PublicModel(
        "snowflake-arctic",
        _as("ArcticForCausalLM", "arctic", "7168 4864 35 56 8 32000", num_local_experts=128, num_experts_per_tok=2,
            moe_layer_frequency=1), 480_000_000_000, active=17_000_000_000, about=True,
    ),
    PublicModel(
        "jais-13b",
        _own("JAISLMHeadModel", "jais", n_embd=5120, n_inner=13653, n_layer=40, n_head=40, n_positions=2048,
             vocab_size=84992, position_embedding_type="alibi"), 13_000_000_000, about=True,
    ),
)  # fmt: skip


def config_of(name: str) -> dict[str, Any]:
    """The config.json of a public model."""
    return next(model.config for model in MODELS if model.name == name)
