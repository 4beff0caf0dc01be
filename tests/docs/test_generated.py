from pathlib import Path

import pytest

from trtspec.cli.docs import generated_documents, write_docs

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(generated_documents()))
def test_the_committed_document_is_what_the_code_says(name: str) -> None:
    committed = (DOCS / name).read_text(encoding="utf-8")
    assert committed == generated_documents()[name], "run scripts/make-docs"


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    assert {path.name for path in write_docs(tmp_path)} == set(generated_documents())
    assert write_docs(tmp_path) == []
