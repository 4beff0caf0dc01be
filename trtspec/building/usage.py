"""Which engines are in use: by the spec files of a folder, by model repositories, and by kept generations of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.building.engines import planned_steps
from trtspec.building.inventory import Entry
from trtspec.errors import SpecError, TrtspecError
from trtspec.spec import SpecFile, load_spec

__all__ = ["SpecsHere", "Usage", "find_specs", "used_entries"]

_PATTERNS = ("*.yaml", "*.yml")
_MOST_BYTES = 1 << 20  # a spec is smaller
_GENERATIONS = ".generations"  # beside the repositories


@dataclass(frozen=True)
class SpecsHere:
    """The spec files of a folder, and files that look like one and cannot be read (file name → the spec's name)."""

    specs: tuple[SpecFile, ...]
    unreadable: Mapping[str, str | None]


@dataclass(frozen=True)
class Usage:
    """Entry path → who uses it; and names whose use cannot be told, with the reason (None as name: of all)."""

    users: Mapping[Path, tuple[str, ...]]
    unknown: Mapping[str | None, str]

    def of(self, entry: Entry) -> tuple[str, ...]:
        """Spec files and repositories that use an entry."""
        return self.users.get(entry.path, ())

    def doubt(self, entry: Entry) -> str | None:
        """Why it cannot be told whether an entry is used; None when it can."""
        return self.unknown.get(entry.name) or self.unknown.get(None)


def find_specs(root: Path, given: Sequence[Path] = ()) -> SpecsHere:
    """The specs in `root` (YAML files that load as one), and those `given`, for which SpecError is raised."""
    specs = {path.resolve(): load_spec(path) for path in given}
    unreadable: dict[str, str | None] = {}
    for path in sorted(path for pattern in _PATTERNS for path in root.glob(pattern) if path.is_file()):
        if path.resolve() in specs or (text := _text(path)) is None:
            continue
        try:
            specs[path.resolve()] = load_spec(path)
        except SpecError:
            if all(re.search(rf"^{key}\s*:", text, re.MULTILINE) for key in ("target", "draft")):
                name = re.search(r"^name\s*:\s*[\"']?([\w.-]+)", text, re.MULTILINE)
                unreadable[path.name] = name[1] if name else None
    return SpecsHere(tuple(specs.values()), unreadable)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def used_entries(root: Path, entries: Iterable[Entry], specs: SpecsHere) -> Usage:
    """Who uses which entry under `root`. A spec whose checkpoints cannot be read makes its name's entries unknown."""
    known = {entry.path: entry for entry in entries}
    names = {entry.name for entry in known.values()}
    users: dict[Path, list[str]] = {}
    unknown: dict[str | None, str] = {name: f"{file} cannot be read" for file, name in specs.unreadable.items()}
    for spec_file in specs.specs:
        try:
            wanted = _wanted(spec_file, planned=spec_file.spec.name in names)
        except (TrtspecError, OSError) as error:
            unknown[spec_file.spec.name] = f"{spec_file.path.name}: {error}"
            continue
        _enter(users, known, wanted, spec_file.path.name)
    for repository, label in _repositories(root):
        named = {path for text in _configurations(repository) for path in known if _names(text, path)}
        _enter(users, known, named | _links(repository), label)
    return Usage({path: tuple(dict.fromkeys(found)) for path, found in users.items()}, unknown)


def _enter(users: dict[Path, list[str]], known: Mapping[Path, Entry], paths: Iterable[Path], label: str) -> None:
    for path in {path.resolve() for path in paths}:
        for candidate in known:
            folder = candidate.resolve()
            if path == folder or folder in path.parents:
                users.setdefault(candidate, []).append(label)


def _wanted(spec_file: SpecFile, *, planned: bool) -> set[Path]:
    """Paths in the engines and converted checkpoints of a spec as it is now; `planned`: something of it is there."""
    roles = spec_file.spec.roles
    given = {path for role in roles if (path := spec_file.given_engine(role)) is not None}
    steps = planned_steps(spec_file, roles) if planned else []
    paths = {Path(step["cwd"]) / name for step in steps for name in (*step["inputs"], *step["outputs"])}
    return given | paths


def _repositories(root: Path) -> Iterator[tuple[Path, str]]:
    """Each generated repository, and each kept generation of one (trtspec.repository.generations), with its label."""
    for path in sorted((root / "model_repo").glob("*/*/")):
        if path.name != _GENERATIONS:
            yield path, f"repository {path.parent.name}/{path.name}"
    for path in sorted((root / "model_repo").glob(f"*/{_GENERATIONS}/*/*/repository/")):
        name, _, arm, _ = path.parts[-5:-1]
        yield path, f"a generation of {name}/{arm}"


def _configurations(repository: Path) -> list[str]:
    """The text of each model's config.pbtxt."""
    return [text for path in sorted(repository.glob("*/config.pbtxt")) if (text := _text(path)) is not None]


def _names(text: str, folder: Path) -> bool:
    return str(folder) in text or str(folder.resolve()) in text


def _links(repository: Path) -> set[Path]:
    """Where symbolic links in it lead: engines and tokenizers that are placed there without being copied."""
    return {path.resolve() for path in repository.rglob("*") if path.is_symlink()}
