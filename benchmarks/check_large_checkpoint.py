"""What `trtspec check` and `trtspec plan` cost for a 405B checkpoint: `python benchmarks/check_large_checkpoint.py`.

Builds Llama-3.1-405B (191 shards) and Llama-3.2-1B as they come from the hub, with the same tokenizer of 128 256 ids,
but with shards that hold headers only: the files have their full size and no data on disk. Each command runs as a child
process, and the best of `--runs` is shown: elapsed and CPU seconds, and the peak of its memory.
`--two-forms` has the target's tokenizer as a newer library writes it: then neither file can stand for the other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LLAMA3_ROPE = {
    "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
COMMON = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
LARGE = {
    **COMMON, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
    "num_key_value_heads": 8, "tie_word_embeddings": False, "rope_scaling": {**LLAMA3_ROPE, "factor": 8.0},
}  # fmt: skip
SMALL = {
    **COMMON, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "tie_word_embeddings": True, "rope_scaling": {**LLAMA3_ROPE, "factor": 32.0},
    "head_dim": 64,
}  # fmt: skip
SHARDS = 191


def tensor_shapes(config: dict[str, Any]) -> Iterator[tuple[str, list[int]]]:
    """Name and shape of every tensor of a Llama, in the order of its layers."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield f"{prefix}input_layernorm.weight", [hidden]
        for name, rows in (("q", hidden), ("k", kv), ("v", kv), ("o", hidden)):
            yield f"{prefix}self_attn.{name}_proj.weight", [rows, hidden]
        yield f"{prefix}post_attention_layernorm.weight", [hidden]
        yield f"{prefix}mlp.gate_proj.weight", [inner, hidden]
        yield f"{prefix}mlp.up_proj.weight", [inner, hidden]
        yield f"{prefix}mlp.down_proj.weight", [hidden, inner]
    yield "model.norm.weight", [hidden]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], hidden]


def write_shard(path: Path, tensors: list[tuple[str, list[int]]]) -> int:
    """A safetensors file with a true header and a hole where its data would be; return the bytes of data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors:
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + end)
    return end


def write_checkpoint(folder: Path, config: dict[str, Any], shards: int, tokenizer: dict[str, str]) -> None:
    """A checkpoint folder as the hub has it, its weights as holes."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": config["eos_token_id"]}))
    for name, text in tokenizer.items():
        (folder / name).write_text(text, encoding="utf-8")
    tensors = list(tensor_shapes(config))
    if shards == 1:
        write_shard(folder / "model.safetensors", tensors)
        return
    weight_map: dict[str, str] = {}
    total = 0
    for number in range(shards):
        part = tensors[len(tensors) * number // shards : len(tensors) * (number + 1) // shards]
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        total += write_shard(folder / file, part)
        weight_map |= {name: file for name, _ in part}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def tokenizer_files(*, pairs: bool) -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json of the size of Llama 3's: 128 000 tokens, 280 147 merges, 256 added.

    With `pairs`, merges are lists of two (17 MB), as newer versions of the tokenizers library write them.
    """
    chance = random.Random(3)
    letters = "".join(chr(code) for code in range(0x21, 0x7F)) + "ĠĊČĉ" + "".join(chr(c) for c in range(0xC0, 0x17F))
    words = dict.fromkeys(letters)
    while len(words) < 128_000:
        words["".join(chance.choices(letters, weights=None, k=chance.randint(2, 11)))] = None
    pieces = list(words)
    both = [[chance.choice(pieces), chance.choice(pieces)] for _ in range(280_147)]
    merges = both if pairs else [" ".join(pair) for pair in both]
    added = [
        {"id": 128_000 + n, "content": f"<|reserved_special_token_{n}|>", "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
        for n in range(256)
    ]  # fmt: skip
    for index, content in ((0, "<|begin_of_text|>"), (1, "<|end_of_text|>"), (8, "<|eom_id|>"), (9, "<|eot_id|>")):
        added[index]["content"] = content
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
        },
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {text: index for index, text in enumerate(pieces)}, "merges": merges},
    }  # fmt: skip
    config = {
        "added_tokens_decoder": {str(item["id"]): {k: v for k, v in item.items() if k != "id"} for item in added},
        "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": "{{ bos_token }}{{ messages }}",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }  # fmt: skip
    return {
        "tokenizer.json": json.dumps(document, indent=2, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(config, indent=2),
    }


SPEC = """\
version: 1
name: llama31-405b
runtime: tensorrt_llm
target: {checkpoint: target, dtype: bfloat16, quantization: fp8, kv_cache_dtype: fp8, tp: 8}
draft: {checkpoint: draft, dtype: bfloat16, tp: 1}
speculation: {draft_length: 5}
build: {max_batch_size: 16, max_seq_len: 8192, max_num_tokens: 8192}
hardware: {gpu: H200-141GB-SXM, count: 8}
"""


@dataclass(frozen=True)
class Cost:
    """One run of a command: exit code, elapsed and CPU seconds, peak memory in bytes, what it printed."""

    code: int
    elapsed: float
    cpu: float
    peak: int
    output: str


def run(arguments: list[str], folder: Path) -> Cost:
    """Run a command as a child process and measure it."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(arguments, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
        output.seek(0)
        text = output.read()
    peak = usage.ru_maxrss * 1024
    return Cost(os.waitstatus_to_exitcode(status), elapsed, usage.ru_utime + usage.ru_stime, peak, text)


def best(command: str, folder: Path, runs: int) -> Cost:
    """The fastest of several runs of `trtspec COMMAND`."""
    arguments = [sys.executable, "-m", "trtspec", command, "trtspec.yaml", "--output", "json"]
    return min((run(arguments, folder) for _ in range(runs)), key=lambda cost: cost.elapsed)


def build(folder: Path, two_forms: bool) -> None:
    """Write both checkpoints and the spec."""
    write_checkpoint(folder / "target", LARGE, SHARDS, tokenizer_files(pairs=two_forms))
    write_checkpoint(folder / "draft", SMALL, 1, tokenizer_files(pairs=False))
    (folder / "trtspec.yaml").write_text(SPEC)


def main() -> int:
    """Print one line for each command; 1 when one is above a second or 300 MB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="+", default=["check", "plan"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--two-forms", action="store_true", help="Write the two tokenizers in different forms.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Build the checkpoints there and leave them.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        if not (folder / "trtspec.yaml").exists():
            # in another process: a child's peak of memory begins at its parent's
            builder = multiprocessing.get_context("spawn").Process(target=build, args=(folder, arguments.two_forms))
            builder.start()
            builder.join()
        return report({command: best(command, folder, arguments.runs) for command in arguments.commands})


def report(costs: dict[str, Cost]) -> int:
    """Print the costs; 1 when one is above the limits or a command failed."""
    print(f"{'command':<8} {'exit':>4} {'elapsed':>9} {'CPU':>8} {'peak':>9}   limits: 1 s, 300 MB")
    over = False
    for name, cost in costs.items():
        print(f"{name:<8} {cost.code:>4} {cost.elapsed:>7.2f} s {cost.cpu:>6.2f} s {cost.peak / 1e6:>6.0f} MB")
        over |= cost.elapsed > 1 or cost.peak > 300e6
        if cost.code not in (0, 3):
            print(cost.output[-2000:])
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
