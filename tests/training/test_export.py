from __future__ import annotations

from pathlib import Path

import torch

from tests.training.toys import VOCABULARY, counting_answer, tiny_model, tokenizer_files
from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.files import read_json
from trtspec.training.data import Vocabulary
from trtspec.training.export import export_draft, whole_vocabulary
from trtspec.training.model import DraftShape, draft_config, new_draft

SHAPE = DraftShape(hidden=16, layers=2, heads=2, kv_heads=1, intermediate=24)


@torch.inference_mode()
def test_the_whole_draft_scores_known_tokens_as_the_restricted_one() -> None:
    target, vocabulary = tiny_model().config, Vocabulary.of([counting_answer(0)], VOCABULARY)
    draft = new_draft(draft_config(SHAPE, target, len(vocabulary)), torch.randn(len(vocabulary), 16))
    whole = whole_vocabulary(draft, vocabulary, torch.ones(VOCABULARY, 16), target)
    ids = torch.arange(len(vocabulary))[None]
    torch.testing.assert_close(whole(vocabulary.ids[ids]).logits[..., vocabulary.ids], draft(ids).logits)
    assert whole.config.vocab_size == VOCABULARY
    assert whole.config.eos_token_id == target.eos_token_id


@torch.inference_mode()
def test_an_exported_draft_loads_in_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    draft, target, out = tiny_model(), tmp_path / "target", tmp_path / "draft"
    tokenizer_files(target, [f"w{i}" for i in range(VOCABULARY - 3)])
    ids = torch.arange(20)[None]
    before = draft(ids).logits
    export_draft(draft, target, out, "# Read me\n", [7, 3])
    loaded = AutoModelForCausalLM.from_pretrained(str(out), dtype=torch.float32)
    torch.testing.assert_close(loaded(ids).logits, before, rtol=0.02, atol=0.02)
    assert (out / "tokenizer.json").read_bytes() == (target / "tokenizer.json").read_bytes()
    assert (out / "README.md").read_text() == "# Read me\n"
    assert read_json(out / "config.json")["dtype"] == "float16"
    assert read_draft_vocabulary(out, VOCABULARY) == [3, 7]
    assert read_json(out / "generation_config.json")["eos_token_id"] == 2
