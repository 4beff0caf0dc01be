"""A config.json or tokenizer.json with anything in it: facts, or an error that says what; never a traceback."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkpoints.real_configs import MODELS
from trtspec.checkpoints import parameter_count
from trtspec.checkpoints.config import parse_config
from trtspec.checkpoints.tokenizer_json import parse_fast
from trtspec.errors import CheckpointError

SECTIONS: dict[str, Any] = {
    "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8}}}},
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    "rope_parameters": {"full_attention": {"rope_type": "linear"}},
    "block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}}],
    "layer_types": ["sliding_attention"],
    "mlp_only_layers": [0],
    "attn_config": {"kv_n_heads": 2},
    "sliding_window": 4,
    "intermediate_size": [4, 8],
    "eos_token_id": [1],
}
KEYS: list[str] = sorted({
    *SECTIONS, *(key for model in MODELS for key in model.config), "attention", "ffn", "quant_method", "weights",
    "num_bits", "kv_cache_scheme", "text_config", "first_k_dense_replace", "num_key_value_heads_per_layer", "type",
})  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False) | st.sampled_from(["", "fp8", "llama"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.lists(st.sampled_from(sorted(SECTIONS)), max_size=3),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
)
def test_whatever_a_config_holds(model: Any, sections: list[str], odd: dict[str, Any]) -> None:
    small = {**model.config, "num_hidden_layers": 2} if "num_hidden_layers" in model.config else model.config
    data = {**small, **{name: SECTIONS[name] for name in sections}, **odd}
    try:
        config = parse_config(data, "folder/config.json")
    except CheckpointError as caught:
        refused = caught
    else:
        count = parameter_count(config)
        assert count is None or count.total > 0
        assert config.usable_positions is None or config.usable_positions > 0
        return
    assert (refused.where, refused.code) == ("folder/config.json", "malformed")


WORDS = ("type", "Sequence", "TemplateProcessing", "BertProcessing", "processors", "pretokenizers", "single", "cls",
         "SpecialToken", "id", "content", "special", "vocab", "merges", "a")  # fmt: skip
sections = st.recursive(
    st.none() | st.integers(-1, 3) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["pre_tokenizer", "normalizer", "decoder", "post_processor", "added_tokens"]), sections
    ),
    st.none() | st.fixed_dictionaries({"vocab": sections | st.just({"a": 0})}, optional={"merges": sections}),
)
def test_whatever_a_tokenizer_holds(parts: dict[str, Any], model: dict[str, Any] | None) -> None:
    try:
        facts = parse_fast(json.dumps({**parts, "model": model}))
    except CheckpointError as caught:
        assert caught.code == "malformed"  # noqa: PT017 - both ends are right
    else:
        assert facts.width >= len(facts.tokens) > 0 or not facts.tokens
