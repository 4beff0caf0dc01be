"""The demo's real pair on the real server: what it says is what transformers says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving.toy import ToyDeployment
from trtspec.checkpoints.chat import render_user
from trtspec.demo import models
from trtspec.progress import SilentReporter
from trtspec.spec import ARMS, Arm, load_spec
from trtspec.wire import Answer, FrontendRequest, ask

pytestmark = [pytest.mark.triton, pytest.mark.smollm2]

QUESTIONS = ("What is the capital of France?", "Write a Python function that adds two numbers.")
LENGTH = 40


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyDeployment]:
    """SmolLM2-135M-Instruct with the committed draft, built and with repositories generated."""
    from trtspec.building import build_engines
    from trtspec.repository import generate

    folder = tmp_path_factory.mktemp("smollm2")
    data = {
        "name": "smollm2",
        "target": {"checkpoint": str(models.fetch_target())},
        "draft": {"checkpoint": str(models.draft_path())},
        "build": {"max_batch_size": 2, "max_seq_len": 256},
    }
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data))
    spec_file = load_spec(path)
    build_engines(spec_file, reporter=SilentReporter())
    generate(spec_file)
    deployment = ToyDeployment(spec_file)
    try:
        yield deployment
    finally:
        deployment.close()


def answer(pair: ToyDeployment, arm: Arm, question: str) -> Answer:
    request = FrontendRequest(render_user(models.fetch_target(), question), LENGTH, token_details=True)
    return asyncio.run(ask(pair.server(arm).grpc_url, request, timeout=120, on_chunk=lambda _: None))


def by_transformers(folder: Path, question: str) -> tuple[list[int], str]:
    """Ids and text of the greedy answer, the end token among the ids."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
    model: Any = LlamaForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    prompt = tokenizer(render_user(folder, question), return_tensors="pt", add_special_tokens=False)
    ids = model.generate(**prompt, do_sample=False, max_new_tokens=LENGTH)[0, prompt["input_ids"].shape[1] :]
    return ids.tolist(), tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("question", QUESTIONS)
def test_both_arms_say_what_transformers_says(pair: ToyDeployment, question: str) -> None:
    ids, text = by_transformers(models.fetch_target(), question)
    for arm in ARMS:
        got = answer(pair, arm, question)
        assert (arm, got.text) == (arm, text)
        assert (arm, got.token_ids) == (arm, ids)


def test_the_draft_helps(pair: ToyDeployment) -> None:
    counters = answer(pair, "speculative", QUESTIONS[1]).counters
    assert counters.num_accepted_tokens
    assert counters.num_output_tokens
    assert counters.num_spec_steps
    assert counters.num_spec_steps < counters.num_output_tokens
