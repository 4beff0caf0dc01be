from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training.toys import jobs, tiny_model
from trtspec.torch_runtime.linear import best_packing
from trtspec.training.decoder import Decoder
from trtspec.training.generate import Answer, GenerationSettings, Job, generate

SETTINGS = GenerationSettings(rows=7, max_new_tokens=12, top_k=5)


def answers(work: list[Job], settings: GenerationSettings = SETTINGS) -> dict[int, Answer]:
    return {answer.job.index: answer for answer in generate(Decoder(tiny_model()), work, settings)}


@pytest.mark.parametrize("form", ["onednn", "half"])
@torch.inference_mode()
def test_greedy_answers_and_labels_are_those_of_transformers(form: str) -> None:
    """`half` is how a checkpoint in 16 bits is packed."""
    model = tiny_model()
    if form == "half":
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.float16).to(torch.float32)
    assert best_packing(model.lm_head.weight) == form
    for answer in generate(Decoder(model), jobs(40), SETTINGS):
        ids = torch.tensor([[*answer.job.prompt, *answer.tokens.tolist()]])
        logprobs = model(ids).logits[0, len(answer.job.prompt) - 1 : -1].log_softmax(-1)
        best = logprobs.topk(5)
        assert best.indices[:, 0].tolist() == answer.tokens.tolist()
        np.testing.assert_array_equal(best.indices.numpy(), answer.top_ids)
        np.testing.assert_allclose(best.values.numpy(), answer.top_logprobs, atol=1e-4)


def test_every_job_is_answered_once_whatever_the_number_of_rows() -> None:
    many = answers(jobs(40))
    alone = answers(jobs(40), GenerationSettings(rows=1, max_new_tokens=12, top_k=5))
    assert sorted(many) == list(range(40))
    assert all(many[i].tokens.tolist() == alone[i].tokens.tolist() for i in many)


def test_an_answer_ends_with_the_end_id_or_at_the_limit() -> None:
    end = int(answers(jobs(1))[0].tokens[3])
    settings = GenerationSettings(rows=7, max_new_tokens=12, top_k=5, end_ids=(0, end))
    found = answers(jobs(40), settings)
    assert all((a.tokens[-1] == end) != (len(a.tokens) == 12) or len(a.tokens) == 12 for a in found.values())
    assert all(end not in a.tokens[:-1] for a in found.values())
    assert any(a.tokens[-1] == end for a in found.values())


@pytest.mark.parametrize("sampled", [2, 100])
def test_samples_depend_on_seed_and_index_only(sampled: int) -> None:
    first, again = answers(jobs(10, sampled=sampled)), answers(jobs(10, sampled=sampled)[::-1])
    assert all(first[i].tokens.tolist() == again[i].tokens.tolist() for i in first)
    other = answers(jobs(10, sampled=sampled), GenerationSettings(rows=7, max_new_tokens=12, top_k=5, seed=1))
    assert any(first[i].tokens.tolist() != other[i].tokens.tolist() for i in first)


def test_after_the_sampled_tokens_an_answer_is_greedy() -> None:
    for answer in answers(jobs(10, sampled=2)).values():
        assert answer.tokens[2:].tolist() == answer.top_ids[2:, 0].tolist()


def test_no_jobs_give_no_answers() -> None:
    assert answers([]) == {}
