from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from tests.training.toys import jobs, tiny_model
from trtspec.training.decoder import Decoder
from trtspec.training.generate import Answer, GenerationSettings, Job, generate
from trtspec.training.shards import finished, read_shards, write_shards

SETTINGS = GenerationSettings(rows=4, max_new_tokens=6, top_k=5)


def generated(work: list[Job]) -> list[Answer]:
    return list(generate(Decoder(tiny_model()), work, SETTINGS))


def test_answers_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = generated(jobs(10))
    assert sum(write_shards(tmp_path, written, per_shard=4)) == sum(len(a.tokens) for a in written)
    for before, after in zip(written, read_shards(tmp_path), strict=True):
        assert before.job == after.job
        np.testing.assert_array_equal(before.tokens, after.tokens)
        np.testing.assert_array_equal(before.top_ids, after.top_ids)
        np.testing.assert_allclose(before.top_logprobs, after.top_logprobs, atol=0.01)


def test_a_killed_run_goes_on_from_its_shards(tmp_path: Path) -> None:
    everything = jobs(20)
    killed = write_shards(tmp_path, generate(Decoder(tiny_model()), everything, SETTINGS), per_shard=3)
    assert len(list(islice(killed, 2))) == 2
    killed.close()  # type: ignore[attr-defined]
    done = finished(tmp_path)
    assert len(done) == 6
    list(write_shards(tmp_path, generated([job for job in everything if job.index not in done])))
    whole = {answer.job.index: answer.tokens.tolist() for answer in read_shards(tmp_path)}
    assert whole == {answer.job.index: answer.tokens.tolist() for answer in generated(everything)}


def test_a_half_written_file_is_not_read(tmp_path: Path) -> None:
    list(write_shards(tmp_path, generated(jobs(4))))
    (tmp_path / ".shard-00001.safetensors.part").write_bytes(b"half")
    assert finished(tmp_path) == {0, 1, 2, 3}
