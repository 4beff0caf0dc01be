"""The directions of imports (cli → domain packages → speculation, spec → base modules), held by walking the sources.

A new edge that keeps the directions goes into the table; one that turns them round does not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "trtspec"
# "": `from trtspec import __version__`
BASE = {"chat_template", "cores", "errors", "units", "files", "provenance", "progress", "supervisor", ""}

# package → the others that it may import, besides the base modules
ALLOWED: dict[str, set[str]] = {
    # base: nothing but each other
    **{name: set() for name in BASE},
    "spec": set(),
    "speculation": set(),
    "hardware": set(),
    "toolchain": {"spec"},
    # domain
    "checkpoints": {"spec"},
    "rules": {"checkpoints", "hardware", "spec", "toolchain"},
    "building": {"checkpoints", "hardware", "rules", "spec", "toolchain"},
    "planning": {"building", "checkpoints", "hardware", "rules", "spec", "toolchain"},
    "torch_runtime": {"checkpoints"},
    "triton_models": {"speculation", "torch_runtime"},
    "repository": {"building", "checkpoints", "planning", "rules", "spec", "speculation", "toolchain", "triton_models"},
    "wire": {"spec"},
    "openai_api": {"serving", "spec", "wire"},
    "serving": {"building", "planning", "repository", "spec", "toolchain", "wire"},
    "loadtest": {"building", "checkpoints", "serving", "spec", "wire"},
    "verification": {"loadtest", "spec", "wire"},
    "tuning": {"loadtest", "spec", "wire"},
    "reports": {"loadtest", "planning", "spec", "wire"},
    "doctor": {"building", "hardware", "serving", "spec", "toolchain"},
    "training": {"building", "checkpoints", "loadtest", "spec", "torch_runtime"},
    "acceptance": {"building", "spec", "toolchain"},
    "demo": {"checkpoints", "spec"},
    "deploy": {"triton_models"},
    # edge
    "cli": {
        "building", "checkpoints", "demo", "doctor", "hardware", "loadtest", "openai_api", "planning", "reports",
        "repository", "rules", "serving", "spec", "toolchain", "training", "tuning", "verification", "wire",
    },
    "__main__": {"cli"},
}  # fmt: skip

# package → packages from elsewhere that it may import when it is imported itself; all others inside functions
THIRD_PARTY: dict[str, set[str]] = {
    "cli": {"click", "rich"},
    "reports": {"rich"},  # the console renderer
    "spec": {"pydantic", "pydantic_core", "yaml"},
    "demo": {"yaml"},
    "toolchain": {"packaging"},
    # the process of the endpoint; what starts it imports none of them
    "openai_api": {"fastapi", "pydantic", "starlette", "uvicorn"},
    "speculation": {"numpy"},
    # these run in a server's model process or in a training job, never in a command
    "torch_runtime": {"numpy", "torch"},
    "triton_models": {"numpy", "triton_python_backend_utils", "speculation", "chat_template"},
    "training": {"numpy", "torch"},
}


@dataclass(frozen=True)
class Import:
    """One import: where it stands, what it names (`trtspec.spec.model`), and whether it runs at import time."""

    file: Path
    line: int
    module: str
    at_top: bool
    relative: bool

    @property
    def place(self) -> str:
        return f"{self.file.relative_to(PACKAGE.parent)}:{self.line} imports {self.module}"


def package_of(file: Path) -> str:
    """`spec` for trtspec/spec/model.py, `units` for trtspec/units.py, "" for trtspec/__init__.py."""
    first = file.relative_to(PACKAGE).with_suffix("").parts[0]
    return "" if first == "__init__" else first


def imports_of(file: Path) -> Iterator[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    late = {id(inner) for node in ast.walk(tree) if defers(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        at_top = id(node) not in late
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, at_top, relative=False)
        elif isinstance(node, ast.ImportFrom):
            for module in named_modules(absolute(file, node), node):
                yield Import(file, node.lineno, module, at_top, relative=node.level > 0)


def defers(node: ast.AST) -> bool:
    """True for what does not run when the module is imported: functions, and blocks for type checkers."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def named_modules(module: str, node: ast.ImportFrom) -> set[str]:
    """`module`, or for `from trtspec import errors` the module `trtspec.errors`."""
    if module != "trtspec":
        return {module}
    parts = {"" if alias.name == "__version__" else f".{alias.name}" for alias in node.names}
    return {f"{module}{part}" for part in parts}


def absolute(file: Path, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    folder = ("trtspec", *file.relative_to(PACKAGE).parent.parts)
    return ".".join([*folder[: len(folder) - node.level + 1], *([node.module] if node.module else [])])


def own_package(module: str) -> str | None:
    """The part of trtspec that `module` belongs to; None for other packages."""
    parts = module.split(".")
    return None if parts[0] != "trtspec" else parts[1] if len(parts) > 1 else ""


EVERY = [found for file in sorted(PACKAGE.rglob("*.py")) for found in imports_of(file)]


def test_the_walk_finds_the_sources() -> None:
    assert len(EVERY) > 300
    assert any(found.relative for found in EVERY)
    assert any(not found.at_top for found in EVERY)


def test_every_package_is_in_the_table() -> None:
    assert {package_of(file) for file in PACKAGE.rglob("*.py")} == set(ALLOWED)


def test_imports_keep_their_directions() -> None:
    wrong = [
        found.place
        for found in EVERY
        if (other := own_package(found.module)) is not None
        and other != package_of(found.file)
        and other not in ALLOWED[package_of(found.file)] | BASE
    ]
    assert wrong == []


def test_the_table_has_no_cycles_and_nothing_imports_cli() -> None:
    assert [name for name, others in ALLOWED.items() if "cli" in others] == ["__main__"]
    done: set[str] = set()
    left = dict(ALLOWED)
    while left:
        free = {name for name, others in left.items() if others <= done}
        assert free, f"a cycle among {sorted(left)}"
        done |= free
        left = {name: others for name, others in left.items() if name not in free}


def test_base_modules_import_no_package() -> None:
    wrong = [
        found.place
        for found in EVERY
        if package_of(found.file) in BASE and own_package(found.module) not in BASE | {None}
    ]
    assert wrong == []


def test_packages_from_elsewhere_are_imported_where_they_are_needed() -> None:
    wrong = [
        found.place
        for found in EVERY
        if found.at_top
        and (name := found.module.partition(".")[0]) not in sys.stdlib_module_names | {"trtspec"}
        and name not in THIRD_PARTY.get(package_of(found.file), set())
    ]
    assert wrong == []


def test_speculation_can_be_copied_out() -> None:
    """It runs inside Triton as the package `speculation`: standard library, numpy and relative imports only."""
    for found in EVERY:
        if package_of(found.file) != "speculation":
            continue
        allowed = found.relative or found.module.partition(".")[0] in sys.stdlib_module_names | {"numpy"}
        assert allowed, found.place
        assert own_package(found.module) in {None, "speculation"}, found.place


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", ("torch", True)),
        ("def f():\n    import torch", ("torch", False)),
        ("class C:\n    import torch", ("torch", True)),
        ("try:\n    import torch\nexcept ImportError: pass", ("torch", True)),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", ("torch", False)),
        ("from .names import Role", ("trtspec.spec.names", True)),
        ("from ..errors import SpecError", ("trtspec.errors", True)),
        ("from .. import __version__", ("trtspec", True)),
        ("from trtspec import errors", ("trtspec.errors", True)),
        ("from .. import cli", ("trtspec.cli", True)),
    ],
)
def test_the_walk_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, expected: tuple[str, bool]
) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path / "trtspec")
    file = tmp_path / "trtspec" / "spec" / "model.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    *_, last = imports_of(file)
    assert (last.module, last.at_top) == expected
