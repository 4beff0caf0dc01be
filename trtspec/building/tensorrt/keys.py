"""Content keys of converted checkpoints and engines, and the identity of the checkpoint behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.building.identity import HashMemory, tokenizer_files
from trtspec.checkpoints.reading import child_names, require_file
from trtspec.checkpoints.weights import INDEX, SINGLE
from trtspec.files import read_json
from trtspec.progress import Reporter
from trtspec.provenance import file_sample, file_sha256, text_key

__all__ = ["EngineKeyParts", "Identity", "IdentityReader", "checkpoint_key", "engine_key", "folder_identity"]

_FORMAT = "tensorrt-1"  # changes when a folder made of the same inputs changes
_MODEL_FILES = ("config.json", INDEX, "hf_quant_config.json", "quantize_config.json", "quant_config.json")


@dataclass(frozen=True)
class Identity:
    """What decides a checkpoint's content: name → what is known of the file.

    `sha256:…` for small files, `size:… sample:…` for weight files (`sha256:…` with a full hash), `absent` for a weight
    file that the index names and that is not here.
    """

    model: Mapping[str, str]
    tokenizer: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Both together, as a manifest records them."""
        return {**self.model, **self.tokenizer}

    @property
    def absent(self) -> list[str]:
        """Weight files that are not here."""
        return [name for name, value in self.model.items() if value == "absent"]

    def weight_files(self) -> list[str]:
        """Names of the weight files."""
        return [name for name in self.model if name.endswith(".safetensors")]


@dataclass(frozen=True)
class IdentityReader:
    """Reads identities; with `full` weights are hashed in full, and the hashes remembered in `memory`."""

    memory: HashMemory
    reporter: Reporter
    full: bool = False

    def read(self, folder: Path, *, code: bool = False, recorded: Mapping[str, str] | None = None) -> Identity:
        """The identity of the checkpoint in `folder` (with `code`: its Python files too).

        `recorded` is the identity in a manifest: it stands for weight files that are not here any more, and a full
        hash in it is answered with one. CheckpointError when `folder` is no folder.
        """
        names = child_names(folder)
        small = [name for name in _MODEL_FILES if name in names]
        small += sorted(name for name in names if code and name.endswith(".py"))
        model = {name: _small(folder / name) for name in small}
        others = [*tokenizer_files(names), *(name for name in names if name == "generation_config.json")]
        model |= self._weights(folder, names, recorded or {})
        return Identity(model, {name: _small(folder / name) for name in others})

    def _weights(self, folder: Path, names: Sequence[str], recorded: Mapping[str, str]) -> dict[str, str]:
        gone = [name for name in recorded if name.endswith(".safetensors")] or [SINGLE]
        files = _weight_files(folder, names) or gone
        wanted = [name for name in files if self.full or recorded.get(name, "").startswith("sha256:")]
        here = {name for name in files if name in names and (folder / name).exists()}  # a link may lead nowhere
        present = [name for name in wanted if name in here]
        hashes = self.memory.hashes(folder, present, self.reporter) if present else {}
        found = {name: f"sha256:{value}" for name, value in hashes.items()}
        found |= {name: _sampled(folder / name) for name in here if name not in found}
        return {name: found.get(name) or recorded.get(name, "absent") for name in files}


def _small(path: Path) -> str:
    return f"sha256:{file_sha256(require_file(path))}"


def _weight_files(folder: Path, names: Sequence[str]) -> list[str]:
    """Weight files as loaders choose them, whether they are here or not."""
    if SINGLE in names:
        return [SINGLE]
    if INDEX in names:
        return _indexed(folder / INDEX)
    return [name for name in names if name.endswith(".safetensors")]


def _indexed(path: Path) -> list[str]:
    try:
        return sorted({str(name) for name in read_json(path)["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # the checks say what is wrong with it


def _sampled(path: Path) -> str:
    return f"size:{require_file(path).stat().st_size} sample:{file_sample(path)}"


def folder_identity(folder: Path) -> str:
    """What is in a folder of texts, wherever it lies: names, sizes and samples of its files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return f"folder:{text_key([f'{path.relative_to(folder).as_posix()}={_sampled(path)}' for path in files])}"


def checkpoint_key(identity: Identity, version: str, argvs: Iterable[Sequence[str]], *, calibrated: bool) -> str:
    """Key of the converted checkpoint that `argvs` (with placeholders for places) make with TensorRT-LLM `version`.

    The tokenizer counts only where it has a part: texts for a calibration. The GPU does not.
    """
    files = identity.files if calibrated else identity.model
    return text_key([_FORMAT, "checkpoint", version, *_flat(argvs), *_pairs(files)])


@dataclass(frozen=True)
class EngineKeyParts:
    """What an engine is made of besides its commands: the converted checkpoint, the version, the GPU architecture."""

    checkpoint: str
    version: str
    sm: int | None


def engine_key(parts: EngineKeyParts, identity: Identity, argvs: Iterable[Sequence[str]]) -> str:
    """Key of the engine folder (the tokenizer's files lie in it, so they count)."""
    sm = "unknown" if parts.sm is None else str(parts.sm)
    fixed = [_FORMAT, "engine", parts.checkpoint, parts.version, f"sm{sm}"]
    return text_key([*fixed, *_flat(argvs), *_pairs(identity.tokenizer)])


def _flat(argvs: Iterable[Sequence[str]]) -> list[str]:
    return [part for argv in argvs for part in (*argv, "\n")]


def _pairs(files: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(files.items())]
