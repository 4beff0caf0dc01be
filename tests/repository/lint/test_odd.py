"""Whatever lies in a repository, lint says something and never stops with an error of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.repository.lint.stock import Stock, stock_repository
from trtspec.errors import UsageError
from trtspec.repository.lint import lint_repository, parse_root_map

MODELS = ("ensemble", "preprocessing", "postprocessing", "tensorrt_llm", "tensorrt_llm_bls", "tensorrt_llm_draft")


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    return stock_repository(tmp_path_factory.mktemp("odd"))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_changed_texts(stock: Stock, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS))
    text = stock.text(model)
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 40))
    put = data.draw(st.sampled_from(["", "${x}", '"', "{", "}", "-1", "é", "\x00", "[", "99999999999999999999", "#"]))
    stock.write(model, text[:start] + put + text[start + length :])
    try:
        result = lint_repository(stock.folder)
        assert len(result.to_json()["models"]) == len(MODELS)
        assert all(finding.message and "\n" not in finding.message for finding in result.findings)
    finally:
        stock.write(model, text)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"max_batch_size: TRUE", b'name: "x"\n' * 3, b"{" * 5000, b"instance_group {" * 400]
)
def test_files_that_are_no_configuration(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.pbtxt").write_bytes(content)
    assert lint_repository(tmp_path).to_json()["models"][0]["name"] == "model"


def test_folders_files_and_links_that_do_not_belong_there(tmp_path: Path) -> None:
    folder = stock_repository(tmp_path).folder
    (folder / "README.md").write_text("notes")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").mkdir()
    (folder / "loop" / "config.pbtxt").symlink_to("config.pbtxt")
    (folder / "tensorrt_llm" / "config.pbtxt").unlink()
    (folder / "tensorrt_llm" / "config.pbtxt").mkdir()
    said = {
        (finding.id, finding.data["model"]) for finding in lint_repository(folder).findings if "model" in finding.data
    }
    assert ("repository-config-unparsable", "tensorrt_llm") in said
    assert any(name == "loop" for _, name in said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    folder = stock_repository(tmp_path).folder
    (folder / "tensorrt_llm" / "config.pbtxt").chmod(0)
    assert any("cannot be read" in finding.message for finding in lint_repository(folder).findings)


@pytest.mark.parametrize("value", ["inf", "nan", "-1e999", "9" * 5000, "\\n", "०"])
def test_numbers_that_are_none(tmp_path: Path, value: str) -> None:
    stock = stock_repository(tmp_path)
    numbers = ("kv_cache_free_gpu_mem_fraction", "max_beam_width", "gpu_device_ids", "max_tokens_in_paged_kv_cache")
    stock.set("tensorrt_llm", **dict.fromkeys((*numbers, "max_attention_window_size", "participant_ids"), value))
    assert json.dumps(lint_repository(stock.folder).to_json(), allow_nan=False)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        lint_repository(tmp_path / "gone")


@pytest.mark.parametrize("text", ["/data", "=/models", "/data=models", "/gone/x=/models"])
def test_root_maps_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--root-map"):
        parse_root_map((text,))


def test_the_longest_place_in_the_container_decides(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    roots = parse_root_map((f"{tmp_path}/a=/models", f"{tmp_path}/b=/models/engines"))
    assert roots.host("/models/x") == tmp_path / "a" / "x"
    assert roots.host("/models/engines/x") == tmp_path / "b" / "x"
    assert roots.host("/modelsx") == Path("/modelsx")
    assert roots.host("s3://bucket/x") is None
