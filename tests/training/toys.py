"""Tiny models, a toy tokenizer and answers for the tests of the training."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tests.builders import tiny_checkpoint
from trtspec.files import write_json
from trtspec.training.distil import Distillation
from trtspec.training.generate import Answer, GenerationSettings, Job
from trtspec.training.model import DraftShape
from trtspec.training.sources import file_source
from trtspec.training.starts import Scratch
from trtspec.training.train import Progress, TrainingSettings

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

VOCABULARY = 97
TEMPLATE = (
    "{% for m in messages %}<|im_start|> {{ m['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def tiny_model(vocabulary: int = VOCABULARY, seed: int = 0, hidden: int = 32) -> LlamaForCausalLM:
    """A random Llama with two layers whose greedy choices are not all the same."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    return model


def jobs(count: int, seed: int = 0, sampled: int = 0) -> list[Job]:
    """Prompts of different lengths that begin alike."""
    rng = random.Random(seed)
    tails = [tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, 9))) for _ in range(count)]
    return [Job(i, f"kind {i % 3}", (1, 5, 9, *tail), sampled) for i, tail in enumerate(tails)]


def counting_answer(index: int, length: int = 12, labels: int = 3) -> Answer:
    """An answer that counts on from the prompt's last token; its labels are nearly certain."""
    first = 3 + index % (VOCABULARY - 3 - length - labels)
    tokens = np.arange(first + 1, first + 1 + length)
    top_ids = tokens[:, None] + np.arange(labels)
    probabilities = np.full((length, labels), 0.01, dtype=np.float32)
    probabilities[:, 0] = 0.9
    job = Job(index, "counting", (1, first))
    return Answer(job, tokens, top_ids, np.log(probabilities))


class Silent:
    """A watcher of a training that keeps the evaluations."""

    def __init__(self) -> None:
        self.seen: list[Progress] = []
        self.notes: list[str] = []
        self.steps = 0

    def evaluated(self, now: Progress) -> None:
        self.seen.append(now)

    def stepped(self, done: float, loss: float) -> None:
        del done, loss
        self.steps += 1

    def note(self, text: str) -> None:
        self.notes.append(text)


def prompt_file(path: Path, count: int = 40) -> Path:
    """A file of short prompts in two categories, for checkpoints of `tests.builders`."""
    rows = [{"prompt": f"fox {i} jumps", "category": "ab"[i % 2]} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def toy_plan(folder: Path, **changes: Any) -> Distillation:
    """A distillation of a tiny target that takes a second, limited by steps."""
    target = folder / "target"
    if not target.exists():
        tiny_checkpoint(target, hidden=64, layers=3, heads=2, kv_heads=2)
    plan = Distillation(
        target=target,
        out=folder / "draft",
        work=folder / "work",
        source=file_source(prompt_file(folder / "prompts.jsonl"), seed=0),
        starts=(Scratch(DraftShape(hidden=64, layers=2, heads=2, kv_heads=2, intermediate=24)),),
        generation=GenerationSettings(rows=16, max_new_tokens=10, top_k=5),
        training=TrainingSettings(steps=12, batch_tokens=256, patience=50, evaluations_per_epoch=2),
    )
    return replace(plan, **changes)


def tokenizer_files(folder: Path, words: list[str]) -> Any:
    """Write a word tokenizer with a chat template; returns it as transformers loads it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoTokenizer

    vocabulary = {word: i for i, word in enumerate(["<unk>", "<|im_start|>", "<|im_end|>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "unk_token": "<unk>"}
    write_json(folder / "tokenizer_config.json", fields)
    return AutoTokenizer.from_pretrained(str(folder))
