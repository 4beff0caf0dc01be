from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.training.toys import jobs, tiny_model
from trtspec.training.decoder import Decoder
from trtspec.training.generate import Answer, GenerationSettings, Job, generate
from trtspec.training.shards import read_shard, shard_path, write_shard
from trtspec.training.tensor_file import FileDamaged, load_tensors, save_tensors

SETTINGS = GenerationSettings(rows=4, max_new_tokens=6, top_k=5)


def generated(work: list[Job]) -> list[Answer]:
    return list(generate(Decoder(tiny_model()), work, SETTINGS))


def test_answers_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = generated([*jobs(10), Job(10, "wide", (70_000,), part="measure")][:10])
    path = shard_path(tmp_path, 3)
    shard = write_shard(path, written)
    assert shard.tokens == sum(len(answer.tokens) for answer in written)
    again = read_shard(path)
    assert again.digest == shard.digest
    for before, after in zip(written, again.answers, strict=True):
        assert before.job == after.job
        np.testing.assert_array_equal(before.tokens, after.tokens)
        np.testing.assert_array_equal(before.top_ids, after.top_ids)
        np.testing.assert_allclose(before.top_logprobs, after.top_logprobs, atol=0.01)


def test_the_writer_has_what_a_reader_gets(tmp_path: Path) -> None:
    shard, again = write_shard(tmp_path / "a", generated(jobs(5))), read_shard(tmp_path / "a")
    for one, other in zip(shard.answers, again.answers, strict=True):
        np.testing.assert_array_equal(one.top_logprobs, other.top_logprobs)


def test_ids_beyond_two_bytes_are_kept(tmp_path: Path) -> None:
    tokens = np.array([128_009, 3])
    answer = Answer(Job(0, "x", (151_000,), part="stop"), tokens, tokens[:, None], np.zeros((2, 1), np.float32))
    (back,) = (write_shard(tmp_path / "a", [answer]), read_shard(tmp_path / "a"))[1].answers
    assert back.job == answer.job
    assert back.tokens.tolist() == [128_009, 3]


def test_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_shard(tmp_path / name, generated(jobs(5)))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_empty_shard_is_one(tmp_path: Path) -> None:
    assert write_shard(tmp_path / "a", []).answers == read_shard(tmp_path / "a").answers == ()


@pytest.mark.parametrize("damage", ["cut", "bit", "other", "empty"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a"
    save_tensors(path, {"x": np.arange(100)}, {"n": 1})
    data = bytearray(path.read_bytes())
    if damage == "bit":
        data[len(data) // 2] ^= 4
    path.write_bytes({"cut": bytes(data[:-9]), "bit": bytes(data), "other": b"text", "empty": b""}[damage])
    with pytest.raises(FileDamaged, match="is damaged"):
        load_tensors(path)
