"""Inputs for the rules about checkpoints, models, tokenizers and lengths: rule id → what must be found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.builders import tiny_checkpoint
from tests.rules.toys import (
    Case,
    both,
    config,
    configured,
    cut,
    draft,
    duplicate_id,
    edit,
    edit_spec,
    edit_tokenizer,
    ends,
    engine,
    extra_token,
    no_ends,
    other_merges,
    padded,
    plain_token,
    rename_token,
    section,
    target,
    tensor_twice,
    to_half,
    unreadable_template,
    with_stray_tensor,
    writes_bos,
)
from trtspec.checkpoints.draft_vocabulary import write_draft_vocabulary
from trtspec.spec import SpecFile

__all__ = ["LLAMA3_CUT", "MODEL_CASES"]

LLAMA3_CUT = {"rope_type": "llama3", "factor": 8}


def lora(folder: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base"}))


def gguf(spec: SpecFile) -> None:
    """A GGUF header without tensors beside the tokenizer and config.json."""
    (draft(spec) / "model.safetensors").unlink()
    (draft(spec) / "model.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))


def states_another_size(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    tiny_checkpoint(folder, hidden=64, layers=1, heads=4, kv_heads=2, shards=2)
    edit(folder / "model.safetensors.index.json", metadata={"total_size": 7})


def rename_special(folder: Path) -> None:
    """id 1 is <|im_start|> in the toy pair."""

    def change(data: dict[str, Any]) -> None:
        vocab = data["model"]["vocab"]
        vocab["<|reserved|>"] = vocab.pop("<|im_start|>")
        next(token for token in data["added_tokens"] if token["id"] == 1)["content"] = "<|reserved|>"

    edit_tokenizer(folder, change)


def other_decoder(folder: Path) -> None:
    edit_tokenizer(folder, lambda data: data.update(decoder={"type": "WordPiece"}))


def small_layers(spec: SpecFile) -> None:
    """A draft that is mostly vocabulary: 320 rows × 64, of which its only layer has few parameters."""
    tensors: dict[str, Any] = {"model.embed_tokens.weight": np.ones((320, 64), np.float32)}
    tensors["model.layers.0.mlp.up_proj.weight"] = np.ones((64, 64), np.float32)
    save_file(tensors, draft(spec) / "model.safetensors")


def without_template(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", chat_template=...)


MODEL_CASES: list[tuple[str, Case]] = [
    ("checkpoint-missing", Case(lambda s: edit_spec(s, "draft", checkpoint="gone"), "error", "draft", "no such")),
    ("config-unreadable", Case(lambda s: (draft(s) / "config.json").unlink(), "error", "draft", "is missing")),
    ("config-unreadable", Case(lambda s: config(s, vocab_size="x"), "error", "draft", "vocab_size is 'x'")),
    ("weights-unreadable", Case(lambda s: cut(target(s) / "model.safetensors"), "error", "target", "64 bytes")),
    ("weights-missing", Case(lambda s: (draft(s) / "model.safetensors").unlink(), "error", "draft", "no weights")),
    ("tokenizer-unreadable", Case(lambda s: (draft(s) / "tokenizer.json").unlink(), "error", "draft", "no tokenizer")),
    ("chat-template-unreadable", Case(lambda s: unreadable_template(target(s)), "error", "target", "UTF-8")),
    (
        "generation-config-unreadable",
        Case(lambda s: edit(draft(s) / "generation_config.json", eos_token_id="x"), "error", "draft", "eos_token_id"),
    ),
    (
        "draft-vocabulary-unreadable",
        Case(lambda s: write_draft_vocabulary(draft(s), [999]), "error", "draft", "outside the vocabulary (0 to 319)"),
    ),
    (
        "extra-weight-files",
        Case(lambda s: (target(s) / "consolidated.00.pth").touch(), "note", "target", "consolidated.00.pth"),
    ),
    ("unindexed-tensors", Case(lambda s: with_stray_tensor(draft(s)), "warning", "draft", "stray")),
    ("tensor-in-two-shards", Case(lambda s: tensor_twice(draft(s)), "warning", "draft", "1 tensors lie in more than")),
    ("mixed-dtypes", Case(lambda s: to_half(draft(s)), "note", "draft", "F16")),
    ("embedding-rows", Case(lambda s: config(s, vocab_size=4096), "error", "draft", "4 096")),
    ("architecture-not-causal", Case(configured(architectures=["BertForMaskedLM"]), "error", "draft", "causal")),
    ("architecture-recurrent", Case(configured(architectures=["MambaForCausalLM"]), "error", "draft", "state")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=["NewForCausalLM"]), "warning", "draft", "NewFor")),
    ("architecture-unknown", Case(lambda s: config(s, architectures=[]), "error", "draft", "names no architecture")),
    (
        "remote-code",
        Case(lambda s: config(s, architectures=["MyLM"], auto_map={"AutoModel": "m.M"}), "error", "draft", "MyLM"),
    ),
    ("remote-code", Case(lambda s: config(s, auto_map={"AutoModel": "m.M"}), "note", "draft", "built in", "INFO")),
    ("head-missing", Case(lambda s: config(s, tie_word_embeddings=False), "error", "draft", "no lm_head")),
    ("head-missing", Case(lambda s: config(s, tie_word_embeddings=...), "error", "draft", "is not given")),
    (
        "head-missing",
        Case(configured(tie_word_embeddings=..., model_type="new", architectures=["NewLM"]), "note", "draft", "not"),
    ),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling=LLAMA3_CUT), "error", "draft", "low_freq_factor")),
    ("rope-scaling", Case(lambda s: config(s, rope_parameters=LLAMA3_CUT), "error", "draft", "4.43")),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling={"factor": 2}), "error", "draft", "names no kind")),
    ("rope-scaling", Case(lambda s: config(s, rope_scaling={"type": "new"}), "warning", "draft", "unknown kind 'new'")),
    (
        "rope-scaling",
        Case(lambda s: config(s, rope_scaling={"type": "linear", "factor": 0}), "error", "draft", "at least 1"),
    ),
    (
        "rope-scaling",
        Case(
            lambda s: config(
                s,
                rope_scaling={
                    **LLAMA3_CUT,
                    "low_freq_factor": 4,
                    "high_freq_factor": 1,
                    "original_max_position_embeddings": 64,
                },
            ),
            "error", "draft", "must be a number below",
        ),
    ),
    ("sizes-contradict", Case(lambda s: config(s, num_attention_heads=7), "error", "draft", "shared by 7 heads")),
    ("sizes-contradict", Case(lambda s: config(s, num_attention_heads=96), "error", "draft", "shared by 96 heads")),
    ("sizes-contradict", Case(lambda s: config(s, num_key_value_heads=3), "error", "draft", "shared by 3 KV heads")),
    (
        "sizes-contradict",
        Case(lambda s: config(s, num_local_experts=8, num_experts_per_tok=9), "error", "draft", "9 of 8 experts"),
    ),
    ("config-incomplete", Case(lambda s: config(s, num_hidden_layers=...), "note", "draft", "layers")),
    (
        "quantized-checkpoint",
        Case(lambda s: config(s, quantization_config={"quant_method": "awq"}), "error", "draft", "awq"),
    ),
    ("draft-not-smaller", Case(lambda s: edit_spec(s, "draft", checkpoint="target"), "warning", "pair", "control")),
    ("draft-not-smaller", Case(lambda s: edit_spec(s, "target", checkpoint="small"), "warning", "pair", "7 472")),
    ("draft-not-smaller", Case(lambda s: padded(target(s), 300), "warning", "pair", "parameters")),
    ("tokenizer-differs", Case(lambda s: rename_token(draft(s), 50, "other"), "error", "pair", "id 50 is")),
    ("tokenizer-extended", Case(lambda s: extra_token(target(s)), "warning", "pair", "<tool>")),
    ("special-tokens-renamed", Case(lambda s: rename_special(draft(s)), "warning", "pair", "1 special ids have two")),
    (
        "id-beyond-embedding",
        Case(lambda s: extra_token(draft(s), "<image_soft_token>"), "warning", "draft", "has the placeholder"),
    ),
    ("id-beyond-embedding", Case(lambda s: extra_token(draft(s)), "error", "draft", "its tokenizer has ids up to")),
    ("vocabulary-padded", Case(lambda s: padded(draft(s), 640), "note", "draft", "rows are padding")),
    ("vocabulary-sizes-differ", Case(lambda s: padded(draft(s), 640), "note", "pair", "padding only", "INFO")),
    ("tokenizer-splits-differently", Case(lambda s: other_merges(draft(s)), "warning", "pair", "merges differ")),
    (
        "tokenizer-splits-differently",
        Case(lambda s: other_decoder(draft(s)), "note", "pair", "the decoder differs"),
    ),
    ("special-flags-differ", Case(lambda s: plain_token(draft(s)), "note", "pair", "is special in the target's")),
    ("tokenizer-duplicate-ids", Case(lambda s: duplicate_id(draft(s)), "error", "draft", "gives id 5")),
    ("end-ids-missing", Case(lambda s: no_ends(draft(s)), "warning", "draft", "no eos_token_id")),
    ("end-ids-differ", Case(lambda s: ends(s, [2, 5, 6], [2]), "warning", "pair", "ends at 2 ('<|im_end|>')", "PERF")),
    ("end-ids-differ", Case(lambda s: ends(s, [5], [6]), "error", "pair", "no end in common")),
    ("end-id-out-of-range", Case(lambda s: ends(s, [2, 99999], [2]), "error", "target", "end id 99999")),
    ("chat-template", Case(lambda s: edit(target(s) / "tokenizer_config.json", chat_template=...), "note", "target")),
    ("double-bos", Case(lambda s: writes_bos(target(s)), "note", "target", "both begin with '<|endoftext|>'")),
    ("draft-shorter", Case(lambda s: config(s, max_position_embeddings=64), "warning", "pair", "limited to 64")),
    ("max-seq-len-too-long", Case(lambda s: edit_spec(s, "build", max_seq_len=4096), "error", "spec", "4 096")),
    ("little-room-for-drafts", Case(lambda s: edit_spec(s, "build", max_seq_len=32), "warning", "spec", "9 tokens")),
    ("adapter-only", Case(lambda s: lora(draft(s)), "error", "draft", "adapter for org/base")),
    ("gguf-without-engines", Case(both(gguf, engine()), "error", "draft", "model.gguf is GGUF")),
    ("index-size-differs", Case(lambda s: states_another_size(draft(s)), "note", "draft", "the index says 7 B")),
    (
        "architecture-without-engines",
        Case(both(engine(), configured(architectures=["DeepseekV3ForCausalLM"])), "error", "draft", "DeepseekV3"),
    ),
    ("architecture-unknown", Case(both(engine(), configured(architectures=["NewLM"])), "error", "draft", "NewLM")),
    (
        "architecture-not-convertible",
        Case(both(engine(), configured(architectures=["Grok1ModelForCausalLM"])), "error", "draft", "JAX release"),
    ),
    (
        "multimodal-wrapper",
        Case(configured(architectures=["Gemma3ForConditionalGeneration"], vision_config={"x": 1}), "note", "draft"),
    ),
    (
        "sliding-window-reuse",
        Case(
            both(
                engine(),
                configured(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", sliding_window=16,
                           num_hidden_layers=6),
            ),
            "warning", "draft", "5 of 6 layers see the last 16 tokens",
        ),
    ),
    (
        "rope-kind-ignored",
        Case(both(engine(), configured(rope_scaling={"rope_type": "proportional"})), "error", "draft", "as none"),
    ),
    ("draft-costly", Case(lambda _spec: None, "note", "pair", "61% of the target's parameters")),
    ("draft-length-long", Case(section("speculation", draft_length=16), "warning", "spec", "draft_length 16")),
    (
        "lookup-in-made-up-text",
        Case(both(section("draft", method="lookup"), section("loadtest", prompts="random")), "note", "spec", "lookup"),
    ),
    ("draft-vocabulary-heavy", Case(small_layers, "note", "draft", "83% of the draft's parameters")),
    ("draft-not-instructed", Case(lambda s: without_template(draft(s)), "warning", "draft", "the draft has none")),
    (
        "chat-templates-differ",
        Case(lambda s: edit(draft(s) / "tokenizer_config.json", chat_template="other"), "note", "pair", "differ"),
    ),
    (
        "length-relies-on-scaling",
        Case(
            both(
                configured("target", rope_scaling={"rope_type": "yarn", "factor": 2.0}),
                configured("draft", rope_scaling={"rope_type": "yarn", "factor": 2.0}),
            ),
            "note", "target", "max_seq_len 1 024 is reached by yarn scaling; without it 512",
        ),
    ),
    (
        "expected-requests-too-long",
        Case(section("expectations", prompt_tokens=400, output_tokens=200), "error", "spec", "= 600 tokens"),
    ),
    ("loadtest-output-too-long", Case(section("loadtest", max_tokens=512), "warning", "spec", "max_tokens is 512")),
    ("max-input-len-unused", Case(engine(build={"max_input_len": 128}), "note", "spec", "max_input_len 128")),
]  # fmt: skip
