"""Engine folders as `trtspec build` leaves them, without the weights: all that a repository needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import tiny_tokenizer_files
from trtspec.errors import ArtefactMissing
from trtspec.spec import ROLES, Role, SpecFile

VOCAB = 320


def fake_engines(spec_file: SpecFile, monkeypatch: pytest.MonkeyPatch) -> dict[Role, Path]:
    """Make the three engine folders of a spec, and have `trtspec.building.engine_path` find them."""
    engines = {role: _engine(spec_file, role) for role in ROLES}

    def engine_path(spec: SpecFile, role: Role) -> Path:
        path = spec.engines(role) / "0123456789abcdef"
        if not path.is_dir():
            raise ArtefactMissing(f"no {role} engine for this spec", fix=f"trtspec build {spec.path}")
        return path

    monkeypatch.setattr("trtspec.building.engine_path", engine_path, raising=False)
    return engines


def _engine(spec_file: SpecFile, role: Role) -> Path:
    folder = spec_file.engines(role) / "0123456789abcdef"
    tiny_tokenizer_files(folder)
    draft_length = spec_file.spec.speculation.engine_draft_length if role == "target" else 0
    config = {
        "version": "0.1.0",
        "pretrained_config": {"architecture": "LlamaForCausalLM", "vocab_size": VOCAB},
        "build_config": {
            "max_batch_size": 8,
            "max_seq_len": 512 + draft_length,
            "max_num_tokens": 2048,
            "max_draft_len": draft_length,
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    return folder
