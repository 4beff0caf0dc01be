"""Which models an arm's repository has, and the files of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtspec.errors import ArtefactMissing
from trtspec.files import read_json
from trtspec.repository.config import ModelSpec, model_config, pbtxt
from trtspec.repository.ending import end_ids
from trtspec.repository.sources import frontend_files, leaf_files
from trtspec.repository.tensors import FRONTEND_INPUTS, FRONTEND_OUTPUTS, LEAF_INPUTS, LEAF_OUTPUTS
from trtspec.spec.load import SpecFile
from trtspec.spec.names import ARM_ROLES, DRAFT, DRAFT_MODEL, FRONTEND_MODEL, TARGET_MODEL, Arm, Role

__all__ = ["Engine", "arm_files", "read_engine"]

# A draft that has not answered after this time is not waited for; the request goes on without speculation.
_DRAFT_TIMEOUT = 10.0
_MOST_CACHED_TOKENS = 16384


@dataclass(frozen=True)
class Engine:
    """What a repository needs to know of a finished engine."""

    path: Path
    max_seq_len: int
    max_draft_len: int
    vocab_size: int
    end_ids: tuple[int, ...]


def read_engine(path: Path, checkpoint: Path) -> Engine:
    """The engine in `path`, whose end ids are looked for in its own files and in `checkpoint`."""
    try:
        config = read_json(path / "config.json")
        build, pretrained = config["build_config"], config["pretrained_config"]
        return Engine(
            path=path.resolve(),
            max_seq_len=int(build["max_seq_len"]),
            max_draft_len=int(build["max_draft_len"]),
            vocab_size=int(pretrained["vocab_size"]),
            end_ids=end_ids([path, checkpoint]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"is not a readable engine: {type(error).__name__}: {error}"
        raise ArtefactMissing(problem, where=str(path), fix="trtspec build SPEC --force") from None


def arm_files(spec_file: SpecFile, arm: Arm, engines: dict[Role, Engine]) -> dict[str, bytes]:
    """Every file of the arm's repository, relative path → content."""
    files: dict[str, bytes] = {}
    for name, role in ARM_ROLES[arm].items():
        files |= _model_files(_leaf(spec_file, name, engines[role]), leaf_files())
    target = engines[ARM_ROLES[arm][TARGET_MODEL]]
    draft = engines.get(DRAFT) if DRAFT_MODEL in ARM_ROLES[arm] else None
    return files | _model_files(_frontend(spec_file, target, draft), frontend_files())


def _model_files(spec: ModelSpec, sources: dict[str, Path]) -> dict[str, bytes]:
    config: Any = model_config(spec)
    files = {f"{spec.name}/config.pbtxt": pbtxt(config).encode()}
    return files | {f"{spec.name}/1/{name}": source.read_bytes() for name, source in sources.items()}


def _leaf(spec_file: SpecFile, name: str, engine: Engine) -> ModelSpec:
    batch = spec_file.spec.build.max_batch_size
    parameters = {
        "gpt_model_path": str(engine.path),
        # keys and values of finished sequences that are kept for reuse
        "max_tokens_in_paged_kv_cache": str(min(batch * engine.max_seq_len, _MOST_CACHED_TOKENS)),
    }
    return ModelSpec(name, batch, LEAF_INPUTS, LEAF_OUTPUTS, parameters)


def _frontend(spec_file: SpecFile, target: Engine, draft: Engine | None) -> ModelSpec:
    parameters = {
        "tensorrt_llm_model_name": TARGET_MODEL,
        "tensorrt_llm_draft_model_name": DRAFT_MODEL if draft else "",
        "tokenizer_dir": str(target.path),
        "num_draft_tokens": str(spec_file.spec.speculation.draft_length if draft else 0),
        "max_draft_length": str(target.max_draft_len if draft else 0),
        "end_ids": ",".join(str(token) for token in target.end_ids),
        # the target engine has room for the draft tokens of the last round on top, which is no room for requests
        "max_seq_len": str(target.max_seq_len - target.max_draft_len),
        "vocab_size": str(target.vocab_size),
        "draft_timeout_seconds": str(_DRAFT_TIMEOUT),
    }
    batch = spec_file.spec.build.max_batch_size
    return ModelSpec(FRONTEND_MODEL, batch, FRONTEND_INPUTS, FRONTEND_OUTPUTS, parameters)
