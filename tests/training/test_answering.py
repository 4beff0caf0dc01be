from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.toys import VOCABULARY, jobs, tiny_model
from trtspec.errors import CheckpointError
from trtspec.training.answering import HuggingFaceAnswerer, LeanAnswerer, load_answerer
from trtspec.training.decoder import Decoder, decoder_supports
from trtspec.training.generate import GenerationSettings

CPU = torch.device("cpu")
SETTINGS = GenerationSettings(rows=5, max_new_tokens=12, top_k=5, end_ids=(2, 11))


def other_family(name: str) -> Any:
    """A tiny random model of a family that the lean pass does not know."""
    import transformers

    torch.manual_seed(0)
    kinds: dict[str, Any] = {
        "gpt2": (transformers.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}),
        "bloom": (transformers.BloomConfig, {"hidden_size": 32, "n_layer": 2, "n_head": 2}),
        "qwen2": (
            transformers.Qwen2Config,
            {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
             "num_key_value_heads": 1},
        ),
    }  # fmt: skip
    kind, fields = kinds[name]
    config = kind(
        vocab_size=VOCABULARY, initializer_range=0.3, bos_token_id=1, eos_token_id=2, pad_token_id=2, **fields
    )
    model: Any = transformers.AutoModelForCausalLM
    return model.from_config(config).train(mode=False)


def test_any_model_answers_as_the_lean_pass_does() -> None:
    work = jobs(13)
    lean = LeanAnswerer(Decoder(tiny_model())).answer(work, SETTINGS)
    plain = HuggingFaceAnswerer(tiny_model(), CPU).answer(work, SETTINGS)
    assert [answer.job for answer in lean] == [answer.job for answer in plain] == work
    assert len({len(answer.tokens) for answer in plain}) > 1
    for one, other in zip(lean, plain, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        np.testing.assert_allclose(one.top_logprobs, other.top_logprobs, atol=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "bloom", "qwen2"])
def test_other_families_answer_in_batches_as_alone(name: str) -> None:
    model, work = other_family(name), jobs(9)
    assert not decoder_supports(model.config) or name == "llama"
    answers = HuggingFaceAnswerer(model, CPU).answer(work, SETTINGS)
    for answer in answers[::3]:
        ids = list(answer.job.prompt)
        for token in answer.tokens.tolist():
            with torch.inference_mode():
                assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)


@pytest.mark.parametrize("kind", ["lean", "plain"])
def test_a_given_answer_is_scored_as_if_it_had_been_generated(kind: str) -> None:
    answerer: Any = LeanAnswerer(Decoder(tiny_model())) if kind == "lean" else HuggingFaceAnswerer(tiny_model(), CPU)
    generated = answerer.answer(jobs(3), SETTINGS)[1]
    scored = answerer.score(generated.job, generated.tokens, 5)
    np.testing.assert_array_equal(scored.top_ids, generated.top_ids)
    np.testing.assert_allclose(scored.top_logprobs, generated.top_logprobs, atol=1e-3)


def test_the_way_is_chosen_by_the_configuration(tmp_path: Path) -> None:
    tiny_model().save_pretrained(str(tmp_path / "llama"))
    other_family("qwen2").save_pretrained(str(tmp_path / "qwen2"))
    assert isinstance(load_answerer(tmp_path / "llama", CPU), LeanAnswerer)
    assert isinstance(load_answerer(tmp_path / "qwen2", CPU), HuggingFaceAnswerer)


def test_a_folder_that_cannot_be_loaded_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(CheckpointError, match="transformers cannot load it") as caught:
        load_answerer(tmp_path, CPU)
    assert caught.value.where == str(tmp_path)
