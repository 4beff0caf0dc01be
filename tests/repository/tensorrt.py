"""Specs with TensorRT engines of any release, the layouts that are compared with golden files, and how these look."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.builders import tiny_tokenizer_files
from tests.building.inspection.engines import engine_folder
from trtspec.repository import generate
from trtspec.spec import ARMS, SpecFile, load_spec

__all__ = [
    "DRAFTERS",
    "GOLDEN",
    "GOLDEN_FILES",
    "GOLDEN_VERSIONS",
    "LAYOUTS",
    "VERSIONS",
    "golden_text",
    "layout_spec",
    "model_configs",
    "parameters",
    "tensorrt_spec",
]

GOLDEN = Path(__file__).parent / "data" / "tensorrt"
VERSIONS = {"0.19": "0.19.0", "0.20": "0.20.0", "0.21": "0.21.0", "1.0": "1.0.0", "1.1": "1.1.0", "1.2": "1.2.1"}
GOLDEN_VERSIONS = ("0.19", "0.21", "1.0", "1.1", "1.2")
H100 = "H100-80GB-SXM"
LAYOUTS: dict[str, dict[str, Any]] = {
    "tp1-tp1": {"hardware": {"gpu": H100, "count": 2}, "target": {"gpus": [0]}, "draft": {"gpus": [1]}},
    "tp4-tp1": {"hardware": {"gpu": H100, "count": 4}, "target": {"tp": 4}},
    "shared-gpu": {"hardware": {"gpu": H100, "count": 1}},
    "fast-logits": {
        "hardware": {"gpu": H100, "count": 2},
        "target": {"gpus": [0]},
        "draft": {"gpus": [1]},
        "speculation": {"acceptance": "logits"},
        "serving": {"fast_logits": True},
        "engine": {"pretrained_config__logits_dtype": "float16"},
    },
}
# who drafts changes nothing that releases differ in
DRAFTERS: dict[str, dict[str, Any]] = {
    "ngram": {"hardware": {"gpu": H100, "count": 1}, "draft": {"method": "ngram", "lookup_match": 3}},
    "lookup": {
        "hardware": {"gpu": H100, "count": 1},
        "draft": {"method": "lookup"},
        "speculation": {"draft_length": 3},
    },
}
GOLDEN_FILES = (
    *((version, layout) for version in GOLDEN_VERSIONS for layout in LAYOUTS),
    *(("1.2", layout) for layout in DRAFTERS),
)
_GIB = 1 << 30
_PLAIN = {
    "build_config__speculative_decoding_mode": 1,
    "build_config__max_draft_len": 0,
    "build_config__max_seq_len": 8192,
}


def tensorrt_spec(
    folder: Path,
    version: str = "1.2.1",
    *,
    engine: Mapping[str, Any] | None = None,
    draft_engine: Mapping[str, Any] | None = None,
    **sections: Any,
) -> SpecFile:
    """A spec in `folder` that names engines of `version`; `engine` changes the config.json of all of them."""
    tp = sections.get("target", {}).get("tp", 1)
    ranks = {"pretrained_config__mapping__tp_size": tp, "pretrained_config__mapping__world_size": tp}
    # releases before 1.2 write down the GPU that they built on
    built_on = {} if version.startswith("1.2") else {"build_config__auto_parallel_config": {"cluster_key": "H100-SXM"}}
    common = {**built_on, **(engine or {})}
    kinds: dict[str, dict[str, Any]] = {
        "target": {**ranks, **common},
        "baseline": {**ranks, **_PLAIN, **common},
        "draft": {**_PLAIN, **common, **(draft_engine or {})},
    }
    for role, changes in kinds.items():
        made = engine_folder(folder / "built" / role, version, **changes)
        tiny_tokenizer_files(made)
        (made / "build.log").write_text(f"built in {folder}\n")
    data: dict[str, Any] = {"version": 1, "name": "pair", "runtime": "tensorrt_llm", **sections}
    for role in kinds:
        if sections.get(role, {}).get("method") != "ngram":
            data[role] = {"engine": f"built/{role}", **sections.get(role, {})}
    path = folder / "trtspec.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_spec(path)


def large(spec_file: SpecFile) -> SpecFile:
    """The same with rank files of the sizes that real weights have (they take no space on disk)."""
    for role, size in (("target", 15 * _GIB), ("baseline", 15 * _GIB), ("draft", 3 * _GIB)):
        files = sorted((spec_file.root / "built" / role).glob("rank*.engine"))
        for file in files:
            os.truncate(file, size // len(files))
    return spec_file


def layout_spec(folder: Path, version: str, layout: str) -> SpecFile:
    """One of `LAYOUTS` or `DRAFTERS` with engines of a release."""
    return large(tensorrt_spec(folder, VERSIONS[version], **{**LAYOUTS, **DRAFTERS}[layout]))


def model_configs(spec_file: SpecFile) -> Iterator[tuple[str, Any]]:
    """Each config.pbtxt of both arms, parsed: `arm/model` and its message."""
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    for arm in ARMS:
        for path in sorted(spec_file.repository(arm).glob("*/config.pbtxt")):
            yield f"{arm}/{path.parent.name}", text_format.Parse(path.read_text(), ModelConfig())


def parameters(config: Any) -> dict[str, str]:
    """The parameters of a parsed config.pbtxt."""
    return {key: value.string_value for key, value in config.parameters.items()}


def golden_text(spec_file: SpecFile) -> str:
    """A generated repository without its tensors (the facts hold those): settings and parameters, a line each."""
    return "".join(line for name, config in model_configs(spec_file) for line in _lines(name, config, spec_file.root))


def _lines(name: str, config: Any, root: Path) -> Iterator[str]:
    from google.protobuf import text_format

    rest = type(config)()
    rest.CopyFrom(config)
    for field in ("input", "output", "parameters"):
        rest.ClearField(field)
    yield f"[{name}]\n{text_format.MessageToString(rest, as_one_line=True).strip()}\n"
    values = sorted(parameters(config).items())
    yield from (f"{key} = {value}".replace(str(root), "/spec").rstrip() + "\n" for key, value in values)
    yield "\n"


def _write_golden() -> None:
    import tempfile

    GOLDEN.mkdir(parents=True, exist_ok=True)
    for version, layout in GOLDEN_FILES:
        with tempfile.TemporaryDirectory() as folder:
            spec_file = layout_spec(Path(folder), version, layout)
            generate(spec_file)
            (GOLDEN / f"{version}-{layout}.txt").write_text(golden_text(spec_file))


if __name__ == "__main__":  # python -m tests.repository.tensorrt, on purpose only: deployments rely on these values
    _write_golden()
