"""TensorRT engines read back before a repository is written for them: what they are, not what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtspec.building import engine_path
from trtspec.building.identity import tokenizer_files
from trtspec.building.inspection import EngineConfig, Expectation, inspect_engines, read_engine_config, refuse
from trtspec.building.inspection.requested import recorded_expectation
from trtspec.checkpoints.reading import child_names
from trtspec.errors import ArtefactMissing
from trtspec.repository.ending import end_ids
from trtspec.rules.registry import Finding
from trtspec.spec import Role, SpecFile

__all__ = ["ServedEngine", "read_engines", "tokenizer_of"]


@dataclass(frozen=True)
class ServedEngine:
    """A finished engine with what lies beside it.

    tokenizer: the folder that has its tokenizer: its own, else its checkpoint's; None when neither has one.
    """

    role: Role
    path: Path
    config: EngineConfig
    end_ids: tuple[int, ...]
    tokenizer: Path | None

    @property
    def request_tokens(self) -> int:
        """Prompt and answer together; the draft tokens of a last round have room on top in a target engine."""
        return self.config.max_seq_len - self.config.max_draft_len

    @property
    def half_logits(self) -> bool:
        """True for an engine whose logits are FP16."""
        return self.config.logits_dtype == "float16"


def read_engines(spec_file: SpecFile, roles: Sequence[Role]) -> tuple[dict[Role, ServedEngine], tuple[Finding, ...]]:
    """The engines of `roles`, and what was found that does not forbid serving them.

    ArtefactMissing for one that is not there, EngineRejected with every error that forbids serving.
    """
    paths = {role: engine_path(spec_file, role) for role in roles}
    expected = [(path, _expectation(spec_file, role, path)) for role, path in paths.items()]
    findings = inspect_engines(expected, acceptance=spec_file.spec.speculation.acceptance)
    refuse(spec_file.path, findings)
    return {role: _served(spec_file, role, path) for role, path in paths.items()}, findings


def _expectation(spec_file: SpecFile, role: Role, path: Path) -> Expectation:
    """What a spec asks of an engine that it names, or what was asked when it was built, and today's draft length."""
    if spec_file.given_engine(role) is not None:
        from trtspec.building.given import given_expectation

        return given_expectation(spec_file, role)
    from trtspec.building.built import read_manifest

    recorded = recorded_expectation(role, spec_file.spec.runtime, read_manifest(path))
    return replace(recorded, draft_length=spec_file.spec.speculation.draft_length if role == "target" else None)


def _served(spec_file: SpecFile, role: Role, path: Path) -> ServedEngine:
    folders = [path.resolve()]
    if spec_file.source(role).checkpoint is not None:
        folders.append(spec_file.checkpoint(role))
    with_tokenizer = (folder for folder in folders if folder.is_dir() and tokenizer_files(child_names(folder)))
    return ServedEngine(role, folders[0], read_engine_config(path), end_ids(folders), next(with_tokenizer, None))


def tokenizer_of(engines: Mapping[Role, ServedEngine], roles: Sequence[Role]) -> Path:
    """The tokenizer of the first of `roles` that has one; ArtefactMissing when none has."""
    found = next((engines[role].tokenizer for role in roles if engines[role].tokenizer is not None), None)
    if found is None:
        engine = engines[roles[0]]
        raise ArtefactMissing(
            f"there is no tokenizer for the {engine.role} engine: neither beside it nor in a checkpoint",
            where=str(engine.path),
            fix="give target.checkpoint too, or copy the tokenizer's files beside the engine",
        )
    return found
