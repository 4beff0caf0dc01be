"""From a build (with the stand-in for TensorRT-LLM's programs) to its repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.building.tensorrt.gpu_box import make_gpu_box
from tests.repository.leaf_facts import violations
from tests.repository.tensorrt import model_configs, parameters
from trtspec.building import build_engines, engine_path
from trtspec.errors import ArtefactMissing
from trtspec.repository import generate, preview


@pytest.mark.parametrize(("version", "minor"), [("1.0.0", "1.0"), ("1.2.1", "1.2")])
def test_a_repository_of_built_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, minor: str
) -> None:
    hardware = {"gpu": "H100-80GB-SXM", "count": 1}
    box = make_gpu_box(tmp_path, monkeypatch, version=version, hardware=hardware)
    with pytest.raises(ArtefactMissing, match="is not built"):
        generate(box.spec_file)
    build_engines(box.spec_file)
    made = generate(box.spec_file)
    found = dict(model_configs(box.spec_file))
    for name, role in (
        ("speculative/tensorrt_llm", "target"),
        ("speculative/tensorrt_llm_draft", "draft"),
        ("baseline/tensorrt_llm", "baseline"),
    ):
        assert violations(found[name], minor) == []
        assert parameters(found[name])["gpt_model_path"] == str(engine_path(box.spec_file, role))  # type: ignore[arg-type]
    frontend = parameters(found["speculative/tensorrt_llm_bls"])
    # the checkpoint has 512 positions; the engine adds the draft tokens
    assert (frontend["max_seq_len"], frontend["max_draft_length"], frontend["end_ids"]) == ("512", "8", "2")
    assert made.derived["speculative"]["tensorrt_llm"] == version
    assert preview(box.spec_file).changed == []


def test_a_built_engine_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_gpu_box(tmp_path, monkeypatch)
    build_engines(box.spec_file)
    config = engine_path(box.spec_file, "draft") / "config.json"
    config.write_text(config.read_text().replace('"max_beam_width": 1', '"max_beam_width": 2'))
    with pytest.raises(ArtefactMissing, match="the draft engine of 'toy' is not built"):
        generate(box.spec_file)
