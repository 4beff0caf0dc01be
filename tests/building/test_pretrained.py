"""Hugging Face names to TensorRT-LLM's."""

from __future__ import annotations

from trtspec.building.pretrained import pretrained_config
from trtspec.checkpoints.config import parse_config


def test_names_of_other_families_are_translated() -> None:
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 3, "n_embd": 48, "n_head": 4,
              "vocab_size": 100, "n_positions": 64, "tie_word_embeddings": True}  # fmt: skip
    fields = pretrained_config(parse_config(config, "config.json"), "float16")
    assert fields["num_hidden_layers"] == 3
    assert (fields["hidden_size"], fields["num_attention_heads"], fields["num_key_value_heads"]) == (48, 4, 4)
    assert (fields["max_position_embeddings"], fields["dtype"]) == (64, "float16")
    assert fields["tie_word_embeddings"] is True


def test_what_a_checkpoint_does_not_say_is_left_out() -> None:
    fields = pretrained_config(parse_config({"model_type": "llama", "vocab_size": 7}, "config.json"), "float32")
    assert "hidden_size" not in fields
    assert "architecture" not in fields
    assert fields["vocab_size"] == 7
