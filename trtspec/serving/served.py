"""What a model repository serves: models, their engines and ranks, and every folder that a server must see for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trtspec.errors import BuildError, ServerError
from trtspec.spec import Arm, SpecFile
from trtspec.spec.names import FRONTEND_MODEL

__all__ = ["BACKEND", "Served", "ServedModel", "expected_served", "frontend_parameters", "read_served"]

BACKEND = "tensorrtllm"
_PATHS = ("gpt_model_path", "encoder_model_path", "tokenizer_dir", "lora_prefetch_dir")
_WEIGHTS = ("rank*.engine", "*.safetensors")


@dataclass(frozen=True)
class ServedModel:
    """One model of a repository.

    ranks: MPI ranks of its engine (0: no TensorRT-LLM engine). version: TensorRT-LLM that built it, where known.
    folders: where it reads, outside of the repository.
    """

    name: str
    backend: str
    instances: int = 1
    ranks: int = 0
    version: str | None = None
    participants: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    fast_logits: bool = False
    folders: tuple[Path, ...] = ()
    bytes: int = 0


@dataclass(frozen=True)
class Served:
    """The models of a repository; `origin` says whether it was read or is what the spec would lead to."""

    models: tuple[ServedModel, ...]
    origin: str = "repository"

    @property
    def engines(self) -> tuple[ServedModel, ...]:
        """Models with TensorRT-LLM engines, drafts first: the order in which they are loaded."""
        found = [model for model in self.models if model.ranks]
        return tuple(sorted(found, key=lambda model: (not model.name.endswith("_draft"), model.name)))

    @property
    def others(self) -> tuple[ServedModel, ...]:
        """The models in front of them."""
        return tuple(model for model in self.models if not model.ranks)

    @property
    def load_order(self) -> tuple[str, ...]:
        """Draft, target, then what calls them."""
        return tuple(model.name for model in (*self.engines, *self.others))

    @property
    def python_instances(self) -> int:
        """Model instances that are Python processes."""
        return sum(model.instances for model in self.models if model.backend == "python")

    @property
    def bytes(self) -> int:
        """Weights that have to be read at the start."""
        return sum(model.bytes for model in self.models)

    @property
    def version(self) -> str | None:
        """TensorRT-LLM of the engines; None when no engine says it."""
        return next((model.version for model in self.engines if model.version), None)


def read_served(repository: Path, root: str | None = None) -> Served | None:
    """What the config.pbtxt files below `repository` say; None when there are none. `root`: its path for the server."""
    files = sorted(repository.glob("*/config.pbtxt"))
    return Served(tuple(_read_model(path, repository, root) for path in files)) if files else None


def frontend_parameters(repository: Path) -> Mapping[str, str]:
    """The frontend's model parameters; none where its config.pbtxt is not there."""
    path = repository / FRONTEND_MODEL / "config.pbtxt"
    return _parameters(_read_config(path)) if path.is_file() else {}


def _read_config(path: Path) -> Any:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), ModelConfig())
    except (OSError, ValueError, text_format.ParseError) as error:
        raise ServerError(f"cannot read {path}: {error}", fix="trtspec repo") from None


def _parameters(config: Any) -> dict[str, str]:
    return {key: str(item.string_value) for key, item in config.parameters.items()}


def _read_model(path: Path, repository: Path, root: str | None) -> ServedModel:
    config = _read_config(path)
    values = _parameters(config)
    places = [_here(values[key], repository, root) for key in _PATHS if values.get(key)]
    name = str(config.name or path.parent.name)
    instances = max(1, sum(max(1, int(group.count)) for group in config.instance_group))
    if config.backend != BACKEND:
        weights = sum(_weight_bytes(place) for place in places)
        return ServedModel(name, str(config.backend), instances, folders=tuple(places), bytes=weights)
    return _engine_model(name, values, places)


def _engine_model(name: str, values: Mapping[str, str], places: list[Path]) -> ServedModel:
    from trtspec.building.inspection import read_engine_config

    try:
        config = read_engine_config(places[0]) if places else None
    except BuildError:
        config = None  # not here (a container's path), or damaged: the server will say so
    return ServedModel(
        name,
        BACKEND,
        ranks=config.world_size if config else 1,
        version=config.version if config else None,
        participants=_numbers(values.get("participant_ids", "")),
        gpus=_numbers(values.get("gpu_device_ids", "")),
        fast_logits=values.get("speculative_decoding_fast_logits", "").lower() in ("true", "1"),
        folders=tuple(places),
        bytes=_weight_bytes(places[0]) if places else 0,
    )


def _here(text: str, repository: Path, root: str | None) -> Path:
    """The place on this machine of a path as the server sees it."""
    path = PurePosixPath(text)
    if root and path.is_relative_to(root):
        return repository / path.relative_to(root)
    return Path(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace(";", ",").split(",") if part.strip().isdigit())


def _weight_bytes(folder: Path) -> int:
    return sum(_size(path) for pattern in _WEIGHTS for path in folder.glob(pattern)) if folder.is_dir() else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def expected_served(spec_file: SpecFile, arm: Arm) -> Served:
    """What the arm's repository will serve by the spec alone: for a preview before there is one."""
    from trtspec.planning.placement import place

    spec = spec_file.spec
    if spec.runtime != "tensorrt_llm":
        names = [*spec.models(arm), FRONTEND_MODEL]
        return Served(tuple(ServedModel(name, "python") for name in names), "spec")
    count = max(spec.target.world_size, spec.draft.world_size, spec.hardware.count if spec.hardware else 1)
    placement = place(spec, count)
    launch = placement.launches[arm]
    models = [
        ServedModel(
            model,
            BACKEND,
            ranks=placement.roles[role].tp * placement.roles[role].pp,
            version=spec.tensorrt_llm.version,
            participants=_numbers(launch.participant_ids.get(role, "")),
            gpus=placement.roles[role].gpus,
            fast_logits=bool(launch.participant_ids),
            folders=(_engine_folder(spec_file, role),),
        )
        for model, role in spec.models(arm).items()
    ]
    return Served((*models, ServedModel(FRONTEND_MODEL, "python")), "spec")


def _engine_folder(spec_file: SpecFile, role: Any) -> Path:
    return Path(os.path.abspath(spec_file.given_engine(role) or spec_file.engines(role)))  # noqa: PTH100
