"""A trained draft as a Hugging Face folder over the target's whole vocabulary."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trtspec.checkpoints.draft_vocabulary import write_draft_vocabulary
from trtspec.files import atomic_directory
from trtspec.training.data import Vocabulary

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

__all__ = ["TOKENIZER_FILES", "export_draft", "whole_vocabulary"]

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
)

UNSEEN_SCALE = 0.5


def whole_vocabulary(
    draft: LlamaForCausalLM, vocabulary: Vocabulary, embedding: Tensor, target: Any
) -> LlamaForCausalLM:
    """The draft with an embedding row for every token of the target, as a new model.

    Tokens that training never saw keep their row of ``embedding`` [V, hidden], which training
    started from, scaled down: no training pushed their scores below those of the likely tokens.
    ``target`` is the target's configuration.
    """
    from transformers import LlamaForCausalLM

    rows = embedding * UNSEEN_SCALE
    rows[vocabulary.ids] = draft.model.embed_tokens.weight.detach()
    fields = draft.config.to_dict()
    special = {name: getattr(target, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = type(draft.config)(**{**fields, **special, "vocab_size": len(rows)})
    whole = LlamaForCausalLM(config)
    state = dict(draft.state_dict())
    state["model.embed_tokens.weight"] = state["lm_head.weight"] = rows
    whole.load_state_dict(state)
    whole.train(False)
    return whole


def export_draft(
    draft: LlamaForCausalLM, tokenizer_folder: Path, folder: Path, readme: str, frequent: Sequence[int] = ()
) -> None:
    """Write the draft in float16 with the tokenizer's files, unchanged, and a README.

    With ``frequent`` ids the engine computes scores for these tokens only (see ``torch_runtime.head``).
    An existing folder is replaced in one step.
    """
    from transformers import GenerationConfig

    config = draft.config
    network: Any = draft
    generation: Any = GenerationConfig
    draft.generation_config = generation(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    with atomic_directory(folder) as work:
        network.half().save_pretrained(str(work))
        for name in TOKENIZER_FILES:
            if (tokenizer_folder / name).is_file():
                shutil.copyfile(tokenizer_folder / name, work / name)
        (work / "README.md").write_text(readme, encoding="utf-8")
        if frequent:
            write_draft_vocabulary(work, frequent)
        for path in work.iterdir():
            path.chmod(0o644)
    network.float()
