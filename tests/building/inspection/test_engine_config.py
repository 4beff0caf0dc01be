"""Reading the config.json of engines of every version, right and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import toy_spec
from tests.building.inspection.engines import engine_config, engine_folder
from trtspec.building import build_engines
from trtspec.building.inspection import read_engine_config
from trtspec.building.inspection.engine_config import parse_engine_config
from trtspec.errors import BuildError


@pytest.mark.parametrize("version", ["0.19.0", "0.21.0", "1.0.0", "1.0.3.2510", "1.1.0", "1.2.0", "1.2.1"])
def test_every_version_reads_the_same(tmp_path: Path, version: str) -> None:
    config = read_engine_config(engine_folder(tmp_path / "engine", version))
    assert config.version == version
    assert config.runtime == "tensorrt_llm"
    assert config.speculates
    assert (config.max_draft_len, config.max_seq_len, config.max_batch_size) == (8, 8200, 32)
    assert config.paged_kv is True
    assert config.paged_context_fmha is True
    assert config.gather_context_logits is False
    assert (config.tp, config.pp, config.world_size) == (1, 1, 1)
    assert config.built_on == (None if version.startswith("1.2") else "L4")


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        (1, "NONE"),
        (0, "NONE"),
        (2, "DRAFT_TOKENS_EXTERNAL"),
        (4, "MEDUSA"),
        (32, "EAGLE"),
        (512, "AUTO"),
        (3, "unknown mode 3"),
        ("DRAFT_TOKENS_EXTERNAL", "DRAFT_TOKENS_EXTERNAL"),
        ("SpeculativeDecodingMode.NONE", "NONE"),
        ("draft_tokens_external", "DRAFT_TOKENS_EXTERNAL"),
        (None, "NONE"),
    ],
)
def test_speculative_modes(written: Any, mode: str) -> None:
    config, problems = parse_engine_config(engine_config(build_config__speculative_decoding_mode=written))
    assert problems == ()
    assert config is not None
    assert config.speculative_mode == mode


@pytest.mark.parametrize(
    ("changes", "paged"),
    [
        ({"build_config__kv_cache_type": "PAGED"}, True),
        ({"build_config__kv_cache_type": "paged"}, True),
        ({"build_config__kv_cache_type": "KVCacheType.PAGED"}, True),
        ({"build_config__kv_cache_type": "continuous"}, False),
        ({"build_config__kv_cache_type": "DISABLED", "build_config__plugin_config__paged_kv_cache": True}, False),
        ({"build_config__kv_cache_type": ..., "build_config__plugin_config__paged_kv_cache": True}, True),
        ({"build_config__kv_cache_type": None, "build_config__plugin_config__paged_kv_cache": "disable"}, False),
        ({"build_config__kv_cache_type": ...}, None),
    ],
)
def test_kinds_of_kv_cache(changes: dict[str, Any], paged: bool | None) -> None:
    config, _ = parse_engine_config(engine_config(**changes))
    assert config is not None
    assert config.paged_kv is paged


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"version": ...}, "version"),
        ({"version": 1.2}, "version"),
        ({"pretrained_config": ...}, "pretrained_config"),
        ({"pretrained_config": [1]}, "pretrained_config"),
        ({"build_config": None}, "build_config"),
        ({"pretrained_config__vocab_size": ...}, "pretrained_config.vocab_size"),
        ({"pretrained_config__vocab_size": "128256"}, "pretrained_config.vocab_size"),
        ({"pretrained_config__vocab_size": 0}, "pretrained_config.vocab_size"),
        ({"pretrained_config__vocab_size": 1 << 40}, "pretrained_config.vocab_size"),
        ({"pretrained_config__num_hidden_layers": 10**9}, "pretrained_config.num_hidden_layers"),
        ({"pretrained_config__mapping__pp_size": 10**18}, "pretrained_config.mapping.pp_size"),
        ({"build_config__max_seq_len": 10**30}, "build_config.max_seq_len"),
        ({"build_config__max_draft_len": 8200}, "build_config.max_draft_len"),
        ({"build_config__plugin_config__context_fmha": [None]}, "build_config.plugin_config.context_fmha"),
        ({"pretrained_config__dtype": None}, "pretrained_config.dtype"),
        ({"pretrained_config__mapping": ...}, "pretrained_config.mapping"),
        ({"pretrained_config__mapping__tp_size": "4"}, "pretrained_config.mapping.tp_size"),
        ({"pretrained_config__mapping__tp_size": True}, "pretrained_config.mapping.tp_size"),
        ({"pretrained_config__quantization": "FP8"}, "pretrained_config.quantization"),
        ({"pretrained_config__quantization__quant_algo": 8}, "pretrained_config.quantization.quant_algo"),
        ({"pretrained_config__rotary_scaling": "linear"}, "pretrained_config.rotary_scaling"),
        ({"build_config__max_seq_len": None}, "build_config.max_seq_len"),
        ({"build_config__max_draft_len": -1}, "build_config.max_draft_len"),
        ({"build_config__max_draft_len": ...}, "build_config.max_draft_len"),
        ({"build_config__speculative_decoding_mode": [2]}, "build_config.speculative_decoding_mode"),
        ({"build_config__plugin_config": 7}, "build_config.plugin_config"),
        ({"build_config__plugin_config__use_paged_context_fmha": "yes"}, "plugin_config.use_paged_context_fmha"),
        ({"build_config__gather_context_logits": 9}, "build_config.gather_context_logits"),
    ],
)
def test_a_wrong_value_is_named_with_file_and_key(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(engine_config(**changes)))
    with pytest.raises(BuildError) as caught:
        read_engine_config(tmp_path)
    assert caught.value.where == str(path)
    assert key in caught.value.message
    assert caught.value.fix


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    document = engine_config(pretrained_config__dtype=1, build_config__max_batch_size="4", version=...)
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(BuildError, match="3 problems") as caught:
        read_engine_config(tmp_path)
    for key in ("pretrained_config.dtype", "build_config.max_batch_size", "version"):
        assert key in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '"x"', "{}", "\x00", '{"version": NaN}', "[" * 100_000, '{"a": 1e999}', "9" * 5000],
)
def test_what_is_no_engine_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BuildError, match=r"config\.json"):
        read_engine_config(tmp_path)


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}, "a Hugging Face checkpoint"),
        ({"architecture": "LlamaForCausalLM", "mapping": {"tp_size": 1}}, "a converted checkpoint"),
    ],
)
def test_folders_taken_for_an_engine(tmp_path: Path, document: dict[str, Any], what: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(BuildError, match=f"is that of {what}, not of an engine"):
        read_engine_config(tmp_path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BuildError, match="cannot be read as JSON"):
        read_engine_config(tmp_path)


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BuildError, match="is a file, an engine is a folder"):
        read_engine_config(tmp_path / "file")
    with pytest.raises(BuildError, match="no such folder"):
        read_engine_config(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BuildError, match="is empty"):
        read_engine_config(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rank0.engine").write_bytes(b"x")
    with pytest.raises(BuildError, match=r"not an engine folder: it has no config\.json"):
        read_engine_config(tmp_path / "other")


def test_engines_of_the_torch_runtime_are_recognised(tmp_path: Path) -> None:
    engines = {engine.role: read_engine_config(engine.path) for engine in build_engines(toy_spec(tmp_path))}
    assert {config.runtime for config in engines.values()} == {"torch"}
    assert engines["target"].speculates
    assert not engines["baseline"].speculates
    assert engines["draft"].max_draft_len == 0


def test_flags_and_names_of_other_writers() -> None:
    document = engine_config(
        build_config__plugin_config__use_paged_context_fmha="enable",
        build_config__plugin_config__context_fmha=2,
        pretrained_config__quantization__quant_algo="QuantAlgo.FP8",
        pretrained_config__quantization__kv_cache_quant_algo="NO_QUANT",
        pretrained_config__num_key_value_heads=[8, 4, 8],
    )
    config, problems = parse_engine_config(document)
    assert problems == ()
    assert config is not None
    assert config.paged_context_fmha is True
    assert config.context_fmha is True
    assert config.quant_algo == "FP8"
    assert config.kv_cache_quant_algo is None
    assert config.kv_heads == 8
