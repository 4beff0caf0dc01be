"""Version folders of the models' code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.builders import toy_spec
from tests.repository.engines import fake_engines
from tests.repository.tensorrt import tensorrt_spec
from trtspec.errors import UsageError
from trtspec.repository import VersionChoice, generate, preview
from trtspec.spec import SpecFile

NEXT = VersionChoice(new=True)
FRONTEND = "tensorrt_llm_bls"


@pytest.fixture
def spec_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpecFile:
    spec_file = toy_spec(tmp_path)
    fake_engines(spec_file, monkeypatch)
    generate(spec_file)
    return spec_file


def versions(folder: Path, model: str = FRONTEND) -> list[int]:
    return sorted(int(path.name) for path in (folder / model).iterdir() if path.is_dir())


def served(folder: Path, model: str = FRONTEND) -> list[int]:
    config: Any = text_format.Parse((folder / model / "config.pbtxt").read_text(), ModelConfig())
    return list(config.version_policy.specific.versions)


def test_a_new_version_stands_beside_the_old_one(spec_file: SpecFile) -> None:
    folder = spec_file.repository("speculative")
    old = (folder / FRONTEND / "1" / "model.py").read_bytes()
    (folder / FRONTEND / "1" / "model.py").write_text("# the code of yesterday\n")
    generate(spec_file, versions=NEXT)
    assert versions(folder) == versions(folder, "tensorrt_llm") == [1, 2]
    assert (folder / FRONTEND / "2" / "model.py").read_bytes() == old
    assert (folder / FRONTEND / "1" / "model.py").read_text() == "# the code of yesterday\n"
    assert (folder / FRONTEND / "2" / "speculation" / "loop.py").is_file()
    assert served(folder) == []  # Triton serves the newest by itself
    generate(spec_file, versions=NEXT)
    assert versions(folder) == [1, 2, 3]


def test_writing_again_changes_the_newest_version_and_no_other(spec_file: SpecFile) -> None:
    folder = spec_file.repository("speculative")
    generate(spec_file, versions=NEXT)
    assert generate(spec_file).changed == []
    for version in (1, 2):
        (folder / FRONTEND / str(version) / "model.py").write_text("# edited\n")
    again = generate(spec_file)
    assert again.changed == [f"speculative/{FRONTEND}/2/model.py"]
    assert again.removed == again.foreign == []
    assert (folder / FRONTEND / "1" / "model.py").read_text() == "# edited\n"


def test_versions_to_serve_are_pinned_and_stay_pinned(spec_file: SpecFile) -> None:
    folder = spec_file.repository("speculative")
    generate(spec_file, versions=VersionChoice(new=True, serve=(1,)))
    assert served(folder) == served(folder, "tensorrt_llm") == [1]
    generate(spec_file)
    assert served(folder) == [1]
    generate(spec_file, versions=VersionChoice(serve=(1, 2)))
    assert served(folder) == [1, 2]
    generate(spec_file, versions=NEXT)
    assert served(folder) == []
    generate(spec_file, versions=VersionChoice(serve=(2,)))
    generate(spec_file, versions=VersionChoice(serve=()))
    assert served(folder) == []


def test_a_version_that_is_not_there_cannot_be_served(spec_file: SpecFile) -> None:
    before = sorted(spec_file.repository("speculative").rglob("*"))
    with pytest.raises(UsageError, match="has no version 4; there is 1"):
        generate(spec_file, versions=VersionChoice(serve=(1, 4)))
    assert sorted(spec_file.repository("speculative").rglob("*")) == before


def test_a_version_folder_of_somebody_else_is_left_alone(spec_file: SpecFile) -> None:
    own = spec_file.repository("speculative") / FRONTEND / "7"
    own.mkdir()
    (own / "model.py").write_text("# mine\n")
    generate(spec_file, versions=NEXT)
    assert versions(spec_file.repository("speculative")) == [1, 7, 8]
    assert (own / "model.py").read_text() == "# mine\n"


def test_the_first_version_is_1_whatever_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_file = toy_spec(tmp_path)
    fake_engines(spec_file, monkeypatch)
    generate(spec_file, versions=NEXT)
    assert versions(spec_file.repository("speculative")) == [1]


def test_a_preview_writes_nothing(spec_file: SpecFile) -> None:
    made = preview(spec_file, versions=NEXT)
    assert f"speculative/{FRONTEND}/2/model.py" in made.changed
    assert versions(spec_file.repository("speculative")) == [1]


def test_engines_and_tokenizer_stay_where_config_pbtxt_names_them(tmp_path: Path) -> None:
    spec_file = tensorrt_spec(tmp_path, serving={"engines": "copy", "repository_root": "/models"})
    generate(spec_file)
    folder = spec_file.repository("speculative")
    generate(spec_file, versions=NEXT)
    assert versions(folder) == [1, 2]
    assert versions(folder, "tensorrt_llm") == versions(folder, "tensorrt_llm_draft") == [1]
    assert (folder / FRONTEND / "1" / "tokenizer" / "tokenizer.json").is_file()
    assert not (folder / FRONTEND / "2" / "tokenizer").exists()
    assert generate(spec_file).changed == []
