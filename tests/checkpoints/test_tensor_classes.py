"""Names of tensors in every family's naming, sorted into parts of the model."""

from __future__ import annotations

import pytest

from trtspec.checkpoints.tensor_classes import tensor_class

NAMES: dict[str, str] = {
    "model.embed_tokens.weight": "embedding",
    "transformer.wte.weight": "embedding",
    "transformer.wpe.weight": "embedding",
    "model.decoder.embed_positions.weight": "embedding",
    "gpt_neox.embed_in.weight": "embedding",
    "model.tok_embeddings.weight": "embedding",
    "transformer.embedding.word_embeddings.weight": "embedding",
    "token_embd.weight": "embedding",
    "transformer.word_embeddings_layernorm.weight": "norms",
    "lm_head.weight": "head",
    "lm_head.bias": "head",
    "embed_out.weight": "head",
    "transformer.output_layer.weight": "head",
    "output.weight": "head",
    "output_norm.weight": "norms",
    "model.layers.11.self_attn.q_proj.weight": "attention",
    "model.layers.11.self_attn.qkv_proj.qweight": "attention",
    "model.layers.11.self_attn.q_norm.weight": "norms",
    "model.layers.0.self_attn.kv_a_proj_with_mqa.weight": "attention",
    "model.layers.0.self_attn.o_proj.weight_scale": "attention",
    "model.layers.0.attention.wqkv.weight": "attention",
    "transformer.h.3.attn.c_attn.weight": "attention",
    "transformer.h.3.self_attention.query_key_value.weight": "attention",
    "gpt_neox.layers.0.attention.dense.weight": "attention",
    "transformer.blocks.0.attn.Wqkv.weight": "attention",
    "blk.0.attn_q.weight": "attention",
    "model.layers.1.mlp.gate_proj.weight": "mlp",
    "model.layers.1.mlp.down_proj.weight_scale_inv": "mlp",
    "model.layers.1.feed_forward.w1.weight": "mlp",
    "transformer.h.3.mlp.c_fc.weight": "mlp",
    "model.decoder.layers.0.fc1.weight": "mlp",
    "transformer.h.0.mlp.dense_h_to_4h.weight": "mlp",
    "transformer.blocks.0.ffn.up_proj.weight": "mlp",
    "model.layers.1.mlp.shared_experts.up_proj.weight": "mlp",
    "model.layers.1.mlp.shared_expert.up_proj.weight": "mlp",
    "model.layers.0.residual_mlp.w1.weight": "mlp",
    "blk.0.ffn_up.weight": "mlp",
    "blk.0.ffn_up_shexp.weight": "mlp",
    "model.layers.7.block_sparse_moe.experts.3.w1.weight": "experts",
    "model.layers.7.mlp.experts.31.up_proj.weight": "experts",
    "model.layers.7.mlp.experts.gate_up_proj_blocks": "experts",
    "transformer.blocks.0.ffn.experts.mlp.w1": "experts",
    "model.layers.0.block_sparse_moe.input_linear.weight": "experts",
    "blk.0.ffn_gate_exps.weight": "experts",
    "model.layers.7.block_sparse_moe.gate.weight": "other",
    "model.layers.7.mlp.gate.weight": "other",
    "model.layers.7.mlp.shared_expert_gate.weight": "other",
    "model.layers.0.block_sparse_moe.router.layer.weight": "other",
    "transformer.blocks.0.ffn.router.layer.weight": "other",
    "blk.0.ffn_gate_inp.weight": "other",
    "model.layers.0.self_attn.rotary_emb.inv_freq": "other",
    "vision_tower.encoder.layers.0.mlp.fc1.weight": "other",
    "model.layers.0.input_layernorm.weight": "norms",
    "model.layers.0.post_feedforward_layernorm.weight": "norms",
    "transformer.h.3.ln_1.weight": "norms",
    "transformer.ln_f.weight": "norms",
    "transformer.h.0.ln_attn.weight": "norms",
    "model.layers.0.attention_norm.weight": "norms",
    "model.norm.weight": "norms",
    "blk.0.attn_norm.weight": "norms",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_class_of_a_tensor(name: str) -> None:
    assert tensor_class(name) == NAMES[name]
