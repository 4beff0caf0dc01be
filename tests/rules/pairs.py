"""Pairs of known models reduced to metadata: real config.json, stand-in tokenizers at real ids, tensors without data.

A stand-in tokenizer has a few base tokens and the family's special tokens at the ids that they really have, so that
widths, end ids and padding are those of the model. Weights are one sparse file: embedding and head as they are, and one
tensor with all other parameters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trtspec.checkpoints.config import parse_config
from trtspec.checkpoints.parameters import parameter_count
from trtspec.spec import SpecFile, load_spec

__all__ = ["TOKENIZERS", "Model", "StandIn", "pair_spec", "real_config", "write_model"]

CONFIGS = Path(__file__).parent.parent / "facts" / "configs"
_SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4}


@dataclass(frozen=True)
class StandIn:
    """A tokenizer: base tokens and special tokens (id → text), what it begins and ends with, its chat template."""

    base: dict[int, str]
    special: dict[int, str]
    bos: str | None
    eos: str
    template: str | None = None
    adds_bos: bool = False
    kind: str = "BPE"


_LLAMA3 = {
    128000: "<|begin_of_text|>", 128001: "<|end_of_text|>", 128006: "<|start_header_id|>", 128007: "<|end_header_id|>",
    128009: "<|eot_id|>", 128255: "<|reserved_special_token_247|>",
}  # fmt: skip
# both vocabularies begin as cl100k does and part ways beyond 100 000
_GPT_BASE = {0: "!", 1: '"', 64: "a", 279: "Ġthe", 39935: "Ġfox", 110000: "Ġof.Llama"}
_LLAMA3_TURNS = "{{ bos_token }}<|start_header_id|>user<|end_header_id|>{{ messages[0].content }}<|eot_id|>"
_QWEN_SPECIAL = {151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>"}
_QWEN25_SPECIAL = _QWEN_SPECIAL | {151646: "<|object_ref_start|>", 151657: "<tool_call>", 151664: "<|file_sep|>"}
_QWEN_BASE = {0: "!", 1: '"', 64: "a", 279: "Ġthe", 39935: "Ġfox", 110000: "Ġof.Qwen"}
_CHATML = "<|im_start|>user\n{{ messages[0].content }}<|im_end|>\n"
_SENTENCEPIECE = {0: "<unk>", 1: "<s>", 2: "</s>"}
_LLAMA2_BASE = {3: "<0x00>", 278: "▁the", 1701: "▁fo", 31999: "给"}
_MISTRAL_BASE = {3: "<0x00>", 272: "▁the", 285: "▁fo", 31999: "ɮ"}
_PHI3_SPECIAL = _SENTENCEPIECE | {32000: "<|endoftext|>", 32001: "<|assistant|>", 32007: "<|end|>", 32010: "<|user|>"}
_GEMMA2_SPECIAL = {0: "<pad>", 1: "<eos>", 2: "<bos>", 106: "<start_of_turn>", 107: "<end_of_turn>"}
_GEMMA3_SPECIAL = {0: "<pad>", 1: "<eos>", 2: "<bos>", 105: "<start_of_turn>", 106: "<end_of_turn>"}
_LLAMA4_SPECIAL = {200000: "<|begin_of_text|>", 200001: "<|end_of_text|>", 200007: "<|eom|>", 200008: "<|eot|>"}
_GEMMA_TURNS = "{{ bos_token }}<start_of_turn>user\n{{ messages[0].content }}<end_of_turn>\n"

TOKENIZERS: dict[str, StandIn] = {
    "llama3-base": StandIn(_GPT_BASE, {**_LLAMA3, 128008: "<|eom_id|>"}, "<|begin_of_text|>", "<|end_of_text|>",
                           adds_bos=True),
    "llama3.1": StandIn(_GPT_BASE, {**_LLAMA3, 128008: "<|eom_id|>"}, "<|begin_of_text|>", "<|eot_id|>",
                        _LLAMA3_TURNS, adds_bos=True),
    "llama3.2": StandIn(_GPT_BASE, {**_LLAMA3, 128008: "<|eom_id|>"}, "<|begin_of_text|>", "<|eot_id|>",
                        f"{{{{ strftime_now('%d %b %Y') }}}}{_LLAMA3_TURNS}", adds_bos=True),
    # the ids that Llama 3.1 gave a name were reserved in Llama 3
    "llama3": StandIn(_GPT_BASE, {**_LLAMA3, 128008: "<|reserved_special_token_3|>"}, "<|begin_of_text|>",
                      "<|eot_id|>", _LLAMA3_TURNS, adds_bos=True),
    "llama2": StandIn(_LLAMA2_BASE, _SENTENCEPIECE, "<s>", "</s>", "{{ bos_token }}[INST] {{ messages[0].content }}",
                      adds_bos=True),
    "tinyllama": StandIn(_LLAMA2_BASE, _SENTENCEPIECE, "<s>", "</s>", "<|user|>\n{{ messages[0].content }}",
                         adds_bos=True),
    "mistral": StandIn(_MISTRAL_BASE, _SENTENCEPIECE, "<s>", "</s>", "{{ bos_token }}[INST]{{ messages[0].content }}",
                       adds_bos=True),
    "mistral-base": StandIn(_MISTRAL_BASE, _SENTENCEPIECE, "<s>", "</s>", adds_bos=True),
    "mistral-v3": StandIn({771: "<0x00>", 1040: "▁the", 32767: "ɮ"}, {**_SENTENCEPIECE, 3: "[INST]", 4: "[/INST]"},
                          "<s>", "</s>", "{{ bos_token }}[INST]{{ messages[0].content }}", adds_bos=True),
    "phi3": StandIn(_LLAMA2_BASE, _PHI3_SPECIAL, "<s>", "<|endoftext|>", "<|user|>\n{{ messages[0].content }}<|end|>"),
    "qwen2": StandIn(_QWEN_BASE, _QWEN_SPECIAL, None, "<|im_end|>", _CHATML),
    "qwen2.5": StandIn(_QWEN_BASE, _QWEN25_SPECIAL, None, "<|im_end|>", _CHATML),
    "qwen3": StandIn(_QWEN_BASE, _QWEN25_SPECIAL | {151667: "<think>", 151668: "</think>"}, None, "<|im_end|>",
                     f"{_CHATML}<think>"),
    "gemma2": StandIn({255999: "<unused99>", 235280: "▁the"}, _GEMMA2_SPECIAL, "<bos>", "<eos>", _GEMMA_TURNS,
                      adds_bos=True),
    "gemma3": StandIn({236761: "▁the"}, {**_GEMMA3_SPECIAL, 262144: "<image_soft_token>"}, "<bos>", "<eos>",
                      _GEMMA_TURNS, adds_bos=True),
    "falcon": StandIn({12: "!", 248: "Ġthe", 65023: "ĠFox"}, {0: ">>TITLE<<", 11: "<|endoftext|>"}, None,
                      "<|endoftext|>"),
    "smollm2": StandIn({17: "!", 260: "Ġthe", 49151: "Ġfox"}, {0: "<|endoftext|>", 1: "<|im_start|>", 2: "<|im_end|>"},
                       "<|im_start|>", "<|im_end|>", _CHATML),
    "deepseek-v2": StandIn({0: "!", 270: "Ġthe"}, {100000: "<｜begin▁of▁sentence｜>", 100001: "<｜end▁of▁sentence｜>"},
                           "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "{{ bos_token }}User: {{ messages[0] }}",
                           adds_bos=True),
    "deepseek-v3": StandIn({3: "!", 270: "Ġthe", 128814: "<|EOT|>"},
                           {0: "<｜begin▁of▁sentence｜>", 1: "<｜end▁of▁sentence｜>"},
                           "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "{{ bos_token }}{{ messages[0] }}",
                           adds_bos=True),
    "llama4": StandIn({0: "!", 64: "`", 290: "Ġthe"}, _LLAMA4_SPECIAL, "<|begin_of_text|>", "<|eot|>",
                      "{{ bos_token }}{{ messages[0] }}", adds_bos=True),
}  # fmt: skip

# generation_config.json's ends, where they are more than config.json's
_ENDS: dict[str, list[int]] = {
    "Llama-3-8B-Instruct": [128001, 128009],
    "Llama-3-70B-Instruct": [128001, 128009],
    "gemma-2-27b-it": [1, 107],
    "gemma-2-9b-it": [1, 107],
    "Phi-3": [32000, 32001, 32007],
    "Qwen": [151645, 151643],
}
_TOKENIZER_OF = (  # the first prefix decides
    ("Llama-3.2", "llama3.2"), ("Llama-3.", "llama3.1"), ("Llama-3-", "llama3"), ("Llama-2", "llama2"),
    ("Llama-4", "llama4"), ("TinyLlama", "tinyllama"), ("Mistral-7B-v0.1", "mistral-base"),
    ("Mistral-7B-Instruct-v0.3", "mistral-v3"), ("Mixtral-8x7B", "mistral"), ("Mixtral-8x22B", "mistral-v3"),
    ("Phi-3", "phi3"), ("Qwen2.5", "qwen2.5"), ("Qwen2-", "qwen2"), ("Qwen3", "qwen3"), ("gemma-2", "gemma2"),
    ("gemma-3", "gemma3"), ("falcon", "falcon"), ("SmolLM2", "smollm2"), ("DeepSeek-V2", "deepseek-v2"),
    ("DeepSeek-V3", "deepseek-v3"),
)  # fmt: skip
_BASE_MODELS = ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B", "Llama-3.2-1B")


@dataclass(frozen=True)
class Model:
    """A known model: its name in tests/facts/configs, and what is changed in it (... removes a key).

    `rows` and `parameters` are given where config.json does not tell them.
    """

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    ends: list[int] | None = None
    tokenizer: str | None = None
    dtype: str | None = None
    head: bool | None = None
    scales: bool = True
    rows: int | None = None
    parameters: int = 0


def real_config(name: str) -> dict[str, Any]:
    """The config.json of a known model."""
    data: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return data


def write_model(folder: Path, model: Model) -> Path:
    """The folder of a model without the data of its weights."""
    folder.mkdir(parents=True)
    config = {key: value for key, value in (real_config(model.name) | model.config).items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(config))
    prefix = next((key for key in _ENDS if model.name.startswith(key)), None)
    ends = model.ends if model.ends is not None else _ENDS[prefix] if prefix else None
    if ends is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    _write_tokenizer(folder, TOKENIZERS[model.tokenizer or _tokenizer_name(model.name)])
    _write_weights(folder / "model.safetensors", model, config)
    return folder


def _tokenizer_name(name: str) -> str:
    found = next(tokenizer for start, tokenizer in _TOKENIZER_OF if name.startswith(start))
    return "llama3-base" if name in _BASE_MODELS else found


def _write_tokenizer(folder: Path, tokenizer: StandIn) -> None:
    added = [{"id": index, "content": text, "special": True} for index, text in tokenizer.special.items()]
    begins = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": tokenizer.bos, "type_id": 0}}]}
    document = {
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel"},
        "post_processor": begins if tokenizer.adds_bos else None,
        "model": {"type": tokenizer.kind, "vocab": {t: i for i, t in tokenizer.base.items()}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    config = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos, "chat_template": tokenizer.template}
    (folder / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def _write_weights(path: Path, model: Model, config: dict[str, Any]) -> None:
    """A safetensors file of the right size on paper: header, and a hole for the data."""
    parsed = parse_config(config, "config.json")
    plain = {"float16": "F16", "float32": "F32"}.get(parsed.dtype or "", "BF16")
    table = [model.rows or parsed.vocab_size or 0, parsed.hidden or 0]
    count = parameter_count(parsed)
    total, tied = (count.total, count.tied) if count else (model.parameters, False)
    shapes: dict[str, tuple[str, list[int]]] = {"model.embed_tokens.weight": (plain, table)}
    if not tied if model.head is None else model.head:
        shapes["lm_head.weight"] = (plain, table)
    body = total - sum(shape[0] * shape[1] for _, shape in shapes.values())
    shapes |= _body(model, model.dtype or plain, body)
    entries, offset = {}, 0
    for name, (kind, shape) in shapes.items():
        size = shape[0] * (shape[1] if len(shape) > 1 else 1) * _SIZES[kind]
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(entries).encode()
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + offset)


def _body(model: Model, dtype: str, weights: int) -> dict[str, tuple[str, list[int]]]:
    """All weights besides embedding and head as one matrix: plain, packed into integers, or FP8 with its scales."""
    name = "model.layers.0.mlp.down_proj"
    if dtype == "I32":
        return {f"{name}.qweight": (dtype, [1, weights // 8])}
    scales = ("weight_scale", "input_scale") if dtype.startswith("F8") and model.scales else ()
    return {f"{name}.weight": (dtype, [1, weights]), **{f"{name}.{scale}": ("F32", [1]) for scale in scales}}


def pair_spec(folder: Path, target: Model, draft: Model, sections: dict[str, Any]) -> SpecFile:
    """A spec of two known models on eight H100; `sections` are merged into it, None removes one."""
    write_model(folder / "target", target)
    if draft is not target:
        write_model(folder / "draft", draft)
    data: dict[str, Any] = {
        "version": 1,
        "name": "pair",
        "runtime": "tensorrt_llm",
        "target": {"checkpoint": "target"},
        "draft": {"checkpoint": "target" if draft is target else "draft"},
        "hardware": {"gpu": "H100-80GB-SXM", "count": 8},
    }
    for name, value in sections.items():
        data[name] = {**data.get(name, {}), **value} if isinstance(value, dict) else value
    data = {name: value for name, value in data.items() if value is not None}
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data))
    return load_spec(path)
