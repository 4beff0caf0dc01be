"""Tiny models, a toy tokenizer and answers for the tests of the training."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trtspec.files import write_json
from trtspec.training.generate import Answer, Job

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
