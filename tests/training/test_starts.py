from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.builders import tiny_checkpoint
from trtspec.errors import CheckpointError, PairError, UsageError
from trtspec.training.answering import load_network
from trtspec.training.copying import can_copy
from trtspec.training.data import Vocabulary
from trtspec.training.generate import Answer, Job
from trtspec.training.model import DraftShape
from trtspec.training.starts import FromDraft, FromTarget, Scratch, Start, begin, layers_taken, parse_start, start_name

CPU = torch.device("cpu")


def answers(count: int = 20) -> list[Answer]:
    """Prompts that begin with token 1, which no answer holds."""
    found = []
    for number in range(count):
        tokens = np.arange(10 + number, 20 + number)
        top = np.stack([tokens, tokens + 1], axis=1)
        found.append(
            Answer(Job(number, "x", (1, 30 + number)), tokens, top, np.log(np.full(top.shape, 0.5, np.float32)))
        )
    return found


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("pair") / "target", hidden=64, layers=4, shards=2)


def started(start: Start, target: Path) -> Any:
    vocabulary = Vocabulary.of(answers(), 400)
    return begin(start, target, answers(), vocabulary), vocabulary


def test_layers_are_taken_evenly_with_the_first_and_the_last() -> None:
    assert layers_taken(30, 4) == (0, 10, 19, 29)
    assert layers_taken(4, 2) == (0, 3)
    assert layers_taken(8, 1) == (0,)


@torch.inference_mode()
@pytest.mark.parametrize("tie", [True, False])
def test_a_draft_of_the_targets_layers_computes_what_they_do(tmp_path: Path, tie: bool) -> None:
    target = tiny_checkpoint(tmp_path / "target", layers=4, tie=tie, shards=2)
    beginning, vocabulary = started(FromTarget(2), target)
    whole = beginning.whole(beginning.network)
    reference = load_network(target, CPU)
    layers = reference.model.layers
    reference.model.layers = torch.nn.ModuleList([layers[0], layers[3]])
    for place, layer in enumerate(reference.model.layers):
        layer.self_attn.layer_idx = place
    ids = torch.tensor([[1, 33, 12, 13]])
    expected = reference(ids, use_cache=False).logits
    torch.testing.assert_close(whole(ids, use_cache=False).logits, expected)
    small = beginning.network(vocabulary.index[ids], use_cache=False).logits
    torch.testing.assert_close(small, expected[..., vocabulary.ids])
    assert (whole.config.num_hidden_layers, whole.config.eos_token_id) == (2, reference.config.eos_token_id)
    assert "layers 0, 3" in beginning.how


@torch.inference_mode()
def test_training_changes_only_the_rows_of_tokens_that_occur(target: Path) -> None:
    beginning, vocabulary = started(Scratch(DraftShape(32, 1, 2, 1, 48)), target)
    for weight in beginning.network.parameters():
        weight.add_(0.5)
    rows = beginning.whole(beginning.network).model.embed_tokens.weight
    before = beginning.rows["model.embed_tokens.weight"]
    changed = (rows != before).any(dim=-1).nonzero().flatten()
    assert sorted(changed.tolist()) == sorted(vocabulary.ids.tolist())
    torch.testing.assert_close(rows[vocabulary.ids], beginning.network.model.embed_tokens.weight)


@torch.inference_mode()
def test_a_draft_from_scratch_has_the_targets_special_tokens_and_width(target: Path) -> None:
    beginning, _ = started(Scratch(DraftShape(64, 2, 2, 2, 48)), target)
    whole = beginning.whole(beginning.network)
    config = load_network(target, CPU).config
    assert (whole.config.vocab_size, whole.config.eos_token_id) == (config.vocab_size, config.eos_token_id)
    assert "set up to copy" in beginning.how


@pytest.mark.parametrize("shape", [DraftShape(128, 2, 2, 2, 48), DraftShape(32, 1, 4, 4, 48)])
def test_a_shape_without_room_for_copying_starts_from_the_embedding_alone(target: Path, shape: DraftShape) -> None:
    assert not can_copy(shape, 64)
    beginning, _ = started(Scratch(shape), target)
    assert "copy" not in beginning.how
    assert beginning.network.config.hidden_size == shape.hidden


def test_a_model_that_is_there_is_taken_over_whatever_its_family(target: Path, tmp_path: Path) -> None:
    import shutil

    import transformers

    draft = tmp_path / "gpt2"
    config = transformers.GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    model: Any = transformers.GPT2LMHeadModel(config).train(mode=False)
    model.save_pretrained(str(draft))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(target / name, draft / name)
    beginning, vocabulary = started(FromDraft(draft), target)
    ids = torch.tensor([[1, 33, 12]])
    with torch.inference_mode():
        expected = model(ids).logits
        torch.testing.assert_close(beginning.whole(beginning.network)(ids).logits, expected)
        small = beginning.network(vocabulary.index[ids]).logits
    torch.testing.assert_close(small, expected[..., vocabulary.ids])


def test_another_tokenizer_is_refused_with_the_first_differing_ids(target: Path, tmp_path: Path) -> None:
    other = tiny_checkpoint(tmp_path / "other")
    path = other / "tokenizer.json"
    # two tokens change places
    path.write_text(path.read_text().replace('"Ġthe"', '"#"').replace('"he"', '"Ġthe"').replace('"#"', '"he"'))
    with pytest.raises(PairError, match="another tokenizer than the target") as caught:
        started(FromDraft(other), target)
    assert "ids differ" in str(caught.value)


def test_scores_that_are_changed_behind_the_head_are_refused(target: Path, tmp_path: Path) -> None:
    import shutil

    import transformers

    draft = tmp_path / "gemma2"
    config = transformers.Gemma2Config(
        vocab_size=400, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, final_logit_softcapping=0.5, pad_token_id=2, eos_token_id=2, bos_token_id=1,
    )  # fmt: skip
    transformers.Gemma2ForCausalLM(config).save_pretrained(str(draft))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(target / name, draft / name)
    with pytest.raises(CheckpointError, match="changes its scores behind the head"):
        started(FromDraft(draft), target)


@pytest.mark.parametrize("layers", [4, 9])
def test_a_draft_has_fewer_layers_than_the_target(target: Path, layers: int) -> None:
    with pytest.raises(UsageError, match="the target has 4 layers; a draft takes 1 to 3"):
        started(FromTarget(layers), target)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3x256", Scratch(DraftShape(256, 3, 4, 4, 576))),
        ("2x192/400", Scratch(DraftShape(192, 2, 3, 3, 400))),
        ("2x192/400/6", Scratch(DraftShape(192, 2, 6, 6, 400))),
        ("2x192/400/6:2", Scratch(DraftShape(192, 2, 6, 2, 400))),
        ("target:4", FromTarget(4)),
    ],
)
def test_shapes_as_people_write_them(text: str, expected: Start) -> None:
    assert parse_start(text) == expected
    assert parse_start(start_name(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "3", "3x", "0x64", "target:0", "target:x", "3x256/", "big", "3x100/64/3", "2x64/64/4:3"]
)
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_start(text)
